"""Average precision by the rules of the PASCAL VOC development kit (Everingham et al. 2010, Sec. 4.2), in NumPy.

Detections of a class are judged best first, over all images. Each belongs to the object of its class that it overlaps
most. It is right if they overlap enough and no better detection has that object already, else wrong. A detection of a
difficult object is neither, and difficult objects need not be found.

Boxes are continuous here: the box of a pixel has a side of 1. The kit has inclusive pixel numbers and adds 1 to each
side, which gives the same overlaps once its (xmin, ymin, xmax, ymax) are read as [ymin - 1, xmin - 1, ymax, xmax].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


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
    taken: np.ndarray  # bool [M]: objects that a detection belongs to


class Curve(NamedTuple):
    """Recall and precision of a class after each of its detections that is right or wrong, best first."""

    scores: np.ndarray
    recall: np.ndarray
    precision: np.ndarray
    objects: int  # number of objects to find


def judge(truth: Truth, found: Found, iou: float = 0.5) -> Judged:
    """Judges the detections of an image: which are right, and which objects they find."""
    difficult = np.asarray(truth.difficult, bool)
    same_class = np.asarray(found.labels)[:, None] == np.asarray(truth.labels)  # [N, M]
    overlaps = np.where(same_class, _iou(np.asarray(found.boxes, float), np.asarray(truth.boxes, float)), -1)
    right, taken = np.zeros(len(overlaps), int), np.zeros(len(difficult), bool)
    for i in np.argsort(-np.asarray(found.scores), kind="stable") if len(difficult) else ():
        belongs = np.argmax(overlaps[i])
        if overlaps[i, belongs] >= iou:
            right[i] = -1 if difficult[belongs] else not taken[belongs]
            taken[belongs] = True
    return Judged(right, taken)


def precision_recall(truths: Sequence[Truth], found: Sequence[Found], label: int, iou: float = 0.5) -> Curve:
    """The curve of the class `label` over some images; a detection is right if it overlaps an object by `iou`."""
    scores, right = [np.zeros(0)], [np.zeros(0, int)]
    objects = 0
    for truth, detected in zip(truths, found):
        objects += int(np.sum((np.asarray(truth.labels) == label) & ~np.asarray(truth.difficult, bool)))
        own = Found(*(np.asarray(x)[np.asarray(detected.labels) == label] for x in detected))
        scores.append(own.scores)
        right.append(judge(truth, own, iou).right)
    scores, right = np.concatenate(scores), np.concatenate(right)
    judged = right >= 0
    scores, right = scores[judged], right[judged]
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(right[order])
    recall = hits / objects if objects else np.full(len(hits), np.nan)
    return Curve(scores[order], recall, hits / np.arange(1, len(hits) + 1), objects)


def average_precision(curve: Curve, eleven_points: bool = False) -> float:
    """Area under the curve, where each precision is replaced by the best one at this recall or more.

    This is VOC's rule from 2010 on. With `eleven_points`, the mean at recall 0, 0.1, ..., 1, as in VOC 2007. nan if
    there is no object to find.
    """
    if not curve.objects:
        return float("nan")
    best = np.maximum.accumulate(curve.precision[::-1])[::-1]
    if eleven_points:
        at = np.searchsorted(curve.recall, np.arange(11) / 10)  # the first detection with so much recall
        return float(np.mean(np.append(best, 0.0)[at]))
    return float(np.sum(np.diff(curve.recall, prepend=0.0) * best))


def mean_average_precision(values: Sequence[float]) -> float:
    """Mean over the classes that have an object to find; nan if none has."""
    known = [value for value in values if not np.isnan(value)]
    return float(np.mean(known)) if known else float("nan")


def _iou(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """[N, M] of boxes [N, 4] and [M, 4]; 0 where there is no area."""
    one, other = one.reshape(-1, 1, 4), other.reshape(1, -1, 4)
    sides = np.minimum(one[..., 2:], other[..., 2:]) - np.maximum(one[..., :2], other[..., :2])
    shared = np.prod(np.maximum(sides, 0), -1)
    areas = [np.prod(np.maximum(x[..., 2:] - x[..., :2], 0), -1) for x in (one, other)]
    union = areas[0] + areas[1] - shared
    return np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
