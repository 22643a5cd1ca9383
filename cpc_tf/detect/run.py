"""A detection run: fine-tunes Faster R-CNN on an encoder (Sec. 4.3) and scores it by the rules of
PASCAL VOC.

It has one phase, or two: the detector on the frozen encoder, then both (Sec. 2.2).
"""

from __future__ import annotations

import functools
import json
import math
import os
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from cpc_tf.augment.config import warn_of_colour
from cpc_tf.boxes import canvas
from cpc_tf.boxes.source import DetectionSource, Named
from cpc_tf.core.files import read_text, to_json
from cpc_tf.core.settings import ConfigError
from cpc_tf.data.pipeline import fetching
from cpc_tf.detect import inputs, pictures, scoring
from cpc_tf.detect.config import DetectConfig
from cpc_tf.detect.faster_rcnn import FasterRCNN
from cpc_tf.detect.scoring import Scene, Scores
from cpc_tf.detect.trainee import CATEGORY_IDS, CLASS_NAMES, WHOLE, DetectorTraining, build_detector
from cpc_tf.training import loop
from cpc_tf.training.kept_data import keep_data
from cpc_tf.training.phases import (
    FINE_TUNED,
    FROZEN,
    HELD_OUT,
    SEARCH,
    Evaluation,
    PhasedRun,
    choose,
    held_out,
    in_folder,
)
from cpc_tf.training.session import open_run
from cpc_tf.training.strategy import replica_batches
from cpc_tf.training.trainee import rows_of
from cpc_tf.training.workdir import Workdir

CHOSEN_BY = f"{HELD_OUT}map_all"  # over all points, since steps of 11 points are coarse


def detect(config: DetectConfig) -> dict[str, Any]:
    """Trains, tests and prints the table; returns the result, which is also in result.json.

    A finished run is not tested again: its result and its table are read.

    Raises:
      ConfigError, loop.Stopped, loop.Diverged.
    """
    config, found = inputs.find_dataset(config)
    with open_run(config, "detect") as (workdir, strategy):
        data = inputs.open_data(config)
        keep_data(workdir, strategy, {"split": data.source, "test_split": data.test_source})
        result = workdir.result(
            lambda saved: "map11" in saved and tf.io.gfile.exists(workdir.file("table.txt"))
        )
        if result is None:
            result = _run(workdir, strategy, data, found)
        else:
            print(f"{workdir.path}: already finished", flush=True)
        table = read_text(workdir.file("table.txt")) if workdir.chief else ""
        print(f"\n{table}\nresults and images: {workdir.path}", flush=True)
    return result


def _run(
    workdir: Workdir,
    strategy: tf.distribute.Strategy,
    data: inputs.DetectionData,
    found: Sequence[inputs.Origin],
) -> dict[str, Any]:
    """Trains, tests and writes the files of a run; returns the content of result.json."""
    # The settings that follow from the data.
    source = data.source
    test_source = data.test_source
    given = workdir.config
    sizes = source.sizes()
    workdir.config, line = inputs.fit_to_images(given, sizes)
    print(f"{data.summary}\n  {line}", flush=True)
    config = workdir.usual(inputs.USUAL, source.num_examples, strategy, tell=False)
    if not workdir.has_begun:
        origins = inputs.table([*found, *inputs.origins(given, config, data, sizes)])
        print(f"\n{origins}\n", flush=True)
        workdir.write_with_run("derived.txt", f"{origins}\n")

    # The phases and the detector.
    training = config.training
    names = source.class_names
    length = lengths(config, source.num_examples)
    held_out = config.phases.held_out
    parts = divided(source, held_out, training.seed) if length.first and held_out else None
    phases = DetectionPhases(config, build_detector(config, len(names), strategy), strategy)
    encoder = phases.model.backbone
    warn_of_colour(encoder.text, encoder.learned.augment, encoder.learned.augment_changes)
    workdir.write(CLASS_NAMES, json.dumps(list(names)) + "\n")
    if source.category_ids:
        workdir.write(CATEGORY_IDS, to_json(dict(source.category_ids)))

    # Training, test and files.
    with fetching(source, test_source):
        tested, phase_results = _train(phases, workdir, source, test_source, length, parts)
        if workdir.chief:
            _write_detections(workdir, config, tested.scenes, tested.scores, test_source)
    return workdir.finish(
        {
            "encoder": config.detector.backbone.encoder,
            "identity": encoder.identity.to_json(),
            "backbone": config.detector.backbone.backbone,
            "dataset": config.data.dataset,
            "split": config.data.split,
            "test_split": config.scoring.test_split,
            "num_classes": len(names),
            "class_names": list(names),
            "seed": training.seed,
            **tested.scores.result(names),
            "iou": config.scoring.detection_iou,
            "images": source.num_examples,
            "levels": source.intensity_range,
            "boxes": data.objects,
            "test_images": test_source.num_examples,
            "test_boxes": data.test_objects,
            **phase_results,
            "wall_seconds": phases.seconds + tested.seconds,
        }
    )


