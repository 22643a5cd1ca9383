"""A settings dataclass -> absl flags -> the dataclass again, and the frame every binary runs in."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from absl import app, flags, logging

from cpc_tf.settings import ConfigError, RunEnded, Settings, flatten, leaves, unflatten


def run(config_class: type, function: Callable[[Any], None]) -> None:
    """Runs a binary: defines the flags of `config_class`, parses them, calls `function(config)`, exits.

    A RunEnded becomes one line on stderr and its exit status: 2 for a setting that cannot work, 3 after divergence, 143
    after SIGTERM.
    """
    define(config_class, flags.FLAGS, sys.argv[0])
    logging.set_verbosity(logging.WARNING)

    def main(argv: Sequence[str]) -> int | None:
        try:
            if argv[1:]:
                raise ConfigError(_stray(argv[1]))
            function(from_flags(config_class, flags.FLAGS))
        except RunEnded as ended:
            return _complain(ended)

    try:
        app.run(main, flags_parser=_parse)
    except KeyboardInterrupt:
        sys.exit(130)


def define(config_class: type, flag_values: flags.FlagValues, module: str = "cpc_tf") -> None:
    """Defines one flag per field, with its type, default, unit, source and choices."""
    for _, field in leaves(config_class):
        rules = field.metadata
        details = [rules["unit"], rules["source"]]
        help = rules["help"] + "".join(f" [{detail}]" for detail in details if detail)
        common = {"flag_values": flag_values, "module_name": module}
        if field.type is bool:
            flag = flags.BooleanFlag(field.name, field.default, help)
            flags.DEFINE_flag(flag, **common)
            continue
        if rules["choices"]:
            help += " <" + "|".join(map(str, rules["choices"])) + ">"
        parser = {int: flags.IntegerParser, float: flags.FloatParser, str: flags.ArgumentParser}[field.type]()
        flags.DEFINE(parser, field.name, field.default, help, serializer=flags.ArgumentSerializer(), **common)


def from_flags(config_class: type, flag_values: flags.FlagValues) -> Any:
    """The settings that parsed flags hold. Raises ConfigError."""
    return unflatten(config_class, {field.name: flag_values[field.name].value for _, field in leaves(config_class)})


def parse(config_class: type, argv: Sequence[str]) -> Any:
    """The settings that a command line (without the program's name; --flagfile allowed) holds. Raises ConfigError."""
    flag_values = flags.FlagValues()
    flags.DEFINE_string("flagfile", "", "file of flags", flag_values=flag_values)
    define(config_class, flag_values)
    try:
        strays = flag_values(["program", *argv])[1:]
    except flags.Error as error:
        raise ConfigError(_one_line(error)) from error
    if strays:
        raise ConfigError(_stray(strays[0]))
    return from_flags(config_class, flag_values)


def to_flagfile(config: Settings) -> str:
    """The text of a flag file that gives this config when read with --flagfile."""
    lines = []
    for name, value in flatten(config).items():
        lines.append(f"--{name}={str(value).lower() if isinstance(value, bool) else value}")
    return "\n".join(lines) + "\n"


def changed_flags(config: Settings, saved: Settings) -> dict[str, tuple[Any, Any]]:
    """{flag: (value now, value saved)} of settings that differ and may not change when a run is resumed."""
    fixed = [field.name for _, field in leaves(type(config)) if not field.metadata["free_on_resume"]]
    now, before = flatten(config), flatten(saved)
    return {name: (now[name], before[name]) for name in fixed if now[name] != before[name]}


def _parse(argv: Sequence[str]) -> Sequence[str]:
    try:
        return flags.FLAGS(argv)
    except flags.Error as error:
        sys.exit(_complain(ConfigError(_one_line(error))))


def _stray(word: str) -> str:
    return f"{word}: not a flag; settings are given as --name=value, see --help"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).replace("FATAL Flags parsing error:", "").split())


def _complain(ended: RunEnded) -> int:
    print(f"error: {ended}", file=sys.stderr)
    return ended.status
