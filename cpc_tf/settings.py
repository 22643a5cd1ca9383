"""Frozen dataclasses as settings: a field carries its default, help, unit, source and range, and is checked when set.

`cpc_tf.cli` turns such a dataclass into absl flags and back.
"""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Iterator, Sequence
from typing import Any


class RunEnded(Exception):
    """Why a binary ends before its work is done: its message is shown as one line, `status` is the exit status."""

    status = 1


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
    free_on_resume: bool = False,
) -> Any:
    """A dataclass field that knows its flag.

    Args:
      default: the value when the flag is absent; its type is the flag's type.
      help: what it is, one sentence.
      unit: unit of the value, shown in --help.
      source: where the default comes from (section of the paper).
      choices: the allowed values, if they can be listed.
      minimum, above, maximum: inclusive, exclusive, inclusive bounds of a number.
      free_on_resume: may differ between a run and its resumption.
    """
    return dataclasses.field(
        default=default,
        metadata=dict(
            help=help,
            unit=unit,
            source=source,
            choices=tuple(choices),
            minimum=minimum,
            above=above,
            maximum=maximum,
            free_on_resume=free_on_resume,
        ),
    )


class Settings:
    """Base of every settings dataclass: checks each field's range, then `check()` for what spans several fields."""

    def __init_subclass__(cls):
        # Modules with `from __future__ import annotations` leave texts; a flag needs the type itself.
        hints = typing.get_type_hints(cls)
        cls.__annotations__ = {name: hints[name] for name in cls.__dict__.get("__annotations__", {})}

    def __post_init__(self):
        for field in dataclasses.fields(self):
            if field.metadata:
                _check_range(field, getattr(self, field.name))
        self.check()

    def check(self) -> None:
        """Raises ConfigError if fields contradict each other."""


def leaves(config_class: type) -> Iterator[tuple[type, dataclasses.Field]]:
    """(owning dataclass, field) of every flag below a settings dataclass, nested ones included."""
    for field in dataclasses.fields(config_class):
        if dataclasses.is_dataclass(field.type):
            yield from leaves(field.type)
        else:
            yield config_class, field


def flatten(config: Settings) -> dict[str, Any]:
    """{flag name: value} of a settings object, nested ones included."""
    values = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        values.update(flatten(value) if dataclasses.is_dataclass(value) else {field.name: value})
    return values


def unflatten(config_class: type, values: dict[str, Any]) -> Any:
    """The settings object with these flag values; inverse of `flatten`."""
    arguments = {}
    for field in dataclasses.fields(config_class):
        if dataclasses.is_dataclass(field.type):
            arguments[field.name] = unflatten(field.type, values)
        elif field.name in values:
            arguments[field.name] = values[field.name]
    return config_class(**arguments)


def replace(config: Any, **values: Any) -> Any:
    """A copy of a nested settings object with some flags set to other values."""
    known = flatten(config)
    unknown = set(values) - set(known)
    if unknown:
        raise TypeError(f"no such setting: {sorted(unknown)}")
    return unflatten(type(config), {**known, **values})


def _check_range(field: dataclasses.Field, value: Any) -> None:
    rules = field.metadata
    wanted = ""
    if isinstance(value, float) and not math.isfinite(value):
        wanted = "must be a finite number"
    elif rules["choices"] and value not in rules["choices"]:
        wanted = "must be one of " + ", ".join(map(str, rules["choices"]))
    elif rules["minimum"] is not None and not value >= rules["minimum"]:
        wanted = f"must be at least {rules['minimum']}"
    elif rules["above"] is not None and not value > rules["above"]:
        wanted = f"must be above {rules['above']}"
    elif rules["maximum"] is not None and not value <= rules["maximum"]:
        wanted = f"must be at most {rules['maximum']}"
    if wanted:
        raise ConfigError(f"--{field.name}={value}: {wanted} (default {field.default})")