def _train(
    phases: DetectionPhases,
    workdir: Workdir,
    source: DetectionSource,
    test_source: DetectionSource,
    length: Lengths,
    parts: Parts | None,
) -> tuple[DetectorTest, dict[str, Any]]:
    """Trains on all images; returns the test of the last phase, and the fields of the result about
    the phases.
    """
    if not length.first:
        steps = phases.whole(workdir, source, length.second)
        return phases.test(test_source), {"steps": steps}
    workdir.begin(0)
    search = []
    steps = length.second
    if parts:
        search = best_length(phases, parts, length)
        steps = next(record["steps"] for record in search if record["chosen"])
        held_out = f"{parts.held_out.num_examples} held-out images"
        print(f"{FINE_TUNED}: {steps} of {length.second} steps are best on {held_out}", flush=True)
    phases.first(source, length.first)
    tested = phases.test(test_source)
    results = {FROZEN: {**tested.scores.means, "steps": length.first}}
    if steps:
        phases.second(source, length, steps)
        tested = phases.test(test_source)
    results[FINE_TUNED] = {**tested.scores.means, "steps": steps}
    for phase, scores in results.items():
        count = test_source.num_examples
        print(
            f"{phase:12} mAP {100 * scores['map11']:.1f} % over 11 points ({count} images)",
            flush=True,
        )
    total = length.first + steps
    most = length.first + length.second
    return tested, {"phases": results, "search": search, "steps": total, "most_steps": most}


class LeftOut:
    """Warns once if training leaves out half an object of an image or more. Called with each record
    of a training.
    """

    def __init__(self):
        self.warned = False

    def __call__(self, step: int, record: dict[str, float]) -> str | None:
        if self.warned or record["left_out"] < 0.5:
            return None
        self.warned = True
        return (
            f"step {step}: {record['left_out']:.1f} objects of an image are not learned from,"
            " smaller than --smallest_box or beyond --max_boxes; a larger --area_scale shows them"
            " larger"
        )


def _write_detections(
    workdir: Workdir,
    config: DetectConfig,
    scenes: Sequence[Scene],
    scores: Scores,
    source: DetectionSource,
) -> None:
    """Writes the detections as text and as figures."""
    names = source.class_names
    split = config.scoring.test_split
    iou = config.scoring.detection_iou
    for name, text in scoring.result_files(scenes, names, split).items():
        workdir.write(os.path.join("detections", name), text)
    workdir.write("detections.json", scoring.to_json(scenes, names, config.data.dataset, split))
    workdir.write("table.txt", scoring.table(scores, names, len(scenes)) + "\n")
    workdir.write("curves.png", pictures.draw_curves(scores, names))
    least_score = scores.best_f1.score if scores.best_f1 else pictures.USUAL_SCORE
    worst = pictures.worst(scenes, iou, least_score)
    images = pictures.images_at(source, worst)
    drawn = [scenes[index] for index in worst]
    workdir.write("sheet.png", pictures.draw_sheet(drawn, images, names, iou, least_score))


class Lengths(NamedTuple):
    """Steps of the phases. `second` is the most that the second may have; without a first phase it
    is the only one.
    """

    first: int
    second: int


def lengths(config: DetectConfig, images: int) -> Lengths:
    """Returns the lengths of a run on so many images. Raises ConfigError if the first phase leaves
    none for the second.

    They are the same where some images are held out, so that the chosen length is right for all.
    """
    training = config.training
    epochs = config.phases.frozen_epochs
    total = training.steps(images)
    first = math.ceil(epochs * images / training.batch_size)
    if first >= total:
        raise ConfigError(
            "frozen_epochs",
            epochs,
            f"{first} steps of {images} images are the whole run, which has {total}; a "
            "second phase needs a longer --train_epochs or --train_steps",
        )
    return Lengths(first, total - first)


class DetectorTest(NamedTuple):
    """A test of the detector."""

    scenes: list[Scene]  # its detections in each image
    scores: Scores
    seconds: float


class Parts(NamedTuple):
    """The training images in two parts, to choose the length of the second phase on."""

    fit: DetectionSource
    held_out: DetectionSource


def divided(source: DetectionSource, part: float, seed: int) -> Parts:
    """Holds out a random part of the images, at least one, and of copies all or none.

    Raises:
      ConfigError: one of the two parts has no objects.
    """
    names = np.array(source.objects.names)
    groups = source.groups()
    count = max(1, round(part * len(names)))
    # Whole groups in a random order of their first names, the last one as it comes.
    first, of_group = np.unique(names[groups], return_inverse=True)
    order = np.random.default_rng(seed).permutation(len(first))
    held_out: list[str] = []
    for group in order:
        if len(held_out) < count:
            held_out += names[of_group == group].tolist()
    count = len(held_out)
    fit = names[~np.isin(names, held_out)].tolist()
    parts = [Named(source, some) for some in (fit, held_out) if some]
    if len(parts) < 2 or not all(scoring.objects_of_classes(part)[0].any() for part in parts):
        raise ConfigError(
            "held_out",
            part,
            f"splits the {len(names)} training images into {len(names) - count} to train on"
            f" and {count} to choose the length of the second phase on, and one of the two has"
            " no object; use another part, or --held_out=0",
        )
    return Parts(*parts)


