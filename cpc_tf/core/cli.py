"""Turns a settings dataclass into absl flags and back, runs a command, and finds the presets.

A preset is a file of flags by name, such as 'photos/pretrain'. A comment at its top says what it is
and costs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import itertools
import logging as standard_logging
import os
import pathlib
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from absl import app, flags, logging

from cpc_tf.core import termination
from cpc_tf.core.settings import (
    ConfigError,
    RunEnded,
    Stopped,
    all_leaves,
    assignments,
    chosen,
    leaves,
    unflatten,
)
from cpc_tf.core.termination import Interrupted
from cpc_tf.core.texts import shown


def run(config_class: type, function: Callable[[Any], Any]) -> NoReturn:
    """Runs a command: defines the flags of `config_class`, parses them, calls `function(config)`,
    exits.

    A RunEnded becomes one line on stderr and its exit status: 2 for a setting that cannot work, 3
    after divergence, 4 where something cannot be written, 5 where memory is exhausted, 6 where
    another process of a cluster was lost, 8 where --data_service repeated batches. After a signal
    the line is no error, and the status 143 (SIGTERM) or 130 (SIGINT).
    """
    termination.watch()
    # which --help begins with
    sys.modules["__main__"].__doc__ = sys.modules[config_class.__module__].__doc__
    flags.DEFINE_string(
        "preset",
        None,
        "Name of a preset, such as 'photos/pretrain'; flags after it win",
        module_name=sys.argv[0],
    )
    flags.DEFINE_string(
        "set",
        None,
        "Settings as NAME=VALUE,...: any flag, including those that only --helpfull shows",
        module_name=sys.argv[0],
    )
    logging.set_verbosity(logging.WARNING)
    logging.get_absl_handler().setFormatter(_Plain())

    def parse_flags(argv: Sequence[str]) -> Sequence[str]:
        nonlocal config_class
        try:
            config_class = _parse(config_class, flags.FLAGS, argv, argv[0])
        except RunEnded as refusal:
            sys.exit(_complain(refusal))
        except SystemExit:  # the help was printed; absl's status for that is 1
            sys.exit(0)
        # as in `... --help | head`; nothing is left to be written at the exit
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(0)
        return argv[:1]

    def main(_) -> int | None:
        with termination.interrupting() as received:
            try:
                function(_from_flags(config_class, flags.FLAGS))
                print(end="", flush=True)  # what cannot be written is said here, not as Python ends
            except RunEnded as ended:
                return _complain(ended)
            except Interrupted as stop:
                return _complain(Stopped(stop.number))
            except Exception:
                if not received:
                    raise
                return _complain(Stopped(received[0]))

    app.run(main, flags_parser=parse_flags)


def parse(config_class: type, argv: Sequence[str]) -> Any:
    """Returns the settings object of a command line.

    Args:
      config_class: a settings class.
      argv: words of the command line without the program's name, or lines of a flag file; --preset
        and --flagfile are allowed.

    Raises:
      ConfigError: a flag is unknown or has no value of its type, or a setting cannot work.
    """
    flag_values = flags.FlagValues()
    flags.DEFINE_string("flagfile", "", "file of flags", flag_values=flag_values)
    config_class = _parse(config_class, flag_values, ["program", *argv])
    return _from_flags(config_class, flag_values)


def parse_run(config_class: type, text: str) -> Any:
    """Returns the settings object of a run.flags, which an earlier version may have written. Raises
    ConfigError.
    """
    # --memory, which changed no figure, is in the files of runs that began while it was a setting.
    lines = [line for line in text.splitlines() if not line.startswith("--memory=")]
    return parse(config_class, config_class.current(lines))


def value_of(field: dataclasses.Field, value: Any) -> Any:
    """Returns a value of a setting, a text or of its own type, as the flag has it. Raises
    ConfigError if it is none.
    """
    flag = _Flag(field.name, field.type, field.default, "")
    try:
        flag.parse(value)
    except flags.IllegalFlagValueError as error:
        raise ConfigError(str(error)) from error
    return flag.value


def define(config_class: type, flag_values: flags.FlagValues, module: str = "cpc_tf") -> None:
    """Defines one flag per setting, with its type, default, unit, source and choices; --help shows
    `module`'s.
    """
    for _, field in leaves(config_class):
        if field.name in flag_values:
            continue
        rules = field.metadata
        help = rules["help"] + "".join(
            f" [{detail}]" for detail in (rules["unit"], rules["source"]) if detail
        )
        if rules["choices"]:
            help += " <" + "|".join(map(str, rules["choices"])) + ">"
        is_detail = rules["detail"] or (config_class.SHOWN and field.name not in config_class.SHOWN)
        shown_with = "details" if is_detail else module
        flags.DEFINE_flag(
            _Flag(field.name, field.type, field.default, help), flag_values, shown_with
        )


# A checkout has the presets at its top, to which the package's folder is a link.
PRESETS = (pathlib.Path(__file__).parents[1] / "flags").resolve()

_KINDS = {
    bool: (flags.BooleanParser, "true or false"),
    int: (flags.IntegerParser, "a whole number"),
    float: (flags.FloatParser, "a number"),
    str: (flags.ArgumentParser, "a text"),
}
# Home directories in paths, which no shell expands behind `--name=`: at the beginning, in lists,
# after folder: or voc:.
_HOME = re.compile(r"(?:^|(?<=[,:]))~[^/,:]*")
_LONGEST_NUMBER = 400  # characters; Python refuses to print much longer ones
_LARGEST_FILE = 2**20  # characters
# Flags that stand for the flags in a file -> the message without a value.
_FILES = {
    "-preset": "--preset: name one, e.g. --preset=photos/pretrain; `cpc-tf presets` lists them",
    "-flagfile": (
        "--flagfile: name a file, e.g. --flagfile=my.flags; a preset is --preset=photos/pretrain"
    ),
}
_LONGEST_NAME = 100  # of a flag; absl would look for similar names for minutes


class _Plain(standard_logging.Formatter):
    """Formats a message of the log as `warning: what`, without absl's date, process and file."""

    def formatMessage(self, record: standard_logging.LogRecord) -> str:
        return f"{record.levelname.lower()}: {record.message}"


