"""What a cell of a table can hold, and how it is written: a plain value, a spread over seeds, a gain."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple


class Cell(NamedTuple):
    """A cell as shown: something smaller may stand after its text, or above it."""

    text: str
    small: str = ""
    above: str = ""


class Spread(NamedTuple):
    """Fractions (0 to 1) that several seeds gave."""

    mean: float
    low: float
    high: float
    runs: int

    def __str__(self) -> str:
        return f"{100 * self.mean:.1f}"


class Gain(NamedTuple):
    """`factor` times as many labels; `bound` is 'more than' or 'less than' where the baseline ends before, else ''."""

    factor: float
    bound: str = ""

    def __str__(self) -> str:
        return f"{self.factor:.2g}" if self.factor < 10 else f"{self.factor:.0f}"


def spread(values: Iterable[float]) -> Spread | None:
    """Of some values; None of none."""
    values = list(values)
    return Spread(sum(values) / len(values), min(values), max(values), len(values)) if values else None


def cell(value: Any) -> Cell:
    """Any value of a table as it is shown: spreads in percent, counts with separators, floats with three digits."""
    if isinstance(value, Cell):
        return value
    if isinstance(value, Spread):
        return Cell(str(value), f"±{50 * (value.high - value.low):.1f}" if value.runs > 1 else "")
    if isinstance(value, Gain):
        return Cell(f"{value}\N{MULTIPLICATION SIGN}", above=value.bound)
    if isinstance(value, float):
        return Cell(f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}")
    return Cell("\N{EN DASH}" if value is None else f"{value:,}" if isinstance(value, int) else str(value))


def plain(name: str, value: Any) -> dict[str, Any]:
    """The columns of a CSV file that hold a value, unrounded."""
    if isinstance(value, (Spread, Gain)):
        first, *more = value._asdict().items()
        return {name: round(first[1], 6), **{f"{name} {key}": part for key, part in more}}
    return {name: value.text if isinstance(value, Cell) else value}


def percent(fraction: float) -> str:
    """'1 %', with as many digits as it needs."""
    return f"{100 * fraction:.3g} %"
