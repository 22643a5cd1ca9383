"""Frozen dataclasses as settings: a field carries its default, help, unit, source and range, and is
checked when set.

`cpc_tf.core.cli` turns such a dataclass into absl flags and back.
"""

from __future__ import annotations

import contextlib
import copy
import csv
import dataclasses
import functools
import io
import math
import re
import typing
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from cpc_tf.core import termination, texts


class RunEnded(Exception):
    """Ends a binary: the message is shown as one line, `status` is the exit status."""

    status = 1

    def __init__(self, message: str):
        super().__init__(texts.one_line(message))


class Stopped(RunEnded):
    """A signal ended the run; `saved` says what became of the work, `then` how it goes on, as parts
    of a sentence.
    """

    def __init__(
        self,
        number: int,
        saved: str = "what was saved before is intact",
        then: str = "run the same command to resume",
    ):
        super().__init__(f"{termination.stopped_by(number)}: {saved}; {then}")
        self.status = termination.status_of(number)


class ConfigError(RunEnded, ValueError):
    """A setting that cannot work: `ConfigError(flag, value, why)`, or a message alone if it is not
    of one flag.

    `why` says what would be right.
    """

    status = 2

    def __init__(self, *words: Any):
        *named, self.why = words
        self.flag, self.value = named or ("", "")
        super().__init__(f"--{self.flag}={self.value}: {self.why}" if named else self.why)


@contextlib.contextmanager
def renamed(flag: str, name: str) -> Iterator[None]:
    """Lets errors about a flag name another one, whose value is read as that of the flag."""
    try:
        yield
    except ConfigError as error:
        if error.flag != flag:
            raise
        raise ConfigError(name, error.value, error.why) from error


def setting(
    default: Any,
    help: str,
    *,
    unit: str = "",
    source: str = "",
    choices: Sequence[Any] = (),
    minimum: float | None = None,
    above: float | None = None,
    maximum: float | None = None,
    listed: type | None = None,
    path: bool = False,
    free_on_resume: bool = False,
    compared: bool = True,
    derived: bool = False,
    instead: str = "",
    needed: str = "",
    detail: bool = False,
) -> Any:
    """Returns a dataclass field with the properties of its flag.

    Args:
      default: the value when the flag is absent; its type is the flag's type.
      help: a description that stands alone, since --help sorts flags by name.
      unit: unit of the value, shown in --help.
      source: where the default comes from (section of the paper).
      choices: the allowed values, if they can be listed.
      minimum: least value of a number.
      above: lower bound of a number, itself not allowed.
      maximum: largest value of a number. Every number has one, since much larger values fail later
        and unclearly.
      listed: type of the numbers in a text such as '0.5,1,2'; the bounds hold for each.
      path: whether TensorFlow reads or writes checkpoints or modules there.
      free_on_resume: whether it may change when a run is resumed.
      compared: False if runs that differ in it may still be seeds of one method, as they may in
        what is free on resume: a seed, a place, what a result says of its data and its encoder.
      derived: whether the default stands for a value that the run derives from its encoder or its
        data.
      instead: name of another derived setting that says the same in its own way; if one is given,
        none is derived.
      needed: what to name, if a command cannot run without: "a directory for the run, e.g.
        --workdir=runs/first".
      detail: whether only --helpfull shows it: few runs change it, but research may vary it.
    """
    return dataclasses.field(default=default, metadata={**locals(), "choices": tuple(choices)})


# Ranges that many settings have.
fraction = functools.partial(setting, minimum=0, maximum=1)  # a probability, a fraction
side = functools.partial(setting, unit="px", minimum=1, maximum=10_000)
MOST = 2**31 - 1  # largest count: TensorFlow keeps many of them in 32 bits
count = functools.partial(setting, minimum=1, maximum=MOST)
WIDEST = 2**16
width = functools.partial(setting, minimum=1, maximum=WIDEST)  # channels of a layer
LARGEST = 1e38  # largest factor or rate: more is infinite in float32
rate = functools.partial(setting, above=0, maximum=LARGEST)


