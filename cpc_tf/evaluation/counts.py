"""What the counts of a test say: how much a share of few images tells, and what became of each
class.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

MANY = 1000  # images; from here on the interval is at most 6 points wide, and a share stands alone
FEW = 30  # images; below it is wider than 30 points for an accuracy of a half
_QUANTILE = 1.959964  # of the normal distribution at 97.5 %


def interval(right: float, of: float) -> tuple[float, float]:
    """Returns the ends of the 95 % interval of a share, from 0 to 1, after Wilson 1927.

    For few images it is close to 95 % where the usual one, the share plus or minus two standard
    errors, is too narrow (Brown, Cai and DasGupta 2001).
    """
    share = right / of
    square = _QUANTILE**2 / of
    middle = (share + square / 2) / (1 + square)
    half = _QUANTILE * math.sqrt(share * (1 - share) / of + square / of / 4) / (1 + square)
    return max(0.0, middle - half), min(1.0, middle + half)


def effective_count(groups: np.ndarray) -> float:
    """Returns how many independent images are worth as much as these: Kish's effective sample size.

    Images of one group, such as copies, are right or wrong together, so a group counts once. Groups
    of equal sizes give their number, single images give n.

        effective_count(np.array([0, 0, 0, 1, 1, 1]))  # 2.0

    Args:
      groups: the group of each image, [n].
    """
    sizes = np.unique(groups, return_counts=True)[1]
    return float(sizes.sum() ** 2 / np.square(sizes).sum()) if len(sizes) else 0.0


def percent(share: float, of: int) -> str:
    """Returns a share of so many as percent without the sign: one decimal, none of fewer than
    100.
    """
    return f"{100 * share:.{int(of >= 100)}f}"


def whole_percents(low: float, high: float) -> tuple[int, int]:
    """Returns the ends of an interval in whole percents, rounded outward, so that it holds all that
    it held before.
    """
    return math.floor(100 * low + 1e-9), math.ceil(100 * high - 1e-9)


def interval_text(share: float, of: float) -> str:
    """Returns the interval of a share of so many independent images as text in percent: '43
    to 82'.
    """
    low, high = whole_percents(*interval(share * of, of))
    return f"{low} to {high}"


def share_text(share: float, of: int, effective: float = 0.0) -> str:
    """Returns '13 of 20 right (65 %, 43 to 82)'; of MANY, or an unknown number (0), '65.0 %'.

    Args:
      share: from 0 to 1.
      of: how many images.
      effective: how many independent ones they are worth, on which the interval is based; 0: all of
        them.
    """
    independent = effective or of
    if of <= 0 or independent >= MANY:
        return f"{100 * share:.1f} %"
    return (
        f"{round(share * of)} of {of} right ({percent(share, of)} %,"
        f" {interval_text(share, independent)})"
    )


def caution(of: int, accuracy: bool = True) -> str:
    """Returns a sentence on what a test of few images tells, '' if they are not few.

    Args:
      of: how many.
      accuracy: whether the figure is a share of them; else it is a mean average precision.
    """
    if not 0 < of < FEW:
        return ""
    # The difference of two shares of one half, of as many images each, has this 95 % interval.
    points = min(100, 100 * _QUANTILE * math.sqrt(0.5 / of))
    means = f"a difference of less than about {points:.0f} points between two runs may be chance"
    few = f"only {of} test image{'s' * (of > 1)}"
    rough = "the mAP is a rough guide, and a small difference may be chance"
    return f"{few}: {means if accuracy else rough}"


class ClassCount(NamedTuple):
    """The images of a class in a test, those that were predicted to be of it, and those that were
    both.
    """

    name: str
    tested: int
    predicted: int
    right: int

    @property
    def recall(self) -> float | None:
        """Fraction of its images that are predicted to be of it; None if the test has none of
        it.
        """
        return self.right / self.tested if self.tested else None

    @property
    def precision(self) -> float | None:
        """Fraction of the predictions of the class that are right; None if there is none."""
        return self.right / self.predicted if self.predicted else None


def count_classes(
    class_names: Sequence[str], truth: np.ndarray, guesses: np.ndarray
) -> dict[str, dict[str, int]]:
    """Returns 'classes' of a result.json: {name: {'tested', 'predicted', 'right'}}.

    Args:
      class_names: [C].
      truth, guesses: whether an image is of a class, and is predicted to be, bool [N, C].
    """
    counts = np.stack([truth.sum(0), guesses.sum(0), (truth & guesses).sum(0)], 1).tolist()
    return {
        name: dict(zip(ClassCount._fields[1:], count)) for name, count in zip(class_names, counts)
    }


def class_counts(result: Mapping[str, Any]) -> list[ClassCount]:
    """Returns the counts of a result.json, the lowest recall first."""
    counts = [ClassCount(name, **count) for name, count in result.get("classes", {}).items()]
    return sorted(
        counts, key=lambda count: (2.0 if count.recall is None else count.recall, -count.tested)
    )
