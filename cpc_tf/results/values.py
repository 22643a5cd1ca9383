"""What a cell of a table can hold, and how it is written: a plain value, a spread over seeds, a gain."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

NOTHING = "\N{EN DASH}"


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
    count: int

    @property
    def cell(self) -> Cell:
        """The mean in percent, and half the range of several runs."""
        half_range = 50 * (self.high - self.low)
        return Cell(f"{100 * self.mean:.1f}", f"±{half_range:.1f}" if self.count > 1 else "")


class Gain(NamedTuple):
    """`factor` times as many labels; `bound` is 'more than' or 'less than' where the baseline ends before, else ''."""

    factor: float
    bound: str = ""

    @property
    def number(self) -> str:
        """The factor in two digits."""
        return f"{self.factor:.2g}" if self.factor < 10 else f"{self.factor:.0f}"

    @property
    def cell(self) -> Cell:
        """The factor, below the bound."""
        return Cell(f"{self.number}\N{MULTIPLICATION SIGN}", above=self.bound)


def spread(values: Iterable[float]) -> Spread | None:
    """Of some values; None of none."""
    values = list(values)
    return Spread(sum(values) / len(values), min(values), max(values), len(values)) if values else None


def cell(value: Any) -> Cell:
    """Any value of a table as it is shown: counts with separators, floats with three digits."""
    if isinstance(value, (Spread, Gain)):
        return value.cell
    if isinstance(value, float):
        return Cell(f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}")
    if isinstance(value, int):
        return Cell(f"{value:,}")
    return value if isinstance(value, Cell) else Cell(NOTHING if value is None else str(value))


def printed(value: Any) -> Any:
    """A value of the paper's tables: floats are percent there."""
    return spread([value / 100]) if isinstance(value, float) else value


def plain(name: str, value: Any) -> dict[str, Any]:
    """The columns of a CSV file that hold a value."""
    if isinstance(value, Spread):
        numbers = {"": value.mean, " low": value.low, " high": value.high}
        return {f"{name}{end}": round(number, 6) for end, number in numbers.items()} | {f"{name} runs": value.count}
    if isinstance(value, Gain):
        return {name: value.factor, f"{name} bound": value.bound}
    return {name: value.text if isinstance(value, Cell) else value}


def percent(fraction: float) -> str:
    """'1 %', with as many digits as it needs."""
    return f"{100 * fraction:.3g} %"


def accuracy(values: Iterable[float]) -> str:
    """The mean of some fractions within a sentence."""
    return f"{100 * spread(values).mean:.1f} %"


def duration(seconds: float) -> str:
    """In the unit that fits."""
    for unit, name, digits in ((3600, "h", 1), (60, "min", 0)):
        if seconds >= unit:
            return f"{seconds / unit:.{digits}f} {name}"
    return f"{seconds:.0f} s"
