"""Which pictures to label next: those that stand for many others, later those that the classifier is least sure of.

One in four is drawn at random, since nothing else tells how good the classifier is: on the others it is worse than on
most pictures, by up to fifty points (docs/notebook/2026-11-27-label.md).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import numpy as np
from sklearn.cluster import KMeans, MiniBatchKMeans

from cpc_tf.embed.encoder import farthest_first

SAMPLED = 4  # one picture in so many is drawn at random
COVERING = 50  # labels, up to which pictures that stand for many others come first
_NEIGHBOURS = 20  # of which the mean similarity says how typical a picture is
_MOST_CLUSTERS, _MOST_COMPARED = 300, 2000  # clusters, and pictures of a cluster that are compared with each other
_CANDIDATES = 5  # least sure pictures, for each one that is chosen


class Known(NamedTuple):
    """What is known of N pictures.

    Attributes:
      directions: float32 [N, R], of length 1.
      labelled: indices of those with a label, and of those that shall not come yet.
      margins: float [N]: the probability of the first guess minus that of the second; None before there are guesses.
    """

    directions: np.ndarray
    labelled: np.ndarray
    margins: np.ndarray | None = None

    @property
    def free(self) -> np.ndarray:
        """The indices of all others, ascending."""
        return np.setdiff1d(np.arange(len(self.directions)), self.labelled)


def at_random(known: Known, count: int, seed: int) -> list[int]:
    """Returns `count` unlabelled pictures at random."""
    return np.random.default_rng(seed).permutation(known.free)[:count].tolist()


def farthest(known: Known, count: int, seed: int) -> list[int]:
    """Returns pictures each of which is farthest from those before it, as `cpc-tf embed --to_label` chooses them."""
    return farthest_first(known.directions, min(count, len(known.free)), known.labelled.tolist())


def least_sure(known: Known, count: int, seed: int) -> list[int]:
    """Returns those with the smallest margins; at random before there are guesses."""
    if known.margins is None:
        return at_random(known, count, seed)
    return known.free[np.argsort(known.margins[known.free], kind="stable")[:count]].tolist()


def typical(known: Known, count: int, seed: int) -> list[int]:
    """Returns the most typical picture of each of the largest clusters without a label (Hacohen et al. 2022).

    There are as many clusters as labels, and `count` more. Typical is what is similar to its neighbours in the cluster.
    """
    free = known.free
    if len(free) <= count:
        return free.tolist()
    clusters = min(len(known.labelled) + count, _MOST_CLUSTERS, len(known.directions))
    kmeans = MiniBatchKMeans(clusters, batch_size=1024, max_iter=20, n_init=1, random_state=seed)
    cluster_of = kmeans.fit_predict(known.directions)
    labels, sizes = (np.bincount(cluster_of[rows], minlength=clusters) for rows in (known.labelled, free))
    random, chosen = np.random.default_rng(seed), []
    for cluster in np.lexsort((-sizes, labels)):  # without labels first, of those the largest first
        rows = free[cluster_of[free] == cluster]
        if len(rows) and len(chosen) < count:
            rows = random.permutation(rows)[:_MOST_COMPARED]
            similarity = known.directions[rows] @ known.directions[rows].T
            near = min(_NEIGHBOURS + 1, len(rows))  # with itself
            chosen.append(int(rows[np.partition(similarity, -near, 1)[:, -near:].sum(1).argmax()]))
    rest = np.setdiff1d(free, chosen)
    return chosen + random.permutation(rest)[: count - len(chosen)].tolist()


def unsure_and_apart(known: Known, count: int, seed: int) -> list[int]:
    """Returns pictures of small margins that are unlike each other (after Zhdanov 2019).

    The least sure ones are clustered, weighted by how unsure they are; one of each cluster is chosen.
    """
    candidates = np.array(least_sure(known, _CANDIDATES * count, seed), np.int64)
    if known.margins is None or len(candidates) <= count:
        return candidates[:count].tolist()
    weights = 1 - known.margins[candidates]
    kmeans = KMeans(count, n_init=1, random_state=seed).fit(known.directions[candidates], sample_weight=weights)
    away = kmeans.transform(known.directions[candidates])  # [candidates, count]
    chosen: list[int] = []
    for column in away.T:
        chosen.append(next(int(i) for i in candidates[np.argsort(column, kind="stable")] if i not in chosen))
    return chosen


def random_order(names: Sequence[str], seed: int) -> np.ndarray:
    """Returns all pictures in an order that depends on their names, which added pictures hardly change: int64 [N]."""
    keys = [hashlib.sha256(f"{seed}\n{name}".encode()).digest() for name in names]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)


def drawn(order: np.ndarray, labelled: Collection[int]) -> np.ndarray:
    """Returns the labelled pictures that are a random sample of all, int64.

    They are those of the longest beginning of the random order of which nine in ten are labelled.
    """
    has_label = np.isin(order, [*labelled])
    enough = np.flatnonzero(np.cumsum(has_label) >= 0.9 * np.arange(1, len(order) + 1))
    return order[: enough[-1] + 1][has_label[: enough[-1] + 1]] if len(enough) else order[:0]


def choose(known: Known, labels: int, count: int, seed: int, order: np.ndarray) -> tuple[list[int], str]:
    """Returns typical pictures up to `COVERING` labels, then unsure ones that are unlike each other; and which it was.

    Of the studied orders this one was better than chance at each number of labels (studies/label).

    Args:
      known: the pictures.
      labels: how many have one.
      count: how many are chosen.
      seed: of the choice.
      order: all pictures in a random order, from which every fourth of the chosen ones is taken.
    """
    free = order[~np.isin(order, known.labelled)]
    at_random = free[: (labels + count) // SAMPLED - labels // SAMPLED].tolist()
    rest = known._replace(labelled=np.append(known.labelled, at_random).astype(np.int64))
    if known.margins is None or labels < COVERING:
        chosen, why = typical(rest, count - len(at_random), seed), "pictures that stand for many others"
    else:
        chosen, why = unsure_and_apart(rest, count - len(at_random), seed), "pictures that it is least sure of"
    random = np.random.default_rng(seed)  # the two kinds are mixed, lest they are labelled with different care
    return random.permutation([*chosen, *at_random]).tolist(), f"{why}, and a quarter at random"


ORDERS: dict[str, Callable[[Known, int, int], list[int]]] = {
    "default": lambda known, count, seed: choose(
        known, len(known.labelled), count, seed, np.random.default_rng(0).permutation(len(known.directions))
    )[0],
    "random": at_random,
    "farthest": farthest,
    "least_sure": least_sure,
    "typical": typical,
    "unsure_and_apart": unsure_and_apart,
}
