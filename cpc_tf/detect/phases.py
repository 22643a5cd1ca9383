"""The phases of a detector's training: one, or the detector on the frozen encoder and then both (Sec. 2.2)."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Optional

import numpy as np
import tensorflow as tf

from cpc_tf.boxes import canvas
from cpc_tf.boxes.source import DetectionSource, Named
from cpc_tf.detect import scoring
from cpc_tf.detect.config import DetectConfig
from cpc_tf.detect.faster_rcnn import FasterRCNN
from cpc_tf.detect.scoring import Scene, Scores
from cpc_tf.detect.trainee import WHOLE, DetectorTraining
from cpc_tf.settings import ConfigError
from cpc_tf.training import loop
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
from cpc_tf.training.strategy import replica_batches
from cpc_tf.training.trainee import rows_of
from cpc_tf.training.workdir import Workdir

Watch = Callable[[int, dict[str, float]], Optional[str]]  # see `loop.train`
CHOSEN_BY = f"{HELD_OUT}map_all"  # over all points, since steps of 11 points are coarse


class Lengths(NamedTuple):
    """Steps of the phases. `second` is the most that the second may have; without a first phase it is the only one."""

    first: int
    second: int


def lengths(config: DetectConfig, images: int) -> Lengths:
    """Returns the lengths of a run on so many images. Raises ConfigError if the first phase leaves none for the second.

    They are the same where some images are held out, so that the chosen length is right for all.
    """
    training, epochs = config.training, config.phases.frozen_epochs
    total, first = training.steps(images), math.ceil(epochs * images / training.batch_size)
    if first >= total:
        raise ConfigError(
            "frozen_epochs",
            epochs,
            f"{first} steps of {images} images are the whole run, which has {total}; a "
            "second phase needs a longer --train_epochs or --train_steps",
        )
    return Lengths(first, total - first)


class Tested(NamedTuple):
    """A test of the detector."""

    scenes: list[Scene]  # what it found in each image
    scores: Scores
    seconds: float


class Parts(NamedTuple):
    """The training images in two parts, to choose the length of the second phase on."""

    fit: DetectionSource
    held_out: DetectionSource


def divided(source: DetectionSource, part: float, seed: int) -> Parts:
    """Holds out a random part of the images, at least one. Raises ConfigError if one of the two has no objects."""
    names = np.unique(source.objects.names)
    count = max(1, round(part * len(names)))
    shuffled = np.random.default_rng(seed).permutation(names).tolist()
    parts = [Named(source, some) for some in (shuffled[count:], shuffled[:count]) if some]
    if len(parts) < 2 or not all(scoring.objects_of_classes(part)[0].any() for part in parts):
        raise ConfigError(
            "held_out",
            part,
            f"of {len(names)} training images it makes {len(names) - count} to train on and "
            f"{count} to choose the length of the second phase on, and one of the two has no object; hold out "
            "another part, or none by --held_out=0",
        )
    return Parts(*parts)


class Phases(PhasedRun):
    """The phases of a run. They share a detector; the second starts from what it is after the first.

    Args:
      config: of the run.
      model: the detector.
      strategy: where it is.
      watch: see `loop.train`.
    """

    def __init__(self, config: DetectConfig, model: FasterRCNN, strategy: tf.distribute.Strategy, watch: Watch):
        super().__init__("detect")
        self.model, self._config, self._strategy, self._watch = model, config, strategy, watch
        rows_of(strategy, config.training.batch_size, config.numerics)  # refused before anything is written
        self._weights = model.get_weights() if config.phases.frozen_epochs else []
        xla = config.numerics.xla if model.backbone.compiles else "off"
        self._find = scoring.finder(config.canvas, model.find, strategy, config.scoring.test_batch_size, xla)

    def test(self, source: DetectionSource) -> Tested:
        """Tests the detector as it is now on each image of a source."""
        start, scenes = time.monotonic(), self._find(source)
        scores = scoring.score(scenes, self.model.num_classes, self._config.scoring.detection_iou)
        return Tested(scenes, scores, time.monotonic() - start)

    def held_out(self, source: DetectionSource) -> dict[str, float]:
        """Returns the mean average precisions on held-out images."""
        return {f"{HELD_OUT}{name}": value for name, value in self.test(source).scores.means.items()}

    def whole(self, workdir: Workdir, source: DetectionSource, steps: int) -> int:
        """Trains all at once, in the directory of the run; returns the step."""
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
        """Trains both for the first `steps` of the second phase, from what the first phase made of the detector.

        With `held_out` it is tested on these images from time to time, and ends when no test gets better.

        Returns:
          The records of metrics.jsonl; with `held_out`, some have the average precision on it.
        """
        workdir, evaluation = self.workdir(in_folder(self._config, *folders, FINE_TUNED)), None
        if held_out:
            every, patience = math.ceil(length.second / self._config.phases.evals), self._config.phases.patience
            evaluation = Evaluation(lambda: self.held_out(held_out), every, CHOSEN_BY, patience)
        outcome = self._train(workdir, FINE_TUNED, source, steps, length.second, length.first, evaluation)
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
        """Trains a phase for `steps` of its `horizon`, on the images that follow those of the `done` steps before."""
        trainee = DetectorTraining(self._config, self.model, self._strategy, horizon, phase)
        make = functools.partial(canvas.batches, source, self._config.canvas)
        batches = replica_batches(self._config.training, make)

        def after(step: int, context: tf.distribute.InputContext) -> tf.data.Dataset:
            return batches(done + step, context)

        return self.train(workdir, trainee, after, steps, evaluation, watch=self._watch)


def best_length(phases: Phases, parts: Parts, length: Lengths) -> list[dict[str, Any]]:
    """Trains without the held-out images; returns a record of each test on them, of which one is 'chosen'.

    The chosen one has the highest average precision, of equals the fewest steps; 0 steps are the first phase alone.
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
            f"{workdir.path}: has been trained for {outcome.step} steps and should now have {steps}, since the length "
            "of the run or the best length has changed; take another --workdir"
        )