class DetectionPhases(PhasedRun):
    """The phases of a run. They share a detector; the second starts from what it is after the
    first.

    Args:
      config: of the run.
      model: the detector.
      strategy: where it is.
    """

    def __init__(self, config: DetectConfig, model: FasterRCNN, strategy: tf.distribute.Strategy):
        super().__init__("detect")
        self.model, self._config, self._strategy, self._watch = model, config, strategy, LeftOut()
        # Refused before anything is written.
        rows_of(strategy, config.training.batch_size, config.numerics)
        self._weights = model.get_weights() if config.phases.frozen_epochs else []
        xla = config.numerics.xla if model.backbone.compiles else "off"
        self._find = scoring.finder(
            config.canvas, model.find, strategy, config.scoring.test_batch_size, xla
        )

    def test(self, source: DetectionSource) -> DetectorTest:
        """Tests the detector as it is now on each image of a source."""
        start = time.monotonic()
        scenes = self._find(source)
        scores = scoring.score(scenes, self.model.num_classes, self._config.scoring.detection_iou)
        return DetectorTest(scenes, scores, time.monotonic() - start)

    def held_out(self, source: DetectionSource) -> dict[str, float]:
        """Returns the mean average precisions on held-out images."""
        return {
            f"{HELD_OUT}{name}": value for name, value in self.test(source).scores.means.items()
        }

    def whole(self, workdir: Workdir, source: DetectionSource, steps: int) -> int:
        """Trains the encoder and the detector in one phase, in the directory of the run; returns
        the step.
        """
        return self._train(workdir, WHOLE, source, steps, steps).step

    def first(self, source: DetectionSource, steps: int, *folders: str) -> None:
        """Trains the detector on the frozen encoder, as it was given."""
        self.model.set_weights(self._weights)
        workdir = self.workdir(in_folder(self._config, *folders, FROZEN))
        _refuse_other_length(self._train(workdir, FROZEN, source, steps, steps), steps, workdir)

    def second(
        self,
        source: DetectionSource,
        length: Lengths,
        steps: int,
        *folders: str,
        held_out: DetectionSource | None = None,
    ) -> Sequence[dict[str, float]]:
        """Trains both for the first `steps` of the second phase, from the detector as the first
        phase left it.

        With `held_out` it is tested on these images from time to time, and ends when no test gets
        better.

        Returns:
          The records of metrics.jsonl; with `held_out`, some have the average precision on it.
        """
        workdir = self.workdir(in_folder(self._config, *folders, FINE_TUNED))
        evaluation = None
        if held_out:
            every = math.ceil(length.second / self._config.phases.looks)
            patience = self._config.phases.patience
            evaluation = Evaluation(lambda: self.held_out(held_out), every, CHOSEN_BY, patience)
        outcome = self._train(
            workdir, FINE_TUNED, source, steps, length.second, length.first, evaluation
        )
        if not held_out:
            _refuse_other_length(outcome, steps, workdir)
        return outcome.records

    def _train(
        self,
        workdir: Workdir,
        phase: str,
        source: DetectionSource,
        steps: int,
        horizon: int,
        done: int = 0,
        evaluation: Evaluation | None = None,
    ) -> loop.Outcome:
        """Trains a phase for `steps` of its `horizon`, on the images that follow those of the
        `done` steps before.
        """
        trainee = DetectorTraining(self._config, self.model, self._strategy, horizon, phase)
        make = functools.partial(canvas.batches, source, self._config.canvas)
        batches = replica_batches(self._config.training, make)

        def after(step: int, context: tf.distribute.InputContext) -> tf.data.Dataset:
            return batches(done + step, context)

        return self.train(workdir, trainee, after, steps, evaluation, watch=self._watch)


def best_length(phases: DetectionPhases, parts: Parts, length: Lengths) -> list[dict[str, Any]]:
    """Trains without the held-out images; returns a record of each test on them, of which one is
    'chosen'.

    The chosen one has the highest average precision, of equals the fewest steps; 0 steps are the
    first phase alone.
    """
    phases.first(parts.fit, length.first, SEARCH)
    records = [Workdir.rounded(0, phases.held_out(parts.held_out))]
    records += phases.second(parts.fit, length, length.second, SEARCH, held_out=parts.held_out)
    tests = [
        {"phase": FINE_TUNED, "steps": record["step"], **held_out(record), "chosen": False}
        for record in records
        if CHOSEN_BY in record
    ]
    choose(tests, CHOSEN_BY)
    return tests


def _refuse_other_length(outcome: loop.Outcome, steps: int, workdir: Workdir) -> None:
    if outcome.step != steps:
        raise ConfigError(
            f"{workdir.path}: has been trained for {outcome.step} steps and should now have"
            f" {steps}, since the length of the run or the best length has changed; use another"
            " --workdir"
        )
