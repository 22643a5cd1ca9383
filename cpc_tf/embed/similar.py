"""Which features are near each other: neighbours, near duplicates, and pictures that stand for all."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

_BLOCK = 1024  # rows of similarities at a time


def nearest_others(
    queries: np.ndarray, features: np.ndarray, count: int, asked: Sequence[Any], known: Sequence[Any]
) -> list[list[tuple[int, float]]]:
    """Returns (index, cosine) of the nearest features of each query, the query's own picture left out.

    The nearest comes first, among equals the first in the list.

    Args:
      queries: normalized, [Q, D].
      features: normalized, [N, D].
      count: how many; fewer if there are not so many.
      asked, known: what tells pictures apart, of the queries [Q] and of the features [N].
    """
    found = []
    for own, cosines in zip(asked, queries @ features.T):
        order = (i for i in np.argsort(-cosines, kind="stable").tolist() if known[i] != own)
        found.append([(i, float(cosines[i])) for i in itertools.islice(order, count)])
    return found


def repeats(features: np.ndarray, least: float) -> list[tuple[int, int, float]]:
    """Returns (index, index of the most similar earlier one, cosine) where that is at least `least`, best first.

    Without all those in the first place, one of each group remains. `features` [N, D] are normalized.
    """
    found = []
    for start in range(0, len(features), _BLOCK):
        rows = features[start : start + _BLOCK]
        similarity = rows @ features[: start + len(rows)].T  # [B, all up to the last of these]
        later = np.arange(start + len(rows)) >= start + np.arange(len(rows))[:, None]
        similarity[later] = -np.inf
        best = similarity.argmax(1)
        values = similarity[np.arange(len(rows)), best]
        found += [(start + int(i), int(best[i]), float(values[i])) for i in np.flatnonzero(values >= least)]
    return sorted(found, key=lambda pair: -pair[2])


def farthest_first(features: np.ndarray, count: int, known: Sequence[int] = ()) -> list[int]:
    """Returns `count` indices, each farthest from those before it: few pictures that stand for all (Gonzalez 1985).

    Args:
      features: normalized, [N, D].
      count: how many, at most those that are there.
      known: indices that count as chosen already, such as labelled pictures. None: the first is nearest to the mean.
    """
    distance = np.full(len(features), np.inf)  # squared, to the nearest chosen one

    def choose(index: int) -> None:
        np.minimum(distance, 2 - 2 * (features @ features[index]).astype(np.float64), out=distance)
        distance[index] = -np.inf

    for index in known:
        choose(index)
    chosen: list[int] = []
    while len(chosen) < min(count, len(features) - len(set(known))):
        first = not known and not chosen
        mean = features.mean(0)
        chosen.append(int(np.linalg.norm(features - mean, axis=1).argmin() if first else distance.argmax()))
        choose(chosen[-1])
    return chosen