class Settings:
    """Base of every settings dataclass: checks each field's range, then calls `check()`, which may
    span several.

    A field is a flag. An attribute of the class without a type is none: what must be the same in
    all tasks, or hardly matters.
    """

    # Of a command: nested setting that is no flag of it and has its default -> why.
    HIDDEN: ClassVar[Mapping[str, str]] = {}
    # Of a command: setting -> the preset that is meant where it is given and neither a preset nor a
    # file of flags is.
    PRESETS: ClassVar[Mapping[str, str]] = {}
    # Of a command: the settings that --help shows; (): all that are no details.
    SHOWN: ClassVar[Collection[str]] = ()
    # Of a command: the setting whose value brings settings of its own, as --objective does; '':
    # none.
    CHOICE: ClassVar[str] = ""

    @classmethod
    def choices(cls) -> Collection[str]:
        """Returns the values of CHOICE."""
        return ()

    @classmethod
    def having(cls, value: str) -> type[Settings]:
        """Returns the class of the settings with those that a value of CHOICE brings; cls if it is
        no such value.
        """
        return cls

    @classmethod
    def current(cls, lines: Sequence[str]) -> Sequence[str]:
        """Returns the lines of a run.flags, which an earlier version may have written, with today's
        flags.
        """
        return lines

    def __init_subclass__(cls):
        # With `from __future__ import annotations` types are strings; a flag needs the type itself.
        hints = typing.get_type_hints(cls)
        cls.__annotations__ = {
            name: hints[name] for name in cls.__dict__.get("__annotations__", {})
        }

    def __post_init__(self):
        for field in dataclasses.fields(self):
            if field.metadata:
                _check(field, getattr(self, field.name))
        self.check()

    def check(self) -> None:
        """Raises ConfigError if fields contradict each other."""

    def check_complete(self) -> None:
        """Raises ConfigError if a setting is empty without which the command cannot run; a preset
        may lack it.
        """
        values = flatten(self)
        for _, field in leaves(type(self)):
            if field.metadata["needed"] and not values[field.name]:
                raise ConfigError(f"--{field.name}= is empty: name {field.metadata['needed']}")

    def numbers(self, name: str) -> list[float]:
        """Returns the numbers of a `listed` text such as '0.5,1,2'."""
        return _numbers(
            getattr(self, name), type(self).__dataclass_fields__[name].metadata["listed"]
        )


def leaves(config_class: type) -> Iterator[tuple[type, dataclasses.Field]]:
    """Yields (owning dataclass, field) of every setting that is not hidden, nested ones included.

    A nested object has the defaults of its own: with `geometry: GeometryConfig =
    GeometryConfig(mirror=True)` that of `mirror` is True.
    """

    def inside(owner: type, defaults: Settings | None) -> Iterator[tuple[type, dataclasses.Field]]:
        for field in dataclasses.fields(owner):
            default = getattr(defaults, field.name) if defaults else field.default
            if dataclasses.is_dataclass(field.type):
                yield from inside(field.type, default)
            elif field.name not in config_class.HIDDEN:
                leaf = copy.copy(field)
                leaf.default = default
                yield owner, leaf

    return inside(config_class, None)


def all_leaves(config_class: type) -> Iterator[tuple[type, dataclasses.Field]]:
    """Yields what `leaves` does, and then the settings that only other values of its CHOICE
    bring.
    """
    names = set()
    for each in (config_class, *map(config_class.having, config_class.choices())):
        for owner, field in leaves(each):
            if field.name not in names:
                names.add(field.name)
                yield owner, field


def chosen(config_class: type, values: Mapping[str, Any]) -> type:
    """Returns the class of the settings with those that the value of its CHOICE, if it is given,
    brings.
    """
    name = config_class.CHOICE
    return config_class.having(values[name]) if name in values else config_class


def flatten(config: Settings) -> dict[str, Any]:
    """Returns {name: value} of a settings object, nested ones included and hidden ones not."""
    values = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        values.update(flatten(value) if dataclasses.is_dataclass(value) else {field.name: value})
    return {name: value for name, value in values.items() if name not in config.HIDDEN}


def unflatten(config_class: type, values: Mapping[str, Any]) -> Any:
    """Returns the settings object with these values, else with the defaults; the inverse of
    `flatten`.
    """

    def filled(kind: type, defaults: Settings | None) -> Any:
        arguments = {}
        for field in dataclasses.fields(kind):
            default = getattr(defaults, field.name) if defaults else field.default
            nested = dataclasses.is_dataclass(field.type)
            arguments[field.name] = (
                filled(field.type, default) if nested else values.get(field.name, default)
            )
        return kind(**arguments)

    return filled(chosen(config_class, values), None)


def replace(config: Any, **values: Any) -> Any:
    """Returns a copy of a nested settings object with other values of some settings."""
    before = flatten(config)
    names = {field.name for _, field in leaves(chosen(type(config), values))}
    if unknown := set(values) - names:
        raise TypeError(f"no such setting: {sorted(unknown)}")
    return unflatten(type(config), {**before, **values})


def to_flagfile(config: Settings) -> str:
    """Returns a flag file of all settings: later changes of defaults do not change a recorded
    run.
    """
    values = flatten(config).items()
    return "".join(
        f"--{name}={str(value).lower() if isinstance(value, bool) else value}\n"
        for name, value in values
    )


