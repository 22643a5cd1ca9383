"""A detection run: fine-tunes Faster R-CNN on an encoder (Sec. 4.3) and scores it by the rules of PASCAL VOC."""

from __future__ import annotations

import functools
import json
import os
import time
from typing import Any

import tensorflow as tf

from cpc_tf.data.pipeline import detection_pipeline
from cpc_tf.data.pipeline.fetch import fetching
from cpc_tf.data.sources.source import DetectionSource
from cpc_tf.detect import pictures, scoring, voc_files
from cpc_tf.detect.config import DetectConfig
from cpc_tf.detect.splits import open_pair
from cpc_tf.detect.trainee import CLASS_NAMES, DetectorTraining
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
    source, test_source, objects, test_objects, summary = open_pair(config)
    workdir.keep_levels(source.levels)
    names = source.class_names
    if workdir.chief:
        print(summary, flush=True)
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

    MANY = 0.5  # of an image

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
    """Writes what was detected, as text and in pictures."""
    names, split, iou = source.class_names, config.scoring.test_split, config.scoring.detection_iou
    for name, text in voc_files.result_files(scenes, names, split).items():
        workdir.write(os.path.join("detections", name), text)
    workdir.write("detections.json", voc_files.to_json(scenes, names, config.data.dataset, split))
    workdir.write("table.txt", scoring.table(scores, names) + "\n")
    workdir.write("curves.png", pictures.draw_curves(scores, names))
    worst = pictures.worst(scenes, iou)
    images = pictures.images_at(source, worst)
    workdir.write("sheet.png", pictures.draw_sheet([scenes[index] for index in worst], images, names, iou))
