"""Frozen dataclasses as settings: a field carries its default, help, unit, source and range, and is checked when set.

`cpc_tf.cli` turns such a dataclass into absl flags and back.
"""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from cpc_tf import texts


class RunEnded(Exception):
    """Why a binary ends before its work is done: its message is shown as one line, `status` is the exit status."""

    status = 1

    def __init__(self, message: str):
        super().__init__(texts.one_line(message))


class ConfigError(RunEnded, ValueError):
    """A setting that cannot work: one line that names the flag, its value and the way out."""

    status = 2


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
    flag: bool = True,
) -> Any:
    """A dataclass field that knows its flag.

    Args:
      default: the value when the flag is absent; its type is the flag's type.
      help: what it is: sentences that stand alone, since --help sorts flags by name.
      unit: unit of the value, shown in --help.
      source: where the default comes from (section of the paper).
      choices: the allowed values, if they can be listed.
      minimum: least value of a number.
      above: bound of a number that is itself not allowed.
      maximum: largest value of a number. Every number has one: what is far beyond would break something else, later.
      listed: of a text such as '0.5,1,2' the type of its numbers, each of which is in the range above; see `numbers`.
      path: whether checkpoints or modules are read or written there, by TensorFlow.
      free_on_resume: may differ between a run and its resumption.
      flag: False for what code can set and a command cannot. A command or flag file that names it at its default, as
        run.flags do, is read nevertheless.
    """
    return dataclasses.field(default=default, metadata={**locals(), "choices": tuple(choices)})


constant = functools.partial(setting, flag=False)
# Ranges that many settings have.
fraction = functools.partial(setting, minimum=0, maximum=1)  # a probability, a fraction
side = functools.partial(setting, unit="px", minimum=1, maximum=10_000)
MOST = 2**31 - 1  # of what is counted: TensorFlow has many a number in 32 bits
count = functools.partial(setting, minimum=1, maximum=MOST)
WIDEST = 2**16
width = functools.partial(setting, minimum=1, maximum=WIDEST)  # channels of a layer
LARGEST = 1e38  # of factors and rates: in float32 a larger one is infinite
rate = functools.partial(setting, above=0, maximum=LARGEST)


@dataclasses.dataclass(frozen=True)
class Retired:
    """Flags that were merged into another one. Old commands, flag files and run.flags that have them are still read.

    Attributes:
      types: {name of a retired flag: type of its value}.
      into: the flag that replaces them; where it stands behind them, it wins.
      translate: ({today's flag: value} of the whole command, {retired flag: value} of those given) -> {today's flag:
        value} of what the retired ones change.
    """

    types: Mapping[str, type]
    into: str
    translate: Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]


class Settings:
    """Base of every settings dataclass: checks each field's range, then `check()` for what spans several fields.

    Attributes:
      RETIRED: a `Retired`, if flags of this class were merged into another one.
    """

    RETIRED = None

    def __init_subclass__(cls):
        # Modules with `from __future__ import annotations` leave texts; a flag needs the type itself.
        hints = typing.get_type_hints(cls)
        cls.__annotations__ = {name: hints[name] for name in cls.__dict__.get("__annotations__", {})}

    def __post_init__(self):
        for field in dataclasses.fields(self):
            if field.metadata:
                _check(field, getattr(self, field.name))
        self.check()

    def check(self) -> None:
        """Raises ConfigError if fields contradict each other."""

    def numbers(self, name: str) -> list[float]:
        """The numbers of a `listed` text such as '0.5,1,2', none if it is empty."""
        kind = type(self).__dataclass_fields__[name].metadata["listed"]
        return texts.numbers(getattr(self, name), kind)


def leaves(config_class: type) -> Iterator[tuple[type, dataclasses.Field]]:
    """(owning dataclass, field) of every setting below a settings dataclass, nested ones included."""
    for field in dataclasses.fields(config_class):
        if dataclasses.is_dataclass(field.type):
            yield from leaves(field.type)
        else:
            yield config_class, field


def retirements(config_class: type) -> list[Retired]:
    """What a settings dataclass, and those nested in it, retired."""
    nested = [field.type for field in dataclasses.fields(config_class) if dataclasses.is_dataclass(field.type)]
    below = [retired for each in nested for retired in retirements(each)]
    return [*([config_class.RETIRED] if config_class.RETIRED else []), *below]


def flatten(config: Settings) -> dict[str, Any]:
    """{name: value} of a settings object, nested ones included."""
    values = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        values.update(flatten(value) if dataclasses.is_dataclass(value) else {field.name: value})
    return values


def unflatten(config_class: type, values: dict[str, Any]) -> Any:
    """The settings object with these values; inverse of `flatten`."""
    arguments = {}
    for field in dataclasses.fields(config_class):
        if dataclasses.is_dataclass(field.type):
            arguments[field.name] = unflatten(field.type, values)
        elif field.name in values:
            arguments[field.name] = values[field.name]
    return config_class(**arguments)


def replace(config: Any, **values: Any) -> Any:
    """A copy of a nested settings object with other values of some settings."""
    known = flatten(config)
    unknown = set(values) - set(known)
    if unknown:
        raise TypeError(f"no such setting: {sorted(unknown)}")
    return unflatten(type(config), {**known, **values})


def to_flagfile(config: Settings) -> str:
    """The text of a flag file that `cli.parse` turns into this config again: a record of all settings.

    Those that are no flags are in it, too: what a run was made with must not change when a default does.
    """
    lines = []
    for name, value in flatten(config).items():
        lines.append(f"--{name}={str(value).lower() if isinstance(value, bool) else value}")
    return "\n".join(lines) + "\n"


def changed_flags(config: Settings, saved: Settings) -> dict[str, tuple[Any, Any]]:
    """{name: (value now, value saved)} of settings that differ and may not change when a run is resumed."""
    fixed = [field.name for _, field in leaves(type(config)) if not field.metadata["free_on_resume"]]
    now, before = flatten(config), flatten(saved)
    return {name: (now[name], before[name]) for name in fixed if now[name] != before[name]}


def _check(field: dataclasses.Field, value: Any) -> None:
    """Raises ConfigError if a value is not what the metadata of its field say."""
    wanted = _wanted(field.metadata, value)
    if wanted:
        raise ConfigError(f"--{field.name}={texts.shown(value)}: must be {wanted} (default {field.default})")


def _wanted(rules: Mapping[str, Any], value: Any) -> str:
    """What a value should be but is not, '' if it is all right."""
    if rules["choices"] and value not in rules["choices"]:
        return f"one of {', '.join(map(str, rules['choices']))}"
    bounds = [rules[name] for name in ("minimum", "above", "maximum")]
    if rules["listed"]:
        return texts.wrong_list(str(value), rules["listed"], *bounds)
    if isinstance(value, str):
        return texts.wrong_text(value, rules["path"])
    return texts.wrong_number(value, *bounds)
