"""Which features are near each other: neighbours, repeats, and few that stand for all."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

_BLOCK = 1024  # rows of similarities at a time
_MOST = 2**26  # how many numbers these have at most


def normalized(features: np.ndarray, centre: np.ndarray | None = None) -> np.ndarray:
    """Returns float32 features [N, D] minus their mean (or `centre`, [D]), of length 1: products
    are cosines.
    """
    centred = features - (features.mean(0) if centre is None else centre)
    return (centred / (np.linalg.norm(centred, axis=1, keepdims=True) + 1e-12)).astype(np.float32)


def balance(variances: np.ndarray, widths: Sequence[int]) -> np.ndarray:
    """Returns factors float32 [D] for the features of several encoders, with which all count alike.

    Each encoder's features then have the same mean squared distance from their mean. Without them
    cosines would be those of the encoder whose features are largest.

    Args:
      variances: of the features, or their multiples, [D].
      widths: how many of the D are of each encoder.
    """
    factors = []
    for block in np.split(variances, np.cumsum(widths)[:-1]):
        factors.append(np.full(len(block), 1 / np.sqrt(max(block.sum(), 1e-30))))
    return np.concatenate(factors).astype(np.float32)


def nearest_neighbour_accuracy(
    features: np.ndarray, labels: np.ndarray, neighbours: int = 10
) -> float | None:
    """Top-1 of a leave-one-out vote of neighbours by cosine among features [N, D]; None if one is
    not finite.
    """
    if not np.isfinite(features).all():
        return None
    features = normalized(features)
    similarity = features @ features.T
    np.fill_diagonal(similarity, -np.inf)
    nearest = np.argsort(-similarity, axis=1)[:, : min(neighbours, len(labels) - 1)]  # [N, K]
    votes = np.stack([np.bincount(labels[row], minlength=labels.max() + 1) for row in nearest])
    return float(np.mean(votes.argmax(1) == labels))


def nearest_others(
    queries: np.ndarray,
    features: np.ndarray,
    count: int,
    query_ids: Sequence[Any],
    ids: Sequence[Any],
) -> list[list[tuple[int, float]]]:
    """Returns (index, cosine) of the nearest features of each query, the query's own image left
    out.

    The nearest comes first, among equals the first in the list. The mean of the features is
    subtracted before.

    Args:
      queries: float32 [Q, D].
      features: float32 [N, D].
      count: how many; fewer if there are not so many.
      query_ids, ids: of the images: equal ones are the same image. [Q] and [N].
    """
    centre = features.mean(0)
    rows = []
    similarities = normalized(queries, centre) @ normalized(features, centre).T
    for query_id, cosines in zip(query_ids, similarities):
        order = (i for i in np.argsort(-cosines, kind="stable").tolist() if ids[i] != query_id)
        rows.append([(i, float(cosines[i])) for i in itertools.islice(order, count)])
    return rows


def repeats(
    features: np.ndarray,
    least: float,
    kinds: np.ndarray | None = None,
    compared: np.ndarray | None = None,
) -> list[tuple[int, int, float]]:
    """Returns (index, index of the most similar earlier one, cosine) where that is at least
    `least`, best first.

    Without all those in the first place, one of each group remains.

    Args:
      features: normalized, [N, D].
      least: cosine.
      kinds: of the rows, int [N], and
      compared: which kinds are compared, bool [K, K]; None: all.
    """
    pairs = []
    block = min(_BLOCK, max(1, _MOST // max(len(features), 1)))
    for start in range(0, len(features), block):
        rows = features[start : start + block]
        similarity = rows @ features[: start + len(rows)].T  # [B, all up to the last of these]
        later = np.arange(start + len(rows)) >= start + np.arange(len(rows))[:, None]
        similarity[later] = -np.inf
        if kinds is not None and compared is not None:
            kinds_of_rows = kinds[start : start + len(rows)]
            others = kinds[: start + len(rows)]
            similarity[~compared[kinds_of_rows[:, None], others]] = -np.inf
        best = similarity.argmax(1)
        values = similarity[np.arange(len(rows)), best]
        pairs += [
            (start + int(i), int(best[i]), float(values[i]))
            for i in np.flatnonzero(values >= least)
        ]
    return sorted(pairs, key=lambda pair: -pair[2])


def farthest_first(features: np.ndarray, count: int, chosen: Sequence[int] = ()) -> list[int]:
    """Returns `count` indices, each farthest from those before it: few images that stand for all
    (Gonzalez 1985).

    Args:
      features: normalized, [N, D].
      count: how many, at most those that are there.
      chosen: indices that are chosen already, such as labelled images. None: the first is nearest
        to the mean.
    """
    distance = np.full(len(features), np.inf)  # squared, to the nearest chosen one

    def choose(index: int) -> None:
        np.minimum(distance, 2 - 2 * (features @ features[index]).astype(np.float64), out=distance)
        distance[index] = -np.inf

    for index in chosen:
        choose(index)
    indices: list[int] = []
    while len(indices) < min(count, len(features) - len(set(chosen))):
        if chosen or indices:
            indices.append(int(distance.argmax()))
        else:
            indices.append(int(np.linalg.norm(features - features.mean(0), axis=1).argmin()))
        choose(indices[-1])
    return indices
