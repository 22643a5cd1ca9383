"""How numbers are written."""

from __future__ import annotations

from typing import Any

from cpc_tf.reporting.blocks import Cell
from cpc_tf.reporting.efficiency import Gain
from cpc_tf.reporting.methods import Spread

NOTHING = "\N{EN DASH}"
TIMES = "\N{MULTIPLICATION SIGN}"


def accuracy(spread: Spread | None) -> str | Cell:
    """A mean in percent, with half the range of several runs."""
    if spread is None:
        return NOTHING
    return Cell(f"{100 * spread.mean:.1f}", f"±{100 * spread.half_range:.1f}" if spread.count > 1 else "")


def one_decimal(value: float | None) -> str:
    """What the paper prints."""
    return NOTHING if value is None else f"{value:.1f}"


def change(points: float | None) -> str:
    """Percentage points with their sign."""
    return NOTHING if points is None else f"{points:+.1f}".replace("-", "\N{MINUS SIGN}")


def times(factor: float | None) -> str:
    """'2.5x' with a proper sign."""
    return NOTHING if factor is None else f"{factor:.3g}{TIMES}"


def gain(gain: Gain | None) -> str | Cell:
    """Of efficiency.interpolated; a bound in words above the factor."""
    if gain is None:
        return NOTHING
    return Cell(str(gain).split()[-1], above=gain.bound)


def number(value: Any) -> str:
    """Three digits of a float; other values as they are."""
    return NOTHING if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


def percent(fraction: float) -> str:
    """'1 %', with as many digits as it needs."""
    return f"{100 * fraction:.3g} %"


def duration(seconds: float | None) -> str:
    """In the unit that fits."""
    if seconds is None:
        return NOTHING
    for unit, name, digits in ((3600, "h", 1), (60, "min", 0)):
        if seconds >= unit:
            return f"{seconds / unit:.{digits}f} {name}"
    return f"{seconds:.0f} s"