class _Flag(flags.Flag):
    """The flag of a setting."""

    def __init__(self, name: str, kind: type, default: Any, help: str):
        parser, self._wanted = _KINDS[kind]
        self._is_number = kind in (int, float)
        self._is_text = kind is str
        serializer = None if kind is bool else flags.ArgumentSerializer()
        super().__init__(parser(), serializer, name, default, help, boolean=kind is bool)

    def parse(self, argument: str) -> None:
        try:
            if self._is_number and len(str(argument)) > _LONGEST_NUMBER:
                raise flags.IllegalFlagValueError
            super().parse(
                _HOME.sub(lambda home: os.path.expanduser(home[0]), argument)
                if self._is_text
                else argument
            )
        except flags.IllegalFlagValueError:
            raise flags.IllegalFlagValueError(
                f"--{self.name}={shown(argument)}: must be {self._wanted} (default {self.default})"
            ) from None


def _parse(
    config_class: type,
    flag_values: flags.FlagValues,
    argv: Sequence[str],
    module: str = "cpc_tf",
) -> type:
    """Defines the flags of a command line and parses it.

    Returns the class of its settings, with those that its CHOICE brings. Raises ConfigError.
    """
    words = _expanded([*_meant_preset(config_class, argv[1:]), *argv[1:]])
    _refuse_hidden(config_class, words)
    chosen_class = chosen(config_class, _value_of_choice(config_class, words))
    define(chosen_class, flag_values, module)
    words = _fitting(chosen_class, words, typed=_expanded(argv[1:], files=False))
    if "--helpfull" in words:
        for value in config_class.choices():
            define(config_class.having(value), flag_values, f"--{config_class.CHOICE}={value}")
    try:
        strays = flag_values([argv[0], *words])[1:]
    except flags.UnrecognizedFlagError as error:
        raise _unfitting(config_class, error) from error
    except (flags.Error, ValueError) as error:  # ValueError: from absl's own logging flags
        raise ConfigError(
            " ".join(str(error).replace("FATAL Flags parsing error:", "").split())
        ) from error
    if strays:
        raise ConfigError(
            f"{shown(strays[0])}: not a flag; settings are given as --name=value, see --help"
        )
    return chosen_class


