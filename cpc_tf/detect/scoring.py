"""Runs a detector on a dataset, scores it by the rules of PASCAL VOC, and formats the detections for other tools."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from cpc_tf.data.config import CanvasConfig
from cpc_tf.data.pipeline import detection_pipeline
from cpc_tf.data.source import DetectionSource
from cpc_tf.detect import average_precision as ap
from cpc_tf.detect.average_precision import Curve, Found, Truth
from cpc_tf.detect.suppression import Detections
from cpc_tf.evaluation.counts import caution
from cpc_tf.evaluation.replicas import on_replicas, own_images
from cpc_tf.progress import Progress

_PRINT_EVERY = 500  # images


class Scene(NamedTuple):
    """An image of the test; boxes in its own pixels."""

    name: str  # as in VOC's result files
    truth: Truth
    found: Found  # best first


class Scores(NamedTuple):
    """Average precision of each class; nan if it has no object to find."""

    curves: list[Curve]
    eleven: list[float]  # over 11 points, as in VOC 2007
    every: list[float]  # over all points, as in VOC from 2010 on

    @property
    def means(self) -> dict[str, float]:
        """The means over the classes, 'map11' and 'map_all'; nan if no class has an object to find."""
        return {
            "map11": ap.mean_average_precision(self.eleven),
            "map_all": ap.mean_average_precision(self.every),
        }

    def result(self, class_names: Sequence[str]) -> dict[str, object]:
        """Returns the `means`, and 'ap11' and 'ap_all' of each class that has an object to find."""

        def known(values: Sequence[float]) -> dict[str, float]:
            return {name: value for name, value in zip(class_names, values) if not np.isnan(value)}

        return {
            **self.means,
            "ap11": known(self.eleven),
            "ap_all": known(self.every),
        }


def objects_of_classes(source: DetectionSource) -> np.ndarray:
    """Counts the objects of each class in a split: int64 [2, classes], ordinary ones and difficult ones."""
    counts, found = np.zeros([2, len(source.class_names)], np.int64), source.objects
    np.add.at(counts, (found.difficult.astype(int), found.labels), 1)
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
        own, rows = own_images(strategy, batch_size), batch_size * strategy.num_replicas_in_sync
        for batch in detection_pipeline.plain_batches(source, canvas, rows, own):
            detections = tf.nest.map_structure(np.asarray, run(batch["image"], batch["size"]))
            before = len(scenes)
            scenes += _scenes({name: values.numpy() for name, values in batch.items()}, detections)
            progress.update(len(scenes))
            if len(scenes) == source.num_examples or before // _PRINT_EVERY < len(scenes) // _PRINT_EVERY:
                print(f"testing  {progress}", flush=True)
        return scenes

    return find


def _scenes(batch: dict[str, np.ndarray], detections: Detections) -> Iterator[Scene]:
    """Yields the images of a batch, without padding."""
    for i, name in enumerate(batch["name"]):
        real, count = batch["labels"][i] >= 0, detections.count[i]
        boxes = detections.boxes[i, :count] / np.tile(batch["scale"][i], 2)
        yield Scene(
            name.decode(),
            Truth(batch["boxes"][i][real], batch["labels"][i][real], batch["difficult"][i][real]),
            Found(boxes, detections.scores[i, :count], detections.labels[i, :count]),
        )


def score(scenes: Sequence[Scene], classes: int, iou: float = 0.5) -> Scores:
    """Returns average precisions; a detection must overlap an object by at least `iou` to find it."""
    curves = ap.precision_recall([scene.truth for scene in scenes], [scene.found for scene in scenes], classes, iou)
    return Scores(curves, *([ap.average_precision(curve, eleven) for curve in curves] for eleven in (True, False)))


def table(scores: Scores, class_names: Sequence[str], images: int) -> str:
    """Formats the average precisions on so many images as lines of text, the mean at the end."""
    width = max(len(name) for name in (*class_names, "average precision of"))
    lines = [f"{'average precision of':{width}}{'objects':>9}{'11 points':>11}{'all points':>12}"]
    for name, curve, eleven, every in zip(class_names, *scores):
        figures = f"{100 * eleven:10.1f}%{100 * every:11.1f}%" if curve.objects else f"{'-':>11}{'-':>12}"
        lines.append(f"{name:{width}}{curve.objects:9}{figures}")
    means = [100 * ap.mean_average_precision(values) for values in (scores.eleven, scores.every)]
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
        for (y1, x1, y2, x2), confidence, label in zip(*scene.found):
            # All digits of the score: ties made by rounding would change the average precision.
            lines[label].append(f"{scene.name} {confidence:.9g} {x1 + 1:.3f} {y1 + 1:.3f} {x2:.3f} {y2:.3f}\n")
    names = [f"comp4_det_{plain(split)}_{plain(name)}" for name in class_names]
    for index, name in enumerate(names):
        if names.index(name) < index:  # two classes whose names differ only in replaced characters
            names[index] = f"{name}_{index}"
    return {f"{name}.txt": "".join(own) for name, own in zip(names, lines)}


def to_json(scenes: Sequence[Scene], class_names: Sequence[str], dataset: str, split: str) -> str:
    """Returns all scenes as JSON, from which the scores can be computed again; one line an image, for diffs.

    Boxes are [ymin, xmin, ymax, xmax] in pixels of the image from 0, half-open. Labels are indices of 'class_names'. An
    image is {'name', 'boxes', 'scores', 'labels', 'truth': {'boxes', 'labels', 'difficult'}}.
    """

    def to_dict(objects: Found | Truth) -> dict[str, list]:
        lists = {name: values.tolist() for name, values in objects._asdict().items()}
        return {**lists, "boxes": np.round(objects.boxes.astype(float), 3).tolist()}

    images = [{"name": scene.name, **to_dict(scene.found), "truth": to_dict(scene.truth)} for scene in scenes]
    for image in images:
        image["scores"] = [float(f"{confidence:.9g}") for confidence in image["scores"]]
    head = json.dumps({"dataset": dataset, "split": split, "class_names": list(class_names)})
    return head[:-1] + ', "images": [\n' + ",\n".join(map(json.dumps, images)) + "\n]}\n"
