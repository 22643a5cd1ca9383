"""Turns a settings dataclass into absl flags and back, and runs a binary."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from absl import app, flags, logging

from cpc_tf.settings import ConfigError, RunEnded, leaves, unflatten
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
                raise _stray(argv[1])
            function(from_flags(config_class, flags.FLAGS))
        except RunEnded as ended:
            return _complain(ended)
        except Interrupted as stop:
            return _complain(Stopped(stop.number, "what was saved before is whole"))

    app.run(main, flags_parser=_parse)


def define(config_class: type, flag_values: flags.FlagValues, module: str = "cpc_tf") -> None:
    """Defines one flag per setting, with its type, default, unit, source and choices.

    Settings that are not flags are parsed, too, but not shown by --help.
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


def from_flags(config_class: type, flag_values: flags.FlagValues, recorded: bool = False) -> Any:
    """Returns the settings object with the values of parsed flags.

    Args:
      config_class: the settings class that `define` was given.
      flag_values: parsed flags.
      recorded: whether they are the run.flags of a run, where settings that are not flags may have any value.

    Raises:
      ConfigError: a setting cannot work, or is not a flag and not at its default.
    """
    values = {}
    for owner, field in leaves(config_class):
        value = values[field.name] = flag_values[field.name].value
        if not (recorded or field.metadata["flag"]) and value != field.default:
            raise ConfigError(
                f"--{field.name}={shown(value)}: not configurable from the command line, where it is always "
                f"{field.default}; code can set it ({owner.__module__}.{owner.__name__})"
            )
    return unflatten(config_class, values)


def parse(config_class: type, argv: Sequence[str], recorded: bool = False) -> Any:
    """Returns the settings object of a command line (without the program's name; --flagfile allowed).

    Args:
      config_class: a settings class.
      argv: words of the command line, or lines of a flag file.
      recorded: see `from_flags`.

    Raises:
      ConfigError: as `from_flags`; or a flag is unknown, or has no value of its type.
    """
    flag_values = flags.FlagValues()
    flags.DEFINE_string("flagfile", "", "file of flags", flag_values=flag_values)
    define(config_class, flag_values)
    try:
        strays = flag_values(["program", *_expanded(argv)])[1:]
    except flags.Error as error:
        raise _refusal(error) from error
    if strays:
        raise _stray(strays[0])
    return from_flags(config_class, flag_values, recorded)


_PARSERS = {bool: flags.BooleanParser, int: flags.IntegerParser, float: flags.FloatParser, str: flags.ArgumentParser}
_KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
_LONGEST_NUMBER = 400  # characters; Python refuses to print much longer ones
_LARGEST_FILE = 2**20  # characters
_LONGEST_NAME = 100  # of a flag; absl would look for similar names for minutes


class _Flag(flags.Flag):
    """The flag of a setting."""

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


def _parse(argv: Sequence[str]) -> Sequence[str]:
    try:
        return flags.FLAGS([argv[0], *_expanded(argv[1:])])
    except ConfigError as refusal:
        sys.exit(_complain(refusal))
    except (flags.Error, ValueError) as error:  # ValueError: from absl's own logging flags
        sys.exit(_complain(_refusal(error)))


def _expanded(words: Sequence[str], within: tuple[str, ...] = ()) -> list[str]:
    """Replaces each --flagfile=FILE of a command line by the words of the file.

    Args:
      words: of the command line, or lines of a file.
      within: the nested files that they are lines of, outermost first.

    Raises:
      ConfigError: a file cannot be read, or includes itself.
    """
    found, rest = [], list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if name in ("--flagfile", "-flagfile"):
            if not equals and (within or not rest):
                raise ConfigError("--flagfile: name a file, e.g. --flagfile=flags/photos/pretrain.flags")
            path = os.path.expanduser(value.strip() if equals else rest.pop(0))
            found += _expanded(_lines(path, within), (*within, os.path.realpath(path))) if path else []
        elif word.startswith("-") and len(name) > _LONGEST_NAME:
            raise ConfigError(f"{shown(name)}: no such flag, see --help")
        else:
            found.append(word)
    return found


def _lines(path: str, within: tuple[str, ...]) -> list[str]:
    """The lines of a flag file, without comments."""
    where = f"--flagfile={shown(path)}"
    if "\0" in path:
        raise ConfigError(f"{where}: not the name of a file")
    if os.path.realpath(path) in within:
        raise ConfigError(f"{where}: includes itself; take that line out of {shown(within[-1])}")
    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise ConfigError(f"{where}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{where}: not a text file; a flag file has lines such as --batch_size=64") from error
    if len(text) > _LARGEST_FILE:
        raise ConfigError(f"{where}: too large to be a flag file, which has lines such as --batch_size=64")
    lines = [line for line in text.split("\n") if not line.startswith(("#", "//"))]
    return [line.strip() for line in lines if line.strip()]


def _stray(word: str) -> ConfigError:
    return ConfigError(f"{shown(word)}: not a flag; settings are given as --name=value, see --help")


def _refusal(error: Exception) -> ConfigError:
    return ConfigError(" ".join(str(error).replace("FATAL Flags parsing error:", "").split()))


def _complain(ended: RunEnded) -> int:
    print(f"error: {ended}", file=sys.stderr)
    return ended.status
