"""What a detector finds on a dataset, and how good that is by the rules of PASCAL VOC."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from cpc_tf.data.config import CanvasConfig
from cpc_tf.data.pipeline import detection_pipeline
from cpc_tf.data.sources.source import DetectionSource
from cpc_tf.detect.average_precision import (
    Curve,
    Found,
    Truth,
    average_precision,
    mean_average_precision,
    precision_recall,
)
from cpc_tf.detect.detections import Detections
from cpc_tf.training.progress import Progress

_TELL_EVERY = 500  # images

# Images [B, H, W, 3] uint8 and their sizes on the canvas [B, 2] -> detections.
Detector = Callable[[tf.Tensor, tf.Tensor], Detections]


class Scene(NamedTuple):
    """An image of the test; boxes in its own pixels."""

    name: str  # what VOC's result files call it
    truth: Truth
    found: Found  # best first


class Scores(NamedTuple):
    """Average precision of each class, in the order of their names; nan where there is no object to be found."""

    curves: list[Curve]
    eleven: list[float]  # over 11 points, as VOC 2007
    every: list[float]  # over all points, as VOC from 2010 on

    def result(self, class_names: Sequence[str]) -> dict[str, object]:
        """'map11', 'map_all', and of each class that has an object to be found 'ap11' and 'ap_all'."""

        def known(values: Sequence[float]) -> dict[str, float]:
            return {name: value for name, value in zip(class_names, values) if not np.isnan(value)}

        return {
            "map11": mean_average_precision(self.eleven),
            "map_all": mean_average_precision(self.every),
            "ap11": known(self.eleven),
            "ap_all": known(self.every),
        }


def objects_of_classes(source: DetectionSource) -> np.ndarray:
    """Objects of each class in a split, int64 [2, classes]: those that are to be found, and the difficult ones."""
    counts = np.zeros([2, len(source.class_names)], np.int64)
    objects = source.ordered().map(lambda example: (example["labels"], example["difficult"]))
    for labels, difficult in objects.as_numpy_iterator():
        np.add.at(counts, (difficult.astype(int), labels), 1)
    return counts


def find(
    source: DetectionSource,
    canvas: CanvasConfig,
    detector: Detector,
    strategy: tf.distribute.Strategy,
    batch_size: int,
) -> list[Scene]:
    """Every image of a source with what the detector finds on it, in order.

    Args:
      canvas: how images are shown.
      detector: called in replica context, always with `batch_size` images.
      strategy: whose replicas share the work; each host does all of it.
    """

    @tf.function(autograph=False)
    def run(images, sizes):
        return strategy.run(detector, (images, sizes))

    replicas = len(strategy.extended.worker_devices)
    progress = Progress(source.num_examples)
    scenes = []
    for batch in detection_pipeline.plain_batches(source, canvas, batch_size * replicas):
        shards = [
            _distributed(strategy, tf.split(_filled(batch[name], batch_size * replicas), replicas))
            for name in ("image", "size")
        ]
        parts = strategy.experimental_local_results(run(*shards))
        detections = Detections(*(np.concatenate([x.numpy() for x in column]) for column in zip(*parts)))
        before = len(scenes)
        scenes += _scenes({name: values.numpy() for name, values in batch.items()}, detections)
        progress.update(len(scenes))
        if len(scenes) == source.num_examples or before // _TELL_EVERY < len(scenes) // _TELL_EVERY:
            print(f"testing  {progress}", flush=True)
    return scenes


def score(scenes: Sequence[Scene], classes: int, iou: float = 0.5) -> Scores:
    """Average precisions; a detection that overlaps an object by `iou` finds it."""
    truths, found = [scene.truth for scene in scenes], [scene.found for scene in scenes]
    curves = [precision_recall(truths, found, label, iou) for label in range(classes)]
    return Scores(
        curves,
        [average_precision(curve, eleven_points=True) for curve in curves],
        [average_precision(curve) for curve in curves],
    )


def table(scores: Scores, class_names: Sequence[str]) -> str:
    """The average precisions as lines of text, the mean at the end."""
    width = max(len(name) for name in (*class_names, "average precision of"))
    lines = [f"{'average precision of':{width}}{'objects':>9}{'11 points':>11}{'all points':>12}"]
    for name, curve, eleven, every in zip(class_names, *scores):
        figures = f"{100 * eleven:10.1f}%{100 * every:11.1f}%" if curve.objects else f"{'-':>11}{'-':>12}"
        lines.append(f"{name:{width}}{curve.objects:9}{figures}")
    means = [100 * mean_average_precision(values) for values in (scores.eleven, scores.every)]
    total = sum(curve.objects for curve in scores.curves)
    lines.append(f"{'mean':{width}}{total:9}{means[0]:10.1f}%{means[1]:11.1f}%")
    return "\n".join(lines)


def _filled(values: tf.Tensor, count: int) -> tf.Tensor:
    """A batch [n, ...] filled up to `count` with its last image, since one shape is all that is compiled."""
    return tf.gather(values, tf.minimum(tf.range(count), len(values) - 1))


def _distributed(strategy: tf.distribute.Strategy, parts: Sequence[tf.Tensor]):
    """One part for each replica of this host."""
    parts: Iterator[tf.Tensor] = iter(parts)
    return strategy.experimental_distribute_values_from_function(lambda context: next(parts))


def _scenes(batch: dict[str, np.ndarray], detections: Detections) -> Iterator[Scene]:
    """The images of a batch; what the detector made of the filling is left out."""
    for i, name in enumerate(batch["name"]):
        real, count = batch["labels"][i] >= 0, detections.count[i]
        boxes = detections.boxes[i, :count] / np.tile(batch["scale"][i], 2)
        yield Scene(
            name.decode(),
            Truth(batch["boxes"][i][real], batch["labels"][i][real], batch["difficult"][i][real]),
            Found(boxes, detections.scores[i, :count], detections.labels[i, :count]),
        )