def _value_of_choice(config_class: type, words: Sequence[str]) -> dict[str, str]:
    """Returns {CHOICE: its value on a command line}; {} if it is not given."""
    if not config_class.CHOICE:
        return {}
    alone = flags.FlagValues()
    alone.set_gnu_getopt()  # flags that it does not know may have their values behind a blank
    flags.DEFINE_string(config_class.CHOICE, None, "", flag_values=alone)
    with contextlib.suppress(flags.Error):  # refused where all are parsed
        alone(["program", *words], known_only=True)
    value = alone[config_class.CHOICE].value
    return {} if value is None else {config_class.CHOICE: value}


def _fitting(chosen_class: type, words: Sequence[str], typed: Sequence[str]) -> Sequence[str]:
    """Returns words without flags that a file has and that only another value of CHOICE brings.

    So a preset of CPC, which has CPC's settings, is one of MoCo with --objective=moco behind it.
    What is `typed` stays, to be refused.
    """
    names = {field.name for _, field in leaves(chosen_class)}
    strange = {word for word in words if _flag_name(word) not in names} - {*typed}
    if strange:
        others = {field.name for _, field in all_leaves(chosen_class)} - names
        words = [word for word in words if word not in strange or _flag_name(word) not in others]
    return words


def _unfitting(config_class: type, error: flags.UnrecognizedFlagError) -> ConfigError:
    """Returns the error of a flag that a command does not have, or only with another value of its
    CHOICE.
    """
    for value in config_class.choices():
        if error.flagname in {field.name for _, field in leaves(config_class.having(value))}:
            choice = f"--{config_class.CHOICE}={value}"
            return ConfigError(
                f"--{error.flagname}: goes only with {choice}; leave it out, or add {choice}"
            )
    return ConfigError(str(error))


def _meant_preset(config_class: type, words: Sequence[str]) -> list[str]:
    """Returns the flag of the preset that some words mean without naming one, if they do; see
    `Settings.PRESETS`.
    """
    flags_of_words = [re.match(r"--?(\w+)(=$)?", word) for word in words]
    given = {flag[1] for flag in flags_of_words if flag and not flag[2]}
    meant = [preset for name, preset in config_class.PRESETS.items() if name in given]
    return [f"--preset={meant[0]}"] if meant and not given & {"preset", "flagfile"} else []


def _refuse_hidden(config_class: type, words: Sequence[str]) -> None:
    """Raises ConfigError, with the reason, if a word is a flag that only other commands have."""
    for word in words:
        name, _, value = word.removeprefix("--").partition("=")
        if name in config_class.HIDDEN:
            raise ConfigError(name, shown(value), config_class.HIDDEN[name])


def _from_flags(config_class: type, flag_values: flags.FlagValues) -> Any:
    """Returns the settings object with the values of parsed flags. Raises ConfigError."""
    return unflatten(
        config_class,
        {field.name: flag_values[field.name].value for _, field in leaves(config_class)},
    )


def _flag_name(word: str) -> str:
    return word.removeprefix("--").partition("=")[0]


