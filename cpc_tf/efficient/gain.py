"""The gain in data efficiency: how many times more labels a baseline needs for the same accuracy."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cpc_tf.results.values import Gain

Point = tuple[float, float]
"""Labels (number or fraction, but the same on all sides) and accuracy."""


def interpolated(baseline: Sequence[Point], labels: float, accuracy: float) -> Gain | None:
    """Where the baseline first reaches `accuracy`, between its points, linear in the logarithm of the labels.

    Args:
      baseline: its measured points, in any order.
      labels, accuracy: the point it is compared with.

    Returns:
      None without a baseline; 'more than' if it never gets there; 'less than' if its first point is there already.
    """
    points = sorted(baseline)
    if not points:
        return None
    if points[0][1] >= accuracy:
        return Gain(points[0][0] / labels, "" if points[0][1] == accuracy else "less than")
    for (x0, y0), (x1, y1) in zip(points, points[1:]):
        if y1 >= accuracy:
            part = (accuracy - y0) / (y1 - y0)
            return Gain(math.exp(math.log(x0) + part * math.log(x1 / x0)) / labels)
    return Gain(points[-1][0] / labels, "more than")


def between_measured(baseline: Sequence[Point], labels: float, accuracy: float) -> Gain | None:
    """The paper's coarser way: the most labels with which the baseline was measured and is not better, over `labels`.

    Returns:
      None if that is less than `labels`, or if there are no more labels to compare with: the paper leaves it blank.
    """
    beaten = [x for x, y in baseline if y <= accuracy and x >= labels]
    most = max((x for x, _ in baseline), default=0)
    return Gain(max(beaten) / labels) if beaten and most > labels else None
