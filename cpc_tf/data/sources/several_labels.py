"""Pictures with any number of labels each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np


def matrix(rows: Sequence[Collection[int]], classes: int) -> np.ndarray:
    """Returns the labels of pictures as 0 and 1, float32 [N, classes], from the classes of each."""
    labels = np.zeros([len(rows), classes], np.float32)
    for number, row in enumerate(rows):
        labels[number, list(row)] = 1
    return labels


def rarest(labels: np.ndarray) -> np.ndarray:
    """Returns the class that each picture counts for, int64 [N]: the number of classes if it has no label.

    The class that the fewest of the pictures left have takes all that have it, then the next (as the iterative
    stratification of Sechidis et al. 2011 goes through them). So rare classes are stratified exactly, others nearly.

    Args:
      labels: [N, classes] of 0 and 1.
    """
    left = labels > 0.5
    groups = np.full(len(labels), labels.shape[1], np.int64)
    while left.any():
        counts = left.sum(0)
        number = np.argmin(np.where(counts > 0, counts, len(labels) + 1))
        own = left[:, number].copy()
        groups[own] = number
        left[own] = False
    return groups


def strata(table: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Returns {picture: the class that it counts for}, see `rarest`; 'no label' if it has none.

    Args:
      table: {picture: its classes}.
    """
    names = sorted({name for row in table.values() for name in row})
    number = {name: index for index, name in enumerate(names)}
    groups = rarest(matrix([[number[name] for name in row] for row in table.values()], len(names)))
    return dict(zip(table, ([*names, "no label"][group] for group in groups)))
