"""Which images belong together, and the folds of cross-validation: the one place where labelled
images are divided.

What belongs together is on one side of every division. A classifier that learned a copy of an image
recognizes it, and that says nothing about new images.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

FOLDS = 5
LEAST = 3  # groups of a class, so that a fold learns from two when the third is tested
# Images whose standardized features are closer than this part of the median distance within a class
# are nearly the same. Of imagenette, blood cells, digits and textures no two different images are
# closer than 0.33; two brightnesses of one image of imagenette have a distance of 0.05 to 0.22
# (docs/notebook/2026-11-28-honest.md).
NEAR = 0.25
_FEWEST = 32  # features; in fewer dimensions different images are close by chance
ROUNDING = 1e-4  # a deviation of the features that is smaller, relative to their size, is rounding
_BLOCK = 1024  # rows of distances at a time
_ROUNDS = 8  # pairs of an image from which the median distance is estimated
_LEAST_MEDIAN = (
    1e-3  # squared distance a feature below which even the median pair differs by rounding alone
)


def standardized(features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the mean [D] and the scale [D] by which features [N, D] are standardized, float64.

    A feature that hardly varies beside the others is not enlarged to their size: it would be
    rounding, or would explode on an image in which it does vary.
    """
    mean = features.mean(0, dtype=np.float64)
    deviation = features.std(0, dtype=np.float64)
    size = np.sqrt(np.square(features, dtype=np.float64).mean())
    usual = np.sqrt(np.square(deviation).mean())
    return mean, np.maximum(deviation, max(0.01 * usual, ROUNDING * size, 1e-30))


def nearly_the_same(features: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Returns which images are nearly the same, such as copies with equal pixels or brightnesses of
    one image.

    They are much closer to each other than images of one class are. What is close beside other
    classes only, such as parts before one camera, is not the same.

    Args:
      features: of N images, [N, D].
      classes: of these, int [N].

    Returns:
      int [N]: the same number for images that are nearly the same, directly or by others between
      them.
    """
    count, width = features.shape
    mean, scale = standardized(features)
    points = ((features - mean) / scale).astype(np.float32)
    squares = np.square(points).sum(1)
    median = _median_distance(points, classes) if width >= _FEWEST else 0.0
    limit = NEAR**2 * max(median, _LEAST_MEDIAN * width)
    starts = [np.arange(count)]
    ends = [np.arange(count)]
    for begin in range(0, count, _BLOCK):
        block = slice(begin, begin + _BLOCK)
        # [block, N], squared
        distances = squares[block, None] + squares - 2 * points[block] @ points.T
        near, neighbour = np.nonzero(distances < limit)
        starts.append(near + begin)
        ends.append(neighbour)
    return _connected(np.concatenate(starts), np.concatenate(ends), count)


def _median_distance(points: np.ndarray, classes: np.ndarray) -> float:
    """Returns the median of the squared distances of images of one class; of all if no class has
    two.
    """
    random = np.random.default_rng(0)
    distances = []
    for of_class in (classes, np.zeros(len(classes), np.int64)):
        for _ in range(_ROUNDS):
            order = np.lexsort((random.random(len(points)), of_class))
            one = order[:-1]
            other = order[1:]
            same = of_class[one] == of_class[other]
            distances.append(np.square(points[one[same]] - points[other[same]]).sum(1))
        if len(distances[0]):
            break
    every = np.concatenate(distances)
    return float(np.median(every)) if len(every) else 0.0


def joined(groups: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Returns the groups of images that are in one group of either division, int [N]."""
    starts = []
    ends = []
    for division in (groups, others):
        _, first, number = np.unique(division, return_index=True, return_inverse=True)
        starts.append(np.arange(len(division)))
        ends.append(first[number])
    return _connected(np.concatenate(starts), np.concatenate(ends), len(groups))


def _connected(starts: np.ndarray, ends: np.ndarray, count: int) -> np.ndarray:
    """Returns the connected component of each of so many nodes, given the edges between them."""
    graph = coo_matrix((np.ones(len(starts), bool), (starts, ends)), shape=(count, count))
    return connected_components(graph, directed=False)[1].astype(np.int64)


def can_divide(strata: np.ndarray, groups: np.ndarray) -> bool:
    """Returns whether at least half of the images are of classes with LEAST groups, so that folds
    say something.
    """
    enough = np.array([of_class >= LEAST for of_class in _groups_of(strata, groups)])
    return bool(enough[np.unique(strata, return_inverse=True)[1]].mean() >= 0.5)


def divide(
    strata: np.ndarray, groups: np.ndarray, seed: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Divides labelled images into folds, each of which is tested by a classifier that learned the
    others.

    The groups of every class are dealt out alike, so classes of equal size keep equal numbers in
    what a fold learns. Where they differ by one image, the class that is tested has fewer to learn
    from, and looks worse than it is.

    Args:
      strata: the class of each image, int [N].
      groups: [N]; all of a group are in one fold.
      seed: of the division.

    Returns:
      (rows to learn from, rows to test) of each fold, int64. Any beginning of the rows to learn
      from has that part of each class. There are FOLDS folds, or as many as the class with the most
      groups has groups.
    """
    random = np.random.default_rng(seed)
    _, first, group_of = np.unique(groups, return_index=True, return_inverse=True)
    sizes = np.bincount(group_of)
    stratum_of_group = strata[first]  # of copies with different classes that of the first
    number = min(FOLDS, max(_groups_of(strata, groups)))
    fold_of_group = np.zeros(len(first), np.int64)
    for stratum in np.unique(stratum_of_group):
        members = random.permutation(np.flatnonzero(stratum_of_group == stratum))
        # the largest first, each to the emptiest fold
        members = members[np.argsort(-sizes[members], kind="stable")]
        filled = np.zeros(number, np.int64)
        for member in members:
            fold = filled.argmin()
            fold_of_group[member] = fold
            filled[fold] += sizes[member]
    fold_of = fold_of_group[group_of]
    folds = []
    for fold in range(number):
        tested = np.flatnonzero(fold_of == fold)
        if 0 < len(tested) < len(strata):
            learned = _stratified(np.flatnonzero(fold_of != fold), strata, random)
            folds.append((learned, tested))
    return folds


def _groups_of(strata: np.ndarray, groups: np.ndarray) -> list[int]:
    """Returns the number of groups of each class, in the order of the classes."""
    return [len(np.unique(groups[strata == stratum])) for stratum in np.unique(strata)]


def _stratified(rows: np.ndarray, strata: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Returns rows in a random order in which any beginning has that part of each class."""
    rows = random.permutation(rows)
    place = np.zeros(len(rows))
    for stratum in np.unique(strata[rows]):
        members = np.flatnonzero(strata[rows] == stratum)
        place[members] = (np.arange(len(members)) + 0.5) / len(members)
    return rows[np.argsort(place, kind="stable")]
