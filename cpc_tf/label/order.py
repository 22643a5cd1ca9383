"""Which images to label next: those that stand for many others, later those that the classifier is
least sure of.

One in four is of a random sample, on which alone the accuracy is stated: on images that were chosen
because they are hard it would be up to fifty points too low (docs/notebook/2026-11-27-label.md). No
choice depends on the sample.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from sklearn.cluster import KMeans, MiniBatchKMeans

from cpc_tf.classify.random_sample import PART
from cpc_tf.evaluation.neighbours import farthest_first

COVERING = 50  # labels, up to which images that stand for many others come first
_NEIGHBOURS = 20  # of which the mean similarity says how typical an image is
# clusters, and images of a cluster that are compared with each other
_MOST_CLUSTERS = 300
_MOST_COMPARED = 2000
_MOST_CLUSTERED = 10_000  # images of which clusters are learned; they are applied to all
_CANDIDATES = 5  # least sure images, for each one that is chosen


class Pool(NamedTuple):
    """What an order chooses from: N images.

    Attributes:
      directions: float32 [N, R], of length 1.
      labelled: indices of those with a label.
      margins: float [N]: the probability of the first guess minus that of the second; None before
        there are guesses.
      taken: indices of further images that are not to be chosen.
    """

    directions: np.ndarray
    labelled: np.ndarray
    margins: np.ndarray | None = None
    taken: np.ndarray = np.zeros(0, np.int64)

    @property
    def free(self) -> np.ndarray:
        """The indices of all others, ascending."""
        return np.setdiff1d(np.arange(len(self.directions)), np.union1d(self.labelled, self.taken))


def at_random(pool: Pool, count: int, seed: int) -> list[int]:
    """Returns `count` unlabelled images at random."""
    return np.random.default_rng(seed).permutation(pool.free)[:count].tolist()


def farthest(pool: Pool, count: int, seed: int) -> list[int]:
    """Returns images each of which is farthest from those before it, as `cpc-tf embed --to_label`
    chooses them.
    """
    return farthest_first(pool.directions, min(count, len(pool.free)), pool.labelled.tolist())


def least_sure(pool: Pool, count: int, seed: int) -> list[int]:
    """Returns those with the smallest margins; at random before there are guesses."""
    if pool.margins is None:
        return at_random(pool, count, seed)
    return pool.free[np.argsort(pool.margins[pool.free], kind="stable")[:count]].tolist()


def typical(pool: Pool, count: int, seed: int) -> list[int]:
    """Returns the most typical image of each of the largest clusters without a label (Hacohen et
    al. 2022).

    There are as many clusters as labels, and `count` more. Typical is what is similar to its
    neighbours in the cluster.
    """
    free = pool.free
    if len(free) <= count:
        return free.tolist()
    clusters = min(len(pool.labelled) + count, _MOST_CLUSTERS, len(pool.directions))
    kmeans = MiniBatchKMeans(clusters, batch_size=1024, max_iter=20, n_init=1, random_state=seed)
    some = pool.directions
    if len(some) > _MOST_CLUSTERED:
        some = some[np.random.default_rng(seed).choice(len(some), _MOST_CLUSTERED, replace=False)]
    cluster_of = kmeans.fit(some).predict(pool.directions)
    labels, sizes = (
        np.bincount(cluster_of[rows], minlength=clusters) for rows in (pool.labelled, free)
    )
    random = np.random.default_rng(seed)
    chosen = []
    for cluster in np.lexsort((-sizes, labels)):  # without labels first, of those the largest first
        rows = free[cluster_of[free] == cluster]
        if len(rows) and len(chosen) < count:
            rows = random.permutation(rows)[:_MOST_COMPARED]
            similarity = pool.directions[rows] @ pool.directions[rows].T
            near = min(_NEIGHBOURS + 1, len(rows))  # with itself
            chosen.append(int(rows[np.partition(similarity, -near, 1)[:, -near:].sum(1).argmax()]))
    rest = np.setdiff1d(free, chosen)
    return chosen + random.permutation(rest)[: count - len(chosen)].tolist()


def unsure_and_apart(pool: Pool, count: int, seed: int) -> list[int]:
    """Returns images of small margins that are unlike each other (after Zhdanov 2019).

    The least sure ones are clustered, weighted by how unsure they are; one of each cluster is
    chosen.
    """
    candidates = np.array(least_sure(pool, _CANDIDATES * count, seed), np.int64)
    if pool.margins is None or len(candidates) <= count:
        return candidates[:count].tolist()
    weights = 1 - pool.margins[candidates]
    kmeans = KMeans(count, n_init=1, random_state=seed).fit(
        pool.directions[candidates], sample_weight=weights
    )
    away = kmeans.transform(pool.directions[candidates])  # [candidates, count]
    chosen: list[int] = []
    for column in away.T:
        chosen.append(
            next(int(i) for i in candidates[np.argsort(column, kind="stable")] if i not in chosen)
        )
    return chosen


def choose(
    pool: Pool, sample: np.ndarray, labels: int, count: int, seed: int
) -> tuple[list[int], str]:
    """Returns typical images up to `COVERING` labels, then unsure ones that are unlike each other;
    and which it was.

    Of the studied orders this one was better than chance at each number of labels (studies/label).

    Args:
      pool: the images; neither its labelled ones nor its margins are of the random sample.
      sample: as `random_sample.of` returns it; every fourth image is its next one.
      labels: how many images have a label.
      count: how many are chosen.
      seed: of the choice.
    """
    next_ones = sample[~np.isin(sample, pool.taken)]
    at_random = next_ones[: (labels + count) // PART - labels // PART].tolist()
    rest = pool._replace(taken=np.union1d(pool.taken, sample))
    if pool.margins is None or labels < COVERING:
        chosen = typical(rest, count - len(at_random), seed)
        why = "they represent many others"
    else:
        chosen = unsure_and_apart(rest, count - len(at_random), seed)
        why = "the classifier is unsure of them"
    if len(chosen) + len(at_random) < count:  # only the sample is left
        at_random = next_ones[: count - len(chosen)].tolist()
    # the two kinds are mixed, lest they are labelled with different care
    random = np.random.default_rng(seed)
    return (
        random.permutation([*chosen, *at_random]).astype(int).tolist(),
        f"{why}; one in {PART} is drawn at random",
    )


# Orders that `choose` was compared with, and its parts.
ORDERS: dict[str, Callable[[Pool, int, int], list[int]]] = {
    "random": at_random,
    "farthest": farthest,
    "least_sure": least_sure,
    "typical": typical,
    "unsure_and_apart": unsure_and_apart,
}