def open_settings(config: Settings) -> list[str]:
    """Returns the names of the settings whose values the run still has to derive."""
    values = flatten(config)
    fields = {field.name: field for _, field in leaves(type(config))}

    def is_open(name: str) -> bool:
        return fields[name].metadata["derived"] and values[name] == fields[name].default

    return [
        name
        for name, field in fields.items()
        if is_open(name) and is_open(field.metadata["instead"] or name)
    ]


def derived(config: Any, values: Mapping[str, Any], source: str) -> tuple[Any, str]:
    """Gives these values to those of the settings that are still to be derived.

    Returns:
      The settings, and a line for the user about what was derived from `source`; '' if nothing was.
    """
    derivable = {name: values[name] for name in open_settings(config) if name in values}
    flags = " ".join(
        f"--{name}={value:g}" if isinstance(value, float) else f"--{name}={value}"
        for name, value in derivable.items()
    )
    return replace(config, **derivable), f"from {source}: {flags}" if derivable else ""


def restored_settings(config: Any, saved: Any) -> Any:
    """Returns the settings of a run that goes on: what would be derived is as the run began with
    it.
    """
    before = flatten(saved)
    return replace(config, **{name: before[name] for name in open_settings(config)})


def changed_flags(config: Settings, saved: Settings) -> dict[str, tuple[Any, Any]]:
    """Returns {name: (value now, value saved)} of the settings that differ and that a resumed run
    must not change.
    """
    now = flatten(config)
    before = flatten(saved)
    fixed = [
        field.name for _, field in leaves(type(config)) if not field.metadata["free_on_resume"]
    ]
    both = [name for name in fixed if name in before]  # another CHOICE has other settings
    return {name: (now[name], before[name]) for name in both if now[name] != before[name]}


def uncompared(config_class: type) -> set[str]:
    """Returns the names of the settings in which runs of one method may differ."""
    return {
        field.name
        for _, field in leaves(config_class)
        if field.metadata["free_on_resume"] or not field.metadata["compared"]
    }


def joined_names(names: Sequence[str]) -> str:
    """Returns names as the value of a flag: separated by commas, a name with a comma in
    quotation marks.

    joined_names(["a", "b, c"])  # 'a,"b, c"'
    """
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="").writerow(names)
    return buffer.getvalue()


def parted_names(value: str) -> list[str]:
    """Returns the names in the value of a flag: the inverse of `joined_names`."""
    return next(csv.reader([value]), [])


def assignments(text: str, flag: str = "set") -> dict[str, str]:
    """Returns {name: value} of a text such as 'target_dim=128,search_rates=0.1,0.2'; a value may
    have commas.

    Raises ConfigError, naming `flag`, if the text is none.
    """
    pairs = [part.partition("=") for part in re.split(r",\s*(?=\w+=)", text.strip())]
    if not all(equals and re.fullmatch(r"\w+", name) for name, equals, _ in pairs):
        raise ConfigError(
            flag,
            texts.shown(text),
            f"must be NAME=VALUE, separated by commas, e.g. --{flag}=dropout=0.2",
        )
    return {name: value for name, _, value in pairs}


def _check(field: dataclasses.Field, value: Any) -> None:
    """Raises ConfigError if a value violates the metadata of its field."""
    rules = field.metadata
    if rules["choices"]:
        wanted = (
            "" if value in rules["choices"] else f"one of {', '.join(map(str, rules['choices']))}"
        )
    elif rules["listed"]:
        wanted = _wrong_list(str(value), rules)
    elif isinstance(value, str):
        wanted = texts.wrong_text(value, rules["path"])
    else:
        wanted = _wrong_number(value, rules)
    if wanted:
        raise ConfigError(
            field.name, texts.shown(value), f"must be {wanted} (default {field.default})"
        )


def _wrong_number(value: float, rules: Mapping[str, Any]) -> str:
    """Returns what a number must be; '' if it is in its range."""
    minimum, above, maximum = (rules[name] for name in ("minimum", "above", "maximum"))
    # whole numbers may be too large for a float
    if isinstance(value, float) and not math.isfinite(value):
        return "a finite number"
    if minimum is not None and value < minimum:
        return f"at least {minimum}"
    if above is not None and value <= above:
        return f"above {above}"
    if maximum is not None and value > maximum:
        return f"at most {maximum}"
    return ""


def _wrong_list(text: str, rules: Mapping[str, Any]) -> str:
    """Returns what a list of numbers must be; '' if each is in the range."""
    kind = rules["listed"]
    form = f"{'whole ' if kind is int else ''}numbers separated by commas"
    try:
        wrong = (_wrong_number(number, rules) for number in _numbers(text, kind))
        return next((f"{form}, each {wanted}" for wanted in wrong if wanted), "")
    except ValueError:
        return f"{form}, e.g. {'8,16' if kind is int else '0.5,1,2'}"


def _numbers(text: str, kind: type) -> list[float]:
    return [kind(word) for word in text.split(",")] if text else []
