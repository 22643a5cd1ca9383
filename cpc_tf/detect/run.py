"""A detection run: fine-tunes Faster R-CNN on an encoder (Sec. 4.3) and scores it by the rules of PASCAL VOC."""

from __future__ import annotations

import functools
import json
import os
import time
from typing import Any

import numpy as np
import tensorflow as tf

from cpc_tf.data import catalog
from cpc_tf.data.pipeline import detection_pipeline
from cpc_tf.data.pipeline.fetch import fetching
from cpc_tf.data.sources import classes, summary
from cpc_tf.data.sources.source import DetectionSource, Select
from cpc_tf.detect import pictures, scoring
from cpc_tf.detect.config import DetectConfig
from cpc_tf.detect.trainee import CLASS_NAMES, DetectorTraining
from cpc_tf.settings import ConfigError
from cpc_tf.training import loop
from cpc_tf.training.strategy import replica_batches
from cpc_tf.training.workdir import Workdir, open_run


def detect(config: DetectConfig) -> dict[str, Any]:
    """Trains, tests and prints the table; returns the result, which is also in result.json.

    Raises:
      ConfigError, loop.Stopped, loop.Diverged.
    """
    with open_run(config, "detect") as (workdir, strategy):
        return _run(config, workdir, strategy)


def _run(config: DetectConfig, workdir: Workdir, strategy: tf.distribute.Strategy) -> dict[str, Any]:
    training = config.training
    source, test_source, objects, test_objects, told = open_pair(config)
    workdir.keep_levels(source.levels)
    names = source.class_names
    if workdir.chief:
        print(told, flush=True)
    train_steps = training.steps(source.num_examples)
    trainee = DetectorTraining(config, len(names), strategy, train_steps)
    workdir.write(CLASS_NAMES, json.dumps(list(names)) + "\n")
    batches = replica_batches(training, functools.partial(detection_pipeline.batches, source, config.canvas))
    with fetching(source, test_source):
        outcome = loop.train(trainee, batches, training, train_steps, workdir, watch=LeftOut())

        start = time.monotonic()
        scenes = scoring.find(test_source, config.canvas, trainee.detect, strategy, config.scoring.test_batch_size)
        scores = scoring.score(scenes, len(names), config.scoring.detection_iou)
        if workdir.chief:
            _write_detections(workdir, config, scenes, scores, test_source)
    result = workdir.finish(
        {
            "encoder": config.detector.backbone.encoder,
            "identity": trainee.model.backbone.identity.to_json(),
            "backbone": config.detector.backbone.backbone,
            "dataset": config.data.dataset,
            "split": config.data.split,
            "test_split": config.scoring.test_split,
            "num_classes": len(names),
            "class_names": list(names),
            "seed": training.seed,
            **scores.result(names),
            "iou": config.scoring.detection_iou,
            "images": source.num_examples,
            "levels": source.levels,
            "boxes": objects,
            "test_images": test_source.num_examples,
            "test_boxes": test_objects,
            "steps": outcome.step,
            "wall_seconds": outcome.seconds + time.monotonic() - start,
        }
    )
    print(f"\n{scoring.table(scores, names)}\n\nresults and pictures: {workdir.path}")
    return result


class LeftOut:
    """Warns once if many objects are not learned from. Called with each record of a training."""

    MANY = 0.5  # per image

    def __init__(self):
        self._warned = False

    def __call__(self, step: int, record: dict[str, float]) -> str | None:
        if self._warned or record["left_out"] < self.MANY:
            return None
        self._warned = True
        return (
            f"step {step}: {record['left_out']:.1f} objects of an image are not learned from, smaller than "
            "smallest_box or beyond --max_boxes; a larger --area_scale shows them larger"
        )


