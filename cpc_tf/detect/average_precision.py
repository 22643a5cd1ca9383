"""Average precision by the rules of the PASCAL VOC development kit (Everingham et al. 2010, Sec. 4.2).

Detections of a class are judged best first, over all images. Each is assigned to the object of its class that it
overlaps most. It is right if the overlap is large enough and the object is not yet taken by a better detection, else
wrong. A detection of a difficult object is neither, and difficult objects need not be found.

Boxes are continuous here: the box of a pixel has a side of 1. The kit has inclusive pixel numbers and adds 1 to each
side, which gives the same overlaps once its (xmin, ymin, xmax, ymax) are read as [ymin - 1, xmin - 1, ymax, xmax].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from cpc_tf.detect import boxes as bx


class Truth(NamedTuple):
    """The M objects of an image."""

    boxes: np.ndarray  # [M, 4], [y1, x1, y2, x2]
    labels: np.ndarray  # [M], classes from 0
    difficult: np.ndarray  # [M], bool


class Found(NamedTuple):
    """The N detections of an image, in any order."""

    boxes: np.ndarray  # [N, 4]
    scores: np.ndarray  # [N]
    labels: np.ndarray  # [N]


class Judged(NamedTuple):
    """Which detections of an image are right, and which objects are found."""

    right: np.ndarray  # int [N]: 1 right, 0 wrong, -1 neither
    taken: np.ndarray  # bool [M]: objects that a detection found


class Curve(NamedTuple):
    """Recall and precision of a class after each of its detections that is right or wrong, best first."""

    scores: np.ndarray
    recall: np.ndarray
    precision: np.ndarray
    objects: int  # number of objects to find

    @property
    def best(self) -> np.ndarray:
        """The best precision at this recall or more."""
        return np.maximum.accumulate(self.precision[::-1])[::-1]


def judge(truth: Truth, found: Found, iou: float = 0.5) -> Judged:
    """Judges the detections of an image; a right one overlaps an object of its class by at least `iou`."""
    overlaps = bx.iou(tf.constant(found.boxes, tf.float64), tf.constant(truth.boxes, tf.float64)).numpy()  # [N, M]
    overlaps = np.where(found.labels[:, None] == truth.labels, overlaps, -1)
    right, taken = np.zeros(len(found.labels), int), np.zeros(len(truth.labels), bool)
    for i in np.argsort(-found.scores, kind="stable") if len(taken) else ():
        nearest = np.argmax(overlaps[i])
        if overlaps[i, nearest] >= iou:
            right[i] = -1 if truth.difficult[nearest] else not taken[nearest]
            taken[nearest] = True
    return Judged(right, taken)


def precision_recall(truths: Sequence[Truth], found: Sequence[Found], classes: int, iou: float = 0.5) -> list[Curve]:
    """Returns the curve of each class over some images; `iou` as in `judge`."""
    objects = np.concatenate([np.zeros(0, int), *(truth.labels[~truth.difficult] for truth in truths)])
    scores = np.concatenate([np.zeros(0), *(detected.scores for detected in found)])
    labels = np.concatenate([np.zeros(0, int), *(detected.labels for detected in found)])
    right = np.concatenate([np.zeros(0, int), *(judge(*pair, iou).right for pair in zip(truths, found))])
    curves = []
    for label in range(classes):
        (own,) = np.nonzero((labels == label) & (right >= 0))
        own = own[np.argsort(-scores[own], kind="stable")]
        hits, count = np.cumsum(right[own]), int(np.sum(objects == label))
        recall = hits / count if count else np.full(len(hits), np.nan)
        curves.append(Curve(scores[own], recall, hits / np.arange(1, len(hits) + 1), count))
    return curves


def average_precision(curve: Curve, eleven_points: bool = False) -> float:
    """Returns the area under the curve of the best precision at each recall or more; nan if there is no object to find.

    This is VOC's rule from 2010 on. With `eleven_points`, the mean at recall 0, 0.1, ..., 1, as in VOC 2007.
    """
    if not curve.objects:
        return float("nan")
    if eleven_points:
        at = np.searchsorted(curve.recall, np.arange(11) / 10)  # the first detection with this recall
        return float(np.mean(np.append(curve.best, 0.0)[at]))
    return float(np.sum(np.diff(curve.recall, prepend=0.0) * curve.best))


def mean_average_precision(values: Sequence[float]) -> float:
    """Returns the mean over the classes that have an object to find; nan if none has."""
    known = [value for value in values if not np.isnan(value)]
    return float(np.mean(known)) if known else float("nan")
