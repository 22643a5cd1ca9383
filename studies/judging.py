"""When one arm of a study counts as ahead of another: Student's t on what was repeated, with Holm's
correction over all comparisons that are judged together.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

from scipy import stats

ERROR = 0.05  # the largest chance that any of the comparisons is called wrongly


class Effect(NamedTuple):
    """What one arm is ahead of another.

    Attributes:
      estimate: over all repetitions.
      error: its standard error; NaN of one repetition, or if some of them have no estimate.
      count: of what was repeated: encoders, choices of labels, detectors.
      none: the estimate if there is no effect.
    """

    estimate: float
    error: float
    count: int
    none: float = 0.0

    @property
    def p(self) -> float:
        """The two-sided p-value of Student's t test of no effect."""
        distance = abs(self.estimate - self.none)
        if not self.error:
            return float(not distance)
        return float(2 * stats.t.sf(distance / self.error, self.count - 1))

    def interval(self, error: float) -> tuple[float, float]:
        """The interval that leaves out the truth with this chance; it has `none` where `p` is
        larger.
        """
        half = stats.t.ppf(1 - error / 2, self.count - 1) * self.error
        return self.estimate - half, self.estimate + half


def effect(of: Callable[[Sequence[int]], float], count: int, none: float = 0.0) -> Effect:
    """Returns the effect that `of` computes of some repetitions, by their places.

    The standard error is the standard deviation over all `count ** count` ways of drawing as many
    repetitions with replacement, times the root of count / (count - 1), so that of a mean it is
    the usual one, exactly. Both arms are drawn together, since a place stands for both.
    """
    estimate = of(range(count))
    drawn = [of(places) for places in itertools.product(range(count), repeat=count)]
    if count == 1 or any(map(math.isnan, drawn)):
        return Effect(estimate, math.nan, count, none)
    error = statistics.pstdev(drawn) * math.sqrt(count / (count - 1))
    return Effect(estimate, error, count, none)


def difference(values: Sequence[float], none: float = 0.0) -> Effect:
    """Returns the effect of what one arm is ahead in each pair of runs."""
    return effect(lambda places: statistics.fmean(values[i] for i in places), len(values), none)


class Test(NamedTuple):
    """A comparison among others: `p`, adjusted, and the `error` at which Holm's procedure tests
    it, at which its interval says the same.
    """

    p: float
    error: float


def holm(p_values: Sequence[float]) -> list[Test]:
    """Returns the tests of a family: the chance that any null hypothesis is rejected wrongly is at
    most ERROR, whatever depends on what (Holm 1979).

    The smallest p is tested at ERROR / m, the next one at ERROR / (m - 1), until one is not
    rejected: all further ones are not, and keep its level.
    """
    tests: dict[int, Test] = {}
    adjusted, error = 0.0, 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        left = len(p_values) - rank
        if adjusted <= ERROR:
            error = ERROR / left
        adjusted = min(1.0, max(adjusted, left * p_values[place]))
        tests[place] = Test(adjusted, error)
    return [tests[place] for place in range(len(p_values))]
