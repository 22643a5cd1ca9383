"""Tests a detector on a dataset: average precision by the rules of PASCAL VOC and COCO, the best
score, result files.

VOC's rules are those of Everingham et al. 2010, Sec. 4.2. Detections of a class are judged best
first, over all images. Each is assigned to the object of its class that it overlaps most. It is
right if the overlap is large enough and the object is not yet taken by a better detection, else
wrong. A detection of a difficult object is neither, and difficult objects need not be found.

COCO's rules (Lin et al. 2014, as pycocotools has them) assign a detection to the object that it
overlaps most of those that are not taken, and to a difficult one only if no other overlaps enough.
The average precision is the mean at 101 recalls, over ten overlaps from 0.5 to 0.95: it asks for
boxes that fit closely.

Boxes are continuous here: the box of a pixel has a side of 1. The kit has inclusive pixel numbers
and adds 1 to each side, which gives the same overlaps once its (xmin, ymin, xmax, ymax) are read as
[ymin - 1, xmin - 1, ymax, xmax].
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from cpc_tf.boxes.canvas import plain_batches
from cpc_tf.boxes.config import CanvasConfig
from cpc_tf.boxes.source import DetectionSource
from cpc_tf.core.progress import Progress
from cpc_tf.detect import boxes as bx
from cpc_tf.detect.boxes import Detections
from cpc_tf.evaluation.counts import caution
from cpc_tf.evaluation.inference import on_replicas, own_images

_PRINT_EVERY = 500  # images
ELEVEN = np.arange(11) / 10  # recalls that VOC 2007 takes the mean at
COCO_RECALLS = np.linspace(0, 1, 101)
COCO_OVERLAPS = np.linspace(0.5, 0.95, 10)
LEAST_SCORES = np.arange(1, 100) / 100  # of which one is recommended


class Truth(NamedTuple):
    """The M objects of an image."""

    boxes: np.ndarray  # [M, 4], [y1, x1, y2, x2]
    labels: np.ndarray  # [M], classes from 0
    difficult: np.ndarray  # [M], bool


class ImageDetections(NamedTuple):
    """The N detections of an image, in any order."""

    boxes: np.ndarray  # [N, 4]
    scores: np.ndarray  # [N]
    labels: np.ndarray  # [N]


class Judged(NamedTuple):
    """Which detections of an image are right, and which objects are found."""

    right: np.ndarray  # int [N]: 1 right, 0 wrong, -1 neither
    taken: np.ndarray  # bool [M]: objects that a detection found


class Curve(NamedTuple):
    """Recall and precision of a class after each of its detections that is right or wrong, best
    first.
    """

    scores: np.ndarray
    recall: np.ndarray
    precision: np.ndarray
    objects: int  # number of objects to find

    @property
    def best(self) -> np.ndarray:
        """The best precision at this recall or more."""
        return np.maximum.accumulate(self.precision[::-1])[::-1]


class BestF1(NamedTuple):
    """What is found with boxes of at least the score that has the best F1, 2PR / (P + R), over all
    classes together.
    """

    score: float
    right: int  # boxes
    boxes: int  # right or wrong ones
    objects: int  # to find

    @property
    def precision(self) -> float:
        """The share of the boxes that are right."""
        return self.right / self.boxes if self.boxes else 0.0

    @property
    def recall(self) -> float:
        """The share of the objects that are found."""
        return self.right / self.objects

    @property
    def f1(self) -> float:
        """The harmonic mean of both."""
        return 2 * self.right / (self.boxes + self.objects)

    def result(self) -> dict[str, float]:
        """Returns it for a result.json."""
        return {**self._asdict(), "precision": self.precision, "recall": self.recall, "f1": self.f1}


def _overlaps(truth: Truth, detected: ImageDetections) -> np.ndarray:
    """Returns the overlaps of the detections of an image with its objects, [N, M]; -1 with those of
    another class.
    """
    boxes = tf.constant(detected.boxes, tf.float64)
    overlaps = bx.iou(boxes, tf.constant(truth.boxes, tf.float64)).numpy()
    return np.where(detected.labels[:, None] == truth.labels, overlaps, -1)


def judge(truth: Truth, detected: ImageDetections, iou: float = 0.5) -> Judged:
    """Judges the detections of an image by VOC's rules; a right one overlaps its object by at least
    `iou`.
    """
    overlaps = _overlaps(truth, detected)
    right = np.zeros(len(detected.labels), int)
    taken = np.zeros(len(truth.labels), bool)
    for i in np.argsort(-detected.scores, kind="stable") if len(taken) else ():
        nearest = np.argmax(overlaps[i])
        if overlaps[i, nearest] >= iou:
            right[i] = -1 if truth.difficult[nearest] else not taken[nearest]
            taken[nearest] = True
    return Judged(right, taken)


def judge_by_coco(
    truth: Truth, detected: ImageDetections, ious: np.ndarray = COCO_OVERLAPS
) -> np.ndarray:
    """Judges the detections of an image by COCO's rules, at each of T overlaps: int [T, N], as
    `Judged.right`.
    """
    overlaps = _overlaps(truth, detected)
    at = np.arange(len(ious))
    right = np.zeros([len(ious), len(detected.labels)], int)
    taken = np.zeros([len(ious), len(truth.labels)], bool)
    for i in np.argsort(-detected.scores, kind="stable") if taken.size else ():
        fits = (overlaps[i] >= ious[:, None]) & ~taken  # [T, M]
        # Difficult objects come last; they are never taken.
        best = np.argmax(np.where(fits, overlaps[i] - 2 * truth.difficult, -np.inf), axis=1)
        fits = fits[at, best]
        difficult = truth.difficult[best]
        right[:, i] = np.where(fits, np.where(difficult, -1, 1), 0)
        taken[at, best] |= fits & ~difficult
    return right


def precision_recall(
    truths: Sequence[Truth], detections: Sequence[ImageDetections], classes: int, iou: float = 0.5
) -> list[Curve]:
    """Returns the curve of each class over some images; `iou` as in `judge`."""
    return _curves(truths, detections, _judged(truths, detections, iou), classes)


def _judged(
    truths: Sequence[Truth], detections: Sequence[ImageDetections], iou: float
) -> np.ndarray:
    """Returns whether each detection of all images is right, as `Judged.right`."""
    return np.concatenate(
        [np.zeros(0, int), *(judge(*pair, iou).right for pair in zip(truths, detections))]
    )


def _curves(
    truths: Sequence[Truth], detections: Sequence[ImageDetections], right: np.ndarray, classes: int
) -> list[Curve]:
    """Returns the curve of each class; `right`: as `_judged` returns it."""
    objects = np.concatenate(
        [np.zeros(0, int), *(truth.labels[~truth.difficult] for truth in truths)]
    )
    scores = np.concatenate([np.zeros(0), *(image.scores for image in detections)])
    labels = np.concatenate([np.zeros(0, int), *(image.labels for image in detections)])
    curves = []
    for label in range(classes):
        (order,) = np.nonzero((labels == label) & (right >= 0))
        order = order[np.argsort(-scores[order], kind="stable")]
        hits = np.cumsum(right[order])
        count = int(np.sum(objects == label))
        recall = hits / count if count else np.full(len(hits), np.nan)
        curves.append(Curve(scores[order], recall, hits / np.arange(1, len(hits) + 1), count))
    return curves


def average_precision(curve: Curve, recalls: np.ndarray | None = None) -> float:
    """Returns the area under the curve of the best precision at each recall or more; nan if there
    is no object to find.

    This is VOC's rule from 2010 on. With `recalls`, the mean at these, as in VOC 2007 and COCO.
    """
    if not curve.objects:
        return float("nan")
    if recalls is not None:
        at = np.searchsorted(curve.recall, recalls)  # the first detection with this recall
        return float(np.mean(np.append(curve.best, 0.0)[at]))
    return float(np.sum(np.diff(curve.recall, prepend=0.0) * curve.best))


def coco_precisions(
    truths: Sequence[Truth], detections: Sequence[ImageDetections], classes: int
) -> np.ndarray:
    """Returns COCO's average precision at each of its overlaps, of each class: [10, classes]; nan
    without an object.
    """
    judged = [np.zeros([len(COCO_OVERLAPS), 0], int), *map(judge_by_coco, truths, detections)]
    precisions = []
    for right in np.concatenate(judged, axis=1):
        curves = _curves(truths, detections, right, classes)
        precisions.append([average_precision(curve, COCO_RECALLS) for curve in curves])
    return np.array(precisions)


def best_f1(
    truths: Sequence[Truth], detections: Sequence[ImageDetections], iou: float = 0.5
) -> BestF1 | None:
    """Returns the least score of boxes that has the best F1, of equals the middle one; None without
    an object to find.

    A score is a whole hundredth, so that what is printed is what was measured.
    """
    objects = sum(int(np.sum(~truth.difficult)) for truth in truths)
    if not objects:
        return None
    right = _judged(truths, detections, iou)
    scores = np.concatenate([np.zeros(0), *(image.scores for image in detections)])
    kept = (scores >= LEAST_SCORES[:, None]) & (right >= 0)  # [99, detections]
    hits = (kept & (right == 1)).sum(1)
    boxes = kept.sum(1)
    f1 = hits / (boxes + objects)
    (best,) = np.nonzero(f1 == f1.max())
    chosen = best[len(best) // 2]
    return BestF1(float(LEAST_SCORES[chosen]), int(hits[chosen]), int(boxes[chosen]), objects)


def mean_average_precision(values: Sequence[float]) -> float:
    """Returns the mean over the classes that have an object to find; nan if none has."""
    defined = [value for value in values if not np.isnan(value)]
    return float(np.mean(defined)) if defined else float("nan")


class Scene(NamedTuple):
    """An image of the test; boxes in its own pixels."""

    name: str  # as in VOC's result files
    truth: Truth
    detected: ImageDetections  # best first


class Scores(NamedTuple):
    """Average precision of each class; nan if it has no object to find."""

    curves: list[Curve]
    eleven: list[float]  # over 11 points, as in VOC 2007
    every: list[float]  # over all points, as in VOC from 2010 on
    coco50: list[float]  # COCO's at an overlap of 0.5
    coco: list[float]  # COCO's over its ten overlaps
    best_f1: BestF1 | None  # None without an object to find

    @property
    def by_class(self) -> dict[str, list[float]]:
        """{name in a result.json, without the 'ap' before it: average precision of each class}."""
        return {"11": self.eleven, "_all": self.every, "50": self.coco50, "50_95": self.coco}

    @property
    def means(self) -> dict[str, float]:
        """The means over the classes, 'map11' and so on; nan if no class has an object to find."""
        return {
            f"map{name}": mean_average_precision(values) for name, values in self.by_class.items()
        }

    def result(self, class_names: Sequence[str]) -> dict[str, object]:
        """Returns the `means`, 'ap11' and so on of each class that has an object to find, and
        'best_f1'.
        """

        def by_name(values: Sequence[float]) -> dict[str, float]:
            return {name: value for name, value in zip(class_names, values) if not np.isnan(value)}

        of_classes = {f"ap{name}": by_name(values) for name, values in self.by_class.items()}
        return {
            **self.means,
            **of_classes,
            **({"best_f1": self.best_f1.result()} if self.best_f1 else {}),
        }


def objects_of_classes(source: DetectionSource) -> np.ndarray:
    """Counts the objects of each class in a split: int64 [2, classes], ordinary ones and difficult
    ones.
    """
    counts = np.zeros([2, len(source.class_names)], np.int64)
    objects = source.objects
    np.add.at(counts, (objects.difficult.astype(int), objects.labels), 1)
    return counts


def finder(
    canvas: CanvasConfig,
    detector: Callable[[tf.Tensor, tf.Tensor], Detections],
    strategy: tf.distribute.Strategy,
    batch_size: int,
    xla: str = "off",
) -> Callable[[DetectionSource], list[Scene]]:
    """Returns a function that runs a detector on every image of a source, in order; it is traced
    once.

    Args:
      detector: images uint8 [B, H, W, 3] and their sizes on the canvas [B, 2] -> detections; called
        in replica context, always with `batch_size` images.
      strategy: its replicas share the work.
      batch_size: images of a replica at a time.
      xla: 'auto', 'on' or 'off': whether XLA compiles the detector, as --xla.
    """
    run = on_replicas(detector, strategy, batch_size, xla, fixed=True)

    def find(source: DetectionSource) -> list[Scene]:
        progress = Progress(source.num_examples)
        scenes = []
        select = own_images(strategy, batch_size)
        rows = batch_size * strategy.num_replicas_in_sync
        for batch in plain_batches(source, canvas, rows, select):
            detections = tf.nest.map_structure(np.asarray, run(batch["image"], batch["size"]))
            batch = {name: values.numpy() for name, values in batch.items()}
            before = len(scenes)
            for i, name in enumerate(batch["name"]):
                # without padding
                real = batch["labels"][i] >= 0
                count = detections.count[i]
                truth = Truth(*(batch[field][i][real] for field in Truth._fields))
                boxes = detections.boxes[i, :count] / np.tile(batch["scale"][i], 2)
                detected = ImageDetections(
                    boxes, detections.scores[i, :count], detections.labels[i, :count]
                )
                scenes.append(Scene(name.decode(), truth, detected))
            progress.update(len(scenes))
            is_due = before // _PRINT_EVERY < len(scenes) // _PRINT_EVERY
            if is_due or len(scenes) == source.num_examples:
                print(f"testing  {progress}", flush=True)
        return scenes

    return find


def score(scenes: Sequence[Scene], classes: int, iou: float = 0.5) -> Scores:
    """Returns average precisions; by VOC's rules a detection must overlap an object by at least
    `iou` to find it.
    """
    truths = [scene.truth for scene in scenes]
    detections = [scene.detected for scene in scenes]
    curves = precision_recall(truths, detections, classes, iou)
    eleven = [average_precision(curve, ELEVEN) for curve in curves]
    every = [average_precision(curve) for curve in curves]
    coco = coco_precisions(truths, detections, classes)
    best = best_f1(truths, detections, iou)
    return Scores(curves, eleven, every, coco[0].tolist(), coco.mean(0).tolist(), best)


def table(scores: Scores, class_names: Sequence[str], images: int) -> str:
    """Formats the average precisions on so many images as lines of text, the mean and the best
    score at the end.
    """
    width = max(len(name) for name in (*class_names, "average precision of"))
    lines = [
        f"{'average precision of':{width}}{'objects':>9}"
        f"{'11 points':>11}{'all points':>12}{'0.5 to 0.95':>13}"
    ]
    columns = (scores.eleven, scores.every, scores.coco)
    for name, curve, *values in zip(class_names, scores.curves, *columns):
        lines.append(f"{name:{width}}{curve.objects:9}{_percents(values)}")
    total = sum(curve.objects for curve in scores.curves)
    lines.append(f"{'mean':{width}}{total:9}{_percents(map(mean_average_precision, columns))}")
    about = tested_on({"test_images": images, "test_boxes": total})
    best = best_score({"best_f1": scores.best_f1.result()}) if scores.best_f1 else ""
    return "\n".join([*lines, *filter(None, [about, best, caution(images, accuracy=False)])])


def _percents(values: Iterable[float]) -> str:
    """Returns the cells of a row of the table."""
    texts = ["-" if np.isnan(value) else f"{100 * value:.1f}%" for value in values]
    return "".join(f"{text:>{width}}" for text, width in zip(texts, (11, 12, 13)))


def best_score(result: Mapping[str, Any]) -> str:
    """Returns what a result.json recommends, 'best F1 with boxes of a score of 0.6 or more: ...';
    '' if it does not.
    """
    if not (best := result.get("best_f1")):
        return ""
    precise = (
        f"{best['right']:,} of {best['boxes']:,} boxes right (precision"
        f" {100 * best['precision']:.1f} %)"
    )
    recalled = (
        f"{best['right']:,} of {best['objects']:,} objects found (recall"
        f" {100 * best['recall']:.1f} %)"
    )
    return (
        f"best F1 with boxes of a score of {best['score']:g} or more, chosen on the test images:"
        f" {precise}, {recalled}"
    )


def tested_on(result: Mapping[str, Any]) -> str:
    """Returns what a result.json is of, '24 objects in 8 test pictures'; '' if it does not say."""
    images = result.get("test_images")
    objects = result.get("test_boxes")
    return f"{objects:,} objects in {images:,} test images" if images and objects else ""


def result_files(scenes: Sequence[Scene], class_names: Sequence[str], split: str) -> dict[str, str]:
    """Returns VOC's result files of competition 4 (any training data): {e.g.
    'comp4_det_test_car.txt': text}.

    A line is 'IMAGE SCORE XMIN YMIN XMAX YMAX', in inclusive pixel numbers from 1: our (0, 0, 2, 2)
    is 1 1 2 2. In file names, every character but letters, marks, digits, '-' and '.' becomes '_';
    split and class are cut to 100 bytes.
    """

    def plain(name: str) -> str:
        short = name.encode()[:100].decode(errors="ignore")  # a file's name has at most 255 bytes
        characters = [*short]
        for place, character in enumerate(characters):
            if character not in "-." and unicodedata.category(character)[0] not in "LMN":
                characters[place] = "_"
        return "".join(characters)

    lines = [[] for _ in class_names]
    for scene in scenes:
        for (y1, x1, y2, x2), confidence, label in zip(*scene.detected):
            # All digits of the score: ties made by rounding would change the average precision.
            lines[label].append(
                f"{scene.name} {confidence:.9g} {x1 + 1:.3f} {y1 + 1:.3f} {x2:.3f} {y2:.3f}\n"
            )
    names = [f"comp4_det_{plain(split)}_{plain(name)}" for name in class_names]
    for index, name in enumerate(names):
        if names.index(name) < index:  # two classes whose names differ only in replaced characters
            names[index] = f"{name}_{index}"
    return {f"{name}.txt": "".join(text) for name, text in zip(names, lines)}


def to_json(scenes: Sequence[Scene], class_names: Sequence[str], dataset: str, split: str) -> str:
    """Returns all scenes as JSON, from which the scores can be computed again; one line an image,
    for diffs.

    Boxes are [ymin, xmin, ymax, xmax] in pixels of the image from 0, half-open. Labels are indices
    of 'class_names'. An image is {'name', 'boxes', 'scores', 'labels', 'truth': {'boxes', 'labels',
    'difficult'}}.
    """

    def to_dict(objects: ImageDetections | Truth) -> dict[str, list]:
        lists = {name: values.tolist() for name, values in objects._asdict().items()}
        return {**lists, "boxes": np.round(objects.boxes.astype(float), 3).tolist()}

    images = [
        {"name": scene.name, **to_dict(scene.detected), "truth": to_dict(scene.truth)}
        for scene in scenes
    ]
    for image in images:
        image["scores"] = [float(f"{confidence:.9g}") for confidence in image["scores"]]
    head = json.dumps({"dataset": dataset, "split": split, "class_names": list(class_names)})
    return head[:-1] + ', "images": [\n' + ",\n".join(map(json.dumps, images)) + "\n]}\n"
