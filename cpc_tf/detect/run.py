"""A detection run: fine-tunes Faster R-CNN on an encoder (Sec. 4.3) and scores it by the rules of PASCAL VOC."""

from __future__ import annotations

import json
import os
import time

import numpy as np
import tensorflow as tf

from cpc_tf.data import catalog, detection_pipeline
from cpc_tf.data.source import DetectionSource
from cpc_tf.detect import pictures, scoring, voc_files
from cpc_tf.detect.config import DetectConfig
from cpc_tf.detect.trainee import CLASS_NAMES, DetectorTraining
from cpc_tf.settings import ConfigError
from cpc_tf.training import loop
from cpc_tf.training.strategy import is_chief, strategy_of
from cpc_tf.training.workdir import Workdir, write_file


def detect(config: DetectConfig) -> dict:
    """Trains and tests; returns the result, which is also in result.json.

    Raises:
      ConfigError, loop.Stopped, loop.Diverged.
    """
    workdir, training = Workdir(config), config.training
    strategy = strategy_of(training)
    source, objects = _with_objects(config, config.data.split, "split")
    test_source, test_objects = _with_objects(config, config.scoring.test_split, "test_split")
    names = source.class_names
    train_steps = training.steps(source.num_examples)
    trainee = DetectorTraining(config, len(names), strategy, train_steps)
    chief = is_chief(strategy)
    if chief:
        write_file(os.path.join(config.workdir, CLASS_NAMES), json.dumps(list(names)) + "\n")
    print(f"{objects.sum()} objects of {len(names)} classes on {source.num_examples} images", flush=True)

    def batches(step: int, context: tf.distribute.InputContext) -> tf.data.Dataset:
        return detection_pipeline.batches(
            source,
            config.canvas,
            global_batch=training.batch_size,
            per_batch=context.get_per_replica_batch_size(training.batch_size),
            seed=training.seed,
            start_step=step,
            shard=(context.input_pipeline_id, context.num_input_pipelines),
        )

    record = loop.train(trainee, batches, training, train_steps, workdir, _Watch().look)
    start = time.monotonic()
    scenes = scoring.find(test_source, config.canvas, trainee.detect, strategy, config.scoring.test_batch_size)
    scores = scoring.score(scenes, len(names), config.scoring.detection_iou)
    result = {
        "kind": "detect",
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
        "boxes": int(objects.sum()),
        "test_images": test_source.num_examples,
        "test_boxes": int(test_objects.sum()),
        "steps": record["step"],
        "wall_seconds": record["wall_seconds"] + time.monotonic() - start,
    }
    if chief:
        _leave(config, scenes, scores, test_source)
        workdir.finish(result)
    return result


def _with_objects(config: DetectConfig, split: str, flag: str) -> tuple[DetectionSource, np.ndarray]:
    """A split, and how many objects of each class it has."""
    data = config.data
    source = catalog.open_detection_source(data.dataset, data.data_dir, split, data.shuffle_window, split_flag=flag)
    objects = scoring.objects_of_classes(source)
    if not objects.sum():
        raise ConfigError(f"--{flag}={split}: no object there in --dataset={data.dataset} but difficult ones")
    return source, objects


class _Watch:
    """Tells once if many objects are not learned from."""

    MANY = 0.5  # of an image

    def __init__(self):
        self._told = False

    def look(self, step: int, record: dict[str, float]) -> str | None:
        if self._told or record["left_out"] < self.MANY:
            return None
        self._told = True
        return (
            f"step {step}: {record['left_out']:.1f} objects of an image are not learned from, smaller than "
            "smallest_box or beyond --max_boxes; a larger --area_scale shows them larger"
        )


def _leave(config: DetectConfig, scenes: list[scoring.Scene], scores: scoring.Scores, source: DetectionSource) -> None:
    """Writes what was found, as text and in pictures."""

    def write(name: str, content: str | bytes) -> None:
        write_file(os.path.join(config.workdir, name), content)

    names, split, iou = source.class_names, config.scoring.test_split, config.scoring.detection_iou
    for name, text in voc_files.result_files(scenes, names, split).items():
        write(os.path.join("detections", name), text)
    write("detections.json", voc_files.to_json(scenes, names, config.data.dataset, split))
    write("table.txt", scoring.table(scores, names) + "\n")
    write("curves.png", pictures.draw_curves(scores, names))
    places = pictures.worst(scenes, iou)
    images = pictures.images_at(source, places)
    write("sheet.png", pictures.draw_sheet([scenes[place] for place in places], images, names, iou))