def _expanded(words: Sequence[str], within: tuple[str, ...] = (), files: bool = True) -> list[str]:
    """Replaces each --preset=NAME, --flagfile=FILE and --set=NAME=VALUE,... by the flags that it
    stands for.

    `within` are the files that hold these words. Without `files` only --set is replaced.
    """
    expanded = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        flag = name.replace("--", "-", 1)
        if flag in _FILES and files:
            if not equals and (within or not rest):
                raise ConfigError(_FILES[flag])
            value = value.strip() if equals else rest.pop(0)
            path = preset_path(value) if flag == "-preset" else os.path.expanduser(value)
            expanded += (
                _expanded(_lines(path, within), (*within, os.path.realpath(path))) if path else []
            )
        elif flag == "-set":
            pairs = assignments(value if equals or not rest else rest.pop(0))
            expanded += _expanded([f"--{name}={value}" for name, value in pairs.items()], within)
        elif word.startswith("-") and len(name) > _LONGEST_NAME:
            raise ConfigError(f"{shown(name)}: no such flag, see --help")
        else:
            expanded.append(word)
    return expanded


def _lines(path: str, within: tuple[str, ...]) -> list[str]:
    """Returns the lines of a flag file, without comments."""
    where = f"--flagfile={shown(path)}"
    if "\0" in path:
        raise ConfigError(f"{where}: not the name of a file")
    if os.path.realpath(path) in within:
        raise ConfigError(f"{where}: includes itself; remove that line from {shown(within[-1])}")
    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read(_LARGEST_FILE + 1)
    except OSError as error:
        # perhaps of a preset, which the program has
        match = re.search(r"(?:^|/)flags/([\w/]+)\.flags$", path)
        hint = (
            f"; the program has it as --preset={match[1]}"
            if match and match[1] in preset_names()
            else ""
        )
        raise ConfigError(f"{where}: cannot be read ({error.strerror}){hint}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{where}: not a text file; a flag file has lines such as --batch_size=64"
        ) from error
    if len(text) > _LARGEST_FILE:
        raise ConfigError(
            f"{where}: too large to be a flag file, which has lines such as --batch_size=64"
        )
    lines = [line for line in text.split("\n") if not line.startswith(("#", "//"))]
    return [line.strip() for line in lines if line.strip()]


def _complain(ended: RunEnded) -> int:
    if isinstance(ended, Stopped):
        termination.say(str(ended))
    else:
        print(f"error: {ended}", file=sys.stderr)
    return ended.status


class PresetHeader(NamedTuple):
    """The comment at the top of a preset, each part as one line."""

    what: str
    cost: str
    text: str  # all of it, line by line, continued commands joined


def preset_names() -> list[str]:
    """Returns the names of all presets, sorted."""
    return sorted(
        str(path.relative_to(PRESETS).with_suffix("").as_posix())
        for path in PRESETS.glob("*/*.flags")
    )


def preset_path(name: str) -> str:
    """Returns the path of the file of a preset. Raises ConfigError, with similar names, if there is
    none.
    """
    if name in preset_names():
        return str(PRESETS / f"{name}.flags")
    inside = [other for other in preset_names() if other.startswith(f"{name}/")]
    near = inside or difflib.get_close_matches(name, preset_names(), n=3)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    raise ConfigError("preset", shown(name), f"no such preset; {hint}`cpc-tf presets` lists them")


def preset_text(name: str) -> str:
    """Returns the text of a preset. Raises ConfigError if there is none."""
    return pathlib.Path(preset_path(name)).read_text(encoding="utf-8")


def preset_header(name: str) -> PresetHeader:
    """Returns the comment at the top of a preset. Raises ConfigError if there is none."""
    comment = itertools.takewhile(lambda line: line.startswith("#"), preset_text(name).splitlines())
    text = re.sub(r"\\\n\s*", " ", "\n".join(line.lstrip("#").strip() for line in comment))
    what, _, rest = text.partition("\nCommand")
    cost = re.search(r"^Cost: (.*?)(?=^Expected:|^$|\Z)", rest, re.DOTALL | re.MULTILINE)
    return PresetHeader(" ".join(what.split()), " ".join(cost[1].split()) if cost else "", text)