def _write_detections(
    workdir: Workdir,
    config: DetectConfig,
    scenes: list[scoring.Scene],
    scores: scoring.Scores,
    source: DetectionSource,
) -> None:
    """Writes the detections as text and as pictures."""
    names, split, iou = source.class_names, config.scoring.test_split, config.scoring.detection_iou
    for name, text in scoring.result_files(scenes, names, split).items():
        workdir.write(os.path.join("detections", name), text)
    workdir.write("detections.json", scoring.to_json(scenes, names, config.data.dataset, split))
    workdir.write("table.txt", scoring.table(scores, names) + "\n")
    workdir.write("curves.png", pictures.draw_curves(scores, names))
    worst = pictures.worst(scenes, iou)
    images = pictures.images_at(source, worst)
    workdir.write("sheet.png", pictures.draw_sheet([scenes[index] for index in worst], images, names, iou))


def open_pair(config: DetectConfig) -> tuple[DetectionSource, DetectionSource, int, int, str]:
    """Opens --split and --test_split and gives them the same classes.

    Returns:
      Both sources, the number of objects in each without difficult ones, and lines for the user about them.

    Raises:
      ConfigError: a split does not exist or has no objects, or the test has a class that cannot be learned.
    """
    data = config.data
    splits = {"split": data.split, "test_split": config.scoring.test_split}
    sources, counts = [], []
    for flag, split in splits.items():
        source = catalog.open_detection_source(data, split, flag, config.negatives_without_xml)
        objects = scoring.objects_of_classes(source)  # [2, classes]
        if not objects[0].sum():
            raise ConfigError(f"--{flag}={split}: no object there in --dataset={data.dataset} but difficult ones")
        sources.append(source)
        counts.append(objects)
    sources, counts, lines = _with_the_same_classes(config, sources, counts)
    (easy, difficult), (test_easy, _) = counts
    # Difficult objects are learned from, but need not be found.
    shown = [dict(zip(sources[0].class_names, found.tolist())) for found in (easy + difficult, test_easy)]
    lines += classes.compare(*shown, *splits.values(), "objects")
    used = [
        summary.Used(flag, split, source.about, source.num_examples, own, "objects")
        for (flag, split), source, own in zip(splits.items(), sources, shown)
    ]
    told = summary.summary(data.dataset, used, lines)
    return *sources, int(easy.sum()), int(test_easy.sum()), told


def _with_the_same_classes(config: DetectConfig, sources: list[DetectionSource], counts: list[np.ndarray]):
    """Merges classes that the two splits spell differently; returns sources, counts, and lines about it."""
    names, splits = sources[0].class_names, (config.data.split, config.scoring.test_split)
    present = [[name for name, count in zip(names, found.sum(0)) if count] for found in counts]
    matched = classes.match(dict(zip(splits, present)) if splits[0] != splits[1] else {splits[0]: present[0]})
    if matched.trouble:
        raise ConfigError(f"--dataset={config.data.dataset}: {matched.trouble}")
    if not matched.lines:
        return sources, counts, []
    absent = [name for name in names if name not in matched.number_of]
    new = (*matched.class_names, *absent)
    table = np.array([new.index(name) if name in absent else matched.number_of[name] for name in names])
    merged = np.arange(len(new)) == table[:, None]  # [old, new]
    return [Renamed(source, table, new) for source in sources], [found @ merged for found in counts], [*matched.lines]


class Renamed(DetectionSource):
    """A source with new numbers and names of its classes.

    Args:
      source: the source.
      table: the new number of each of its classes, int64 [classes].
      class_names: by the new numbers.
    """

    def __init__(self, source: DetectionSource, table: np.ndarray, class_names: tuple[str, ...]):
        self.num_examples, self.class_names = source.num_examples, class_names
        self.about, self.levels = source.about, source.levels
        self.changed, self.damaged = source.changed, source.damaged
        self._source, self._table = source, tf.constant(table, tf.int64)

    def stream(self, seed: int, start: int = 0, select: Select = None) -> tf.data.Dataset:
        return self._source.stream(seed, start, select).map(self._renamed)

    def ordered(self) -> tf.data.Dataset:
        return self._source.ordered().map(self._renamed)

    def _renamed(self, example):
        return {**example, "labels": tf.gather(self._table, example["labels"])}
