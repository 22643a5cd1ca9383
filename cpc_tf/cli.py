"""A settings dataclass -> absl flags -> the dataclass again, and the frame every binary runs in."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Sequence
from typing import Any

from absl import app, flags, logging

from cpc_tf.flagfile import expanded
from cpc_tf.settings import ConfigError, RunEnded, leaves, retirements, unflatten
from cpc_tf.termination import Interrupted, Stopped, interrupt_on_signals
from cpc_tf.texts import shown


def run(config_class: type, function: Callable[[Any], None]) -> None:
    """Runs a binary: defines the flags of `config_class`, parses them, calls `function(config)`, exits.

    A RunEnded becomes one line on stderr and its exit status: 2 for a setting that cannot work, 3 after divergence, 4
    where something cannot be written, 5 where memory is exhausted, 143 after SIGTERM, 130 after SIGINT.
    """
    define(config_class, flags.FLAGS, sys.argv[0])
    logging.set_verbosity(logging.WARNING)

    def main(argv: Sequence[str]) -> int | None:
        interrupt_on_signals()
        try:
            if argv[1:]:
                raise ConfigError(_stray(argv[1]))
            function(from_flags(config_class, flags.FLAGS))
        except RunEnded as ended:
            return _complain(ended)
        except Interrupted as stop:
            return _complain(Stopped(stop.number, "what was saved before is whole"))

    app.run(main, flags_parser=_parse)


def define(config_class: type, flag_values: flags.FlagValues, module: str = "cpc_tf") -> None:
    """Defines one flag per setting, with its type, default, unit, source and choices.

    Settings that are no flags and retired flags are parsed, too, but not shown by --help.
    """
    for _, field in leaves(config_class):
        rules = field.metadata
        details = [rules["unit"], rules["source"]]
        help = rules["help"] + "".join(f" [{detail}]" for detail in details if detail)
        if rules["choices"]:
            help += " <" + "|".join(map(str, rules["choices"])) + ">"
        flag = _Flag(field.name, field.type, field.default, help)
        if rules["flag"]:
            flags.DEFINE_flag(flag, flag_values, module)
        else:
            flag_values[field.name] = flag
    for retired in retirements(config_class):
        for name, kind in retired.types.items():
            flag_values[name] = _Flag(name, kind, None, f"replaced by --{retired.into}")


def from_flags(config_class: type, flag_values: flags.FlagValues, recorded: bool = False) -> Any:
    """The settings that parsed flags hold.

    Args:
      config_class: the settings class that `define` was given.
      flag_values: parsed flags.
      recorded: these are the run.flags of a run, in which a setting that is no flag may have any value.

    Raises:
      ConfigError: a setting cannot work, or is no flag and not at its default.
    """
    values = {}
    for owner, field in leaves(config_class):
        value = values[field.name] = flag_values[field.name].value
        if not (recorded or field.metadata["flag"]) and value != field.default:
            raise ConfigError(
                f"--{field.name}={shown(value)}: is no flag any more, its value is always {field.default} "
                f"({owner.__module__}.{owner.__name__})"
            )
    for retired in retirements(config_class):
        since = flag_values[retired.into].order  # later flags win
        given = {name: flag_values[name].value for name in retired.types if flag_values[name].order > since}
        if given:
            values.update(retired.translate(values, given))
    return unflatten(config_class, values)


def parse(config_class: type, argv: Sequence[str], recorded: bool = False) -> Any:
    """The settings that a command line (without the program's name; --flagfile allowed) holds.

    Args:
      config_class: a settings class.
      argv: the words of the command line, or the lines of a flag file.
      recorded: see `from_flags`.

    Raises:
      ConfigError: as `from_flags`; or a flag is unknown, or has no value of its type.
    """
    flag_values = flags.FlagValues()
    flags.DEFINE_string("flagfile", "", "file of flags", flag_values=flag_values)
    define(config_class, flag_values)
    try:
        strays = flag_values(["program", *expanded(argv)])[1:]
    except flags.Error as error:
        raise ConfigError(_one_line(error)) from error
    if strays:
        raise ConfigError(_stray(strays[0]))
    return from_flags(config_class, flag_values, recorded)


_PARSERS = {bool: flags.BooleanParser, int: flags.IntegerParser, float: flags.FloatParser, str: flags.ArgumentParser}
_KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
_LONGEST_NUMBER = 400  # characters; Python does not turn much longer ones into text again


class _Flag(flags.Flag):
    """A flag of a setting.

    Attributes:
      order: grows from one parsed flag to the next; 0 if this one was not given.
    """

    _parsed = itertools.count(1)
    order = 0

    def __init__(self, name: str, kind: type, default: Any, help: str):
        serializer = None if kind is bool else flags.ArgumentSerializer()
        super().__init__(_PARSERS[kind](), serializer, name, default, help, boolean=kind is bool)
        self._kind = kind

    def parse(self, argument: str) -> None:
        try:
            if self._kind in (int, float) and len(str(argument)) > _LONGEST_NUMBER:
                raise flags.IllegalFlagValueError
            super().parse(argument)
        except flags.IllegalFlagValueError:
            raise flags.IllegalFlagValueError(
                f"--{self.name}={shown(argument)}: must be {_KINDS[self._kind]} (default {self.default})"
            ) from None
        self.order = next(_Flag._parsed)


def _parse(argv: Sequence[str]) -> Sequence[str]:
    try:
        return flags.FLAGS([argv[0], *expanded(argv[1:])])
    except ConfigError as refusal:
        sys.exit(_complain(refusal))
    except (flags.Error, ValueError) as error:  # ValueError: of absl's own flags of logging
        sys.exit(_complain(ConfigError(_one_line(error))))


def _stray(word: str) -> str:
    return f"{shown(word)}: not a flag; settings are given as --name=value, see --help"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).replace("FATAL Flags parsing error:", "").split())


def _complain(ended: RunEnded) -> int:
    print(f"error: {ended}", file=sys.stderr)
    return ended.status
