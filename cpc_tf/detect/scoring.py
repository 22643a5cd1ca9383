"""Tests a detector on a dataset: average precision by the rules of the PASCAL VOC development kit, and result files.

The rules are those of Everingham et al. 2010, Sec. 4.2.

Detections of a class are judged best first, over all images. Each is assigned to the object of its class that it
overlaps most. It is right if the overlap is large enough and the object is not yet taken by a better detection, else
wrong. A detection of a difficult object is neither, and difficult objects need not be found.

Boxes are continuous here: the box of a pixel has a side of 1. The kit has inclusive pixel numbers and adds 1 to each
side, which gives the same overlaps once its (xmin, ymin, xmax, ymax) are read as [ymin - 1, xmin - 1, ymax, xmax].
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from cpc_tf.boxes.canvas import plain_batches
from cpc_tf.boxes.config import CanvasConfig
from cpc_tf.boxes.source import DetectionSource
from cpc_tf.detect import boxes as bx
from cpc_tf.detect.boxes import Detections
from cpc_tf.evaluation.counts import caution
from cpc_tf.evaluation.inference import on_replicas, own_images
from cpc_tf.progress import Progress

_PRINT_EVERY = 500  # images


class Truth(NamedTuple):
    """The M objects of an image."""

    boxes: np.ndarray  # [M, 4], [y1, x1, y2, x2]
    labels: np.ndarray  # [M], classes from 0
    difficult: np.ndarray  # [M], bool


class Detected(NamedTuple):
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


def judge(truth: Truth, detected: Detected, iou: float = 0.5) -> Judged:
    """Judges the detections of an image; a right one overlaps an object of its class by at least `iou`."""
    overlaps = bx.iou(tf.constant(detected.boxes, tf.float64), tf.constant(truth.boxes, tf.float64)).numpy()  # [N, M]
    overlaps = np.where(detected.labels[:, None] == truth.labels, overlaps, -1)
    right, taken = np.zeros(len(detected.labels), int), np.zeros(len(truth.labels), bool)
    for i in np.argsort(-detected.scores, kind="stable") if len(taken) else ():
        nearest = np.argmax(overlaps[i])
        if overlaps[i, nearest] >= iou:
            right[i] = -1 if truth.difficult[nearest] else not taken[nearest]
            taken[nearest] = True
    return Judged(right, taken)


def precision_recall(
    truths: Sequence[Truth], detections: Sequence[Detected], classes: int, iou: float = 0.5
) -> list[Curve]:
    """Returns the curve of each class over some images; `iou` as in `judge`."""
    objects = np.concatenate([np.zeros(0, int), *(truth.labels[~truth.difficult] for truth in truths)])
    scores = np.concatenate([np.zeros(0), *(image.scores for image in detections)])
    labels = np.concatenate([np.zeros(0, int), *(image.labels for image in detections)])
    right = np.concatenate([np.zeros(0, int), *(judge(*pair, iou).right for pair in zip(truths, detections))])
    curves = []
    for label in range(classes):
        (order,) = np.nonzero((labels == label) & (right >= 0))
        order = order[np.argsort(-scores[order], kind="stable")]
        hits, count = np.cumsum(right[order]), int(np.sum(objects == label))
        recall = hits / count if count else np.full(len(hits), np.nan)
        curves.append(Curve(scores[order], recall, hits / np.arange(1, len(hits) + 1), count))
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
    defined = [value for value in values if not np.isnan(value)]
    return float(np.mean(defined)) if defined else float("nan")


class Scene(NamedTuple):
    """An image of the test; boxes in its own pixels."""

    name: str  # as in VOC's result files
    truth: Truth
    detected: Detected  # best first


class Scores(NamedTuple):
    """Average precision of each class; nan if it has no object to find."""

    curves: list[Curve]
    eleven: list[float]  # over 11 points, as in VOC 2007
    every: list[float]  # over all points, as in VOC from 2010 on

    @property
    def means(self) -> dict[str, float]:
        """The means over the classes, 'map11' and 'map_all'; nan if no class has an object to find."""
        return {
            "map11": mean_average_precision(self.eleven),
            "map_all": mean_average_precision(self.every),
        }

    def result(self, class_names: Sequence[str]) -> dict[str, object]:
        """Returns the `means`, and 'ap11' and 'ap_all' of each class that has an object to find."""

        def by_name(values: Sequence[float]) -> dict[str, float]:
            return {name: value for name, value in zip(class_names, values) if not np.isnan(value)}

        return {
            **self.means,
            "ap11": by_name(self.eleven),
            "ap_all": by_name(self.every),
        }


def objects_of_classes(source: DetectionSource) -> np.ndarray:
    """Counts the objects of each class in a split: int64 [2, classes], ordinary ones and difficult ones."""
    counts, objects = np.zeros([2, len(source.class_names)], np.int64), source.objects
    np.add.at(counts, (objects.difficult.astype(int), objects.labels), 1)
    return counts


def finder(
    canvas: CanvasConfig,
    detector: Callable[[tf.Tensor, tf.Tensor], Detections],
    strategy: tf.distribute.Strategy,
    batch_size: int,
    xla: str = "off",
) -> Callable[[DetectionSource], list[Scene]]:
    """Returns a function that runs a detector on every image of a source, in order; it is traced once.

    Args:
      detector: images uint8 [B, H, W, 3] and their sizes on the canvas [B, 2] -> detections; called in replica context,
        always with `batch_size` images.
      strategy: its replicas share the work.
      batch_size: images of a replica at a time.
      xla: 'auto', 'on' or 'off': whether XLA compiles the detector, as --xla.
    """
    run = on_replicas(detector, strategy, batch_size, xla, fixed=True)

    def find(source: DetectionSource) -> list[Scene]:
        progress, scenes = Progress(source.num_examples), []
        select, rows = own_images(strategy, batch_size), batch_size * strategy.num_replicas_in_sync
        for batch in plain_batches(source, canvas, rows, select):
            detections = tf.nest.map_structure(np.asarray, run(batch["image"], batch["size"]))
            batch, before = {name: values.numpy() for name, values in batch.items()}, len(scenes)
            for i, name in enumerate(batch["name"]):
                real, count = batch["labels"][i] >= 0, detections.count[i]  # without padding
                truth = Truth(*(batch[field][i][real] for field in Truth._fields))
                boxes = detections.boxes[i, :count] / np.tile(batch["scale"][i], 2)
                detected = Detected(boxes, detections.scores[i, :count], detections.labels[i, :count])
                scenes.append(Scene(name.decode(), truth, detected))
            progress.update(len(scenes))
            if len(scenes) == source.num_examples or before // _PRINT_EVERY < len(scenes) // _PRINT_EVERY:
                print(f"testing  {progress}", flush=True)
        return scenes

    return find


def score(scenes: Sequence[Scene], classes: int, iou: float = 0.5) -> Scores:
    """Returns average precisions; a detection must overlap an object by at least `iou` to find it."""
    curves = precision_recall([scene.truth for scene in scenes], [scene.detected for scene in scenes], classes, iou)
    return Scores(curves, *([average_precision(curve, eleven) for curve in curves] for eleven in (True, False)))


def table(scores: Scores, class_names: Sequence[str], images: int) -> str:
    """Formats the average precisions on so many images as lines of text, the mean at the end."""
    width = max(len(name) for name in (*class_names, "average precision of"))
    lines = [f"{'average precision of':{width}}{'objects':>9}{'11 points':>11}{'all points':>12}"]
    for name, curve, eleven, every in zip(class_names, *scores):
        figures = f"{100 * eleven:10.1f}%{100 * every:11.1f}%" if curve.objects else f"{'-':>11}{'-':>12}"
        lines.append(f"{name:{width}}{curve.objects:9}{figures}")
    means = [100 * mean_average_precision(values) for values in (scores.eleven, scores.every)]
    total = sum(curve.objects for curve in scores.curves)
    lines.append(f"{'mean':{width}}{total:9}{means[0]:10.1f}%{means[1]:11.1f}%")
    about = tested_on({"test_images": images, "test_boxes": total})
    lines += filter(None, [about, caution(images, accuracy=False)])
    return "\n".join(lines)


def tested_on(result: Mapping[str, Any]) -> str:
    """Returns what a result.json is of, '24 objects in 8 test pictures'; '' if it does not say."""
    images, objects = result.get("test_images"), result.get("test_boxes")
    return f"{objects:,} objects in {images:,} test pictures" if images and objects else ""


def result_files(scenes: Sequence[Scene], class_names: Sequence[str], split: str) -> dict[str, str]:
    """Returns VOC's result files of competition 4 (any training data): {e.g. 'comp4_det_test_car.txt': text}.

    A line is 'IMAGE SCORE XMIN YMIN XMAX YMAX', in inclusive pixel numbers from 1: our (0, 0, 2, 2) is 1 1 2 2. In file
    names, every character but letters, marks, digits, '-' and '.' becomes '_'; split and class are cut to 100 bytes.
    """

    def plain(name: str) -> str:
        short = name.encode()[:100].decode(errors="ignore")  # a file's name has at most 255 bytes
        return "".join(c if c in "-." or unicodedata.category(c)[0] in "LMN" else "_" for c in short)

    lines = [[] for _ in class_names]
    for scene in scenes:
        for (y1, x1, y2, x2), confidence, label in zip(*scene.detected):
            # All digits of the score: ties made by rounding would change the average precision.
            lines[label].append(f"{scene.name} {confidence:.9g} {x1 + 1:.3f} {y1 + 1:.3f} {x2:.3f} {y2:.3f}\n")
    names = [f"comp4_det_{plain(split)}_{plain(name)}" for name in class_names]
    for index, name in enumerate(names):
        if names.index(name) < index:  # two classes whose names differ only in replaced characters
            names[index] = f"{name}_{index}"
    return {f"{name}.txt": "".join(text) for name, text in zip(names, lines)}


def to_json(scenes: Sequence[Scene], class_names: Sequence[str], dataset: str, split: str) -> str:
    """Returns all scenes as JSON, from which the scores can be computed again; one line an image, for diffs.

    Boxes are [ymin, xmin, ymax, xmax] in pixels of the image from 0, half-open. Labels are indices of 'class_names'. An
    image is {'name', 'boxes', 'scores', 'labels', 'truth': {'boxes', 'labels', 'difficult'}}.
    """

    def to_dict(objects: Detected | Truth) -> dict[str, list]:
        lists = {name: values.tolist() for name, values in objects._asdict().items()}
        return {**lists, "boxes": np.round(objects.boxes.astype(float), 3).tolist()}

    images = [{"name": scene.name, **to_dict(scene.detected), "truth": to_dict(scene.truth)} for scene in scenes]
    for image in images:
        image["scores"] = [float(f"{confidence:.9g}") for confidence in image["scores"]]
    head = json.dumps({"dataset": dataset, "split": split, "class_names": list(class_names)})
    return head[:-1] + ', "images": [\n' + ",\n".join(map(json.dumps, images)) + "\n]}\n"
