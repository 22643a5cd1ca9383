"""How much a share of few pictures tells: its counts and its 95 % interval."""

from __future__ import annotations

import math

MANY = 1000  # pictures; from here on the interval is at most 6 points wide, and a share stands alone
FEW = 30  # pictures; below it is wider than 30 points for an accuracy of a half
_QUANTILE = 1.959964  # of the normal distribution at 97.5 %


def interval(right: float, of: int) -> tuple[float, float]:
    """Returns the ends of the 95 % interval of a share, from 0 to 1, after Wilson 1927.

    For few pictures it is close to 95 % where the usual one, the share plus or minus two standard errors, is too
    narrow (Brown, Cai and DasGupta 2001).
    """
    share, square = right / of, _QUANTILE**2 / of
    middle = (share + square / 2) / (1 + square)
    half = _QUANTILE * math.sqrt(share * (1 - share) / of + square / of / 4) / (1 + square)
    return max(0.0, middle - half), min(1.0, middle + half)


def percent(share: float, of: int) -> str:
    """Returns a share of so many as percent without the sign: one decimal, none of fewer than 100."""
    return f"{100 * share:.{int(of >= 100)}f}"


def ends(share: float, of: int) -> str:
    """Returns the interval of a share of so many as text in percent: '43 to 82'."""
    low, high = interval(share * of, of)
    return f"{100 * low:.0f} to {100 * high:.0f}"


def shown(share: float, of: int) -> str:
    """Returns '13 of 20 right (65 %, 43 to 82)', of many or of an unknown number (0) '65.0 %'."""
    if not 0 < of < MANY:
        return f"{100 * share:.1f} %"
    return f"{round(share * of)} of {of} right ({percent(share, of)} %, {ends(share, of)})"


def caution(of: int, accuracy: bool = True) -> str:
    """Returns a sentence on what a test of few pictures tells, '' if they are not few.

    Args:
      of: how many.
      accuracy: whether the figure is a share of them; else it is a mean average precision.
    """
    if not 0 < of < FEW:
        return ""
    # The difference of two shares of one half, of as many pictures each, has this 95 % interval.
    points = min(100, 100 * _QUANTILE * math.sqrt(0.5 / of))
    means = f"a difference of less than about {points:.0f} points between two runs may be chance"
    few = f"only {of} test picture{'s' * (of > 1)}"
    return f"{few}: {means if accuracy else 'the mAP is a rough guide, and a small difference may be chance'}"
