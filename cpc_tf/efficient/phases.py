"""Trains and evaluates a classifier in one phase: supervised, frozen or fine-tuned, in a folder of its own."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from cpc_tf.efficient.classifier import ResNetClassifier
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.efficient.inputs import Inputs, Part
from cpc_tf.efficient.trainee import FINE_TUNED, FROZEN, SUPERVISED, Classification
from cpc_tf.encoders.identity import PIXELS
from cpc_tf.encoders.loaded import LoadedEncoder
from cpc_tf.evaluation import scores
from cpc_tf.keras import keras
from cpc_tf.settings import replace
from cpc_tf.training import loop
from cpc_tf.training.strategy import is_chief
from cpc_tf.training.workdir import Workdir


class Trained(NamedTuple):
    """A phase that is over.

    Attributes:
      trainee: encoder and classifier. All phases share the encoder: it is of the phase that was trained last.
      records: those of the training; some have held-out figures if they were asked for.
    """

    trainee: Classification
    records: Sequence[loop.Record]


class Tested(NamedTuple):
    """A test.

    Attributes:
      scores: top-1, top-5 and loss.
      predicted, labels: classes, int64 [N].
    """

    scores: dict[str, float]
    predicted: np.ndarray
    labels: np.ndarray


class Phases:
    """The phases of a run, which share an encoder: each begins with it as it came.

    Args:
      encoder: images -> feature maps, with all its variables.
      inputs: what it is trained and evaluated on.
      strategy: where it runs.
    """

    def __init__(self, encoder: LoadedEncoder, inputs: Inputs, strategy: tf.distribute.Strategy):
        self.encoder, self.inputs, self._strategy = encoder, inputs, strategy
        self._weights = values(encoder.variables)
        self._seconds: dict[str, float] = {}  # by folder, since a phase may be restored again

    @property
    def seconds(self) -> float:
        """How long all phases have trained, over all sessions of the run."""
        return sum(self._seconds.values())

    def first(self, config: EfficientConfig, part: Part) -> Trained:
        """The classifier on the frozen encoder or, of 'pixels', everything, in `config.workdir`."""
        phase = first_phase(config)
        assign(self.encoder.variables, self._weights)
        keras.utils.set_random_seed(config.training.seed)
        with self._strategy.scope():
            classifier = self._classifier(config, phase)
            steps = config.training.steps(len(self.inputs.chosen.rows))
            trainee = self._trainee(config, classifier, phase, steps)
        return self._train(config, trainee, part, steps)

    def fine_tune(
        self, config: EfficientConfig, start: Classification, part: Part, steps: int, evaluated: bool = False
    ) -> Trained:
        """Goes on with the whole stack from a frozen phase, in `config.workdir`.

        Args:
          config: of this phase.
          start: whose classifier it begins with.
          part: to train on.
          steps: for how long.
          evaluated: whether the held-out images are evaluated now and then.
        """
        trainee = self._trainee(config, start.classifier, FINE_TUNED, config.sgd.finetune_steps)
        assign(self.encoder.variables, self._weights)
        every = config.sgd.look_every if evaluated else 0
        evaluate = (lambda: self.held_out(config, trainee)) if evaluated else None
        return self._train(config, trainee, part, steps, evaluate=evaluate, evaluate_every=every)

    def held_out(self, config: EfficientConfig, trainee: Classification) -> dict[str, float]:
        """How a classifier does on the held-out labels."""
        found = _evaluate(config, trainee, self.inputs.held_out(trainee.phase)).scores
        return {"held_out_top1": found["top1"], "held_out_loss": found["loss"]}

    def test(self, config: EfficientConfig, trainee: Classification) -> Tested:
        """How a classifier does on the test split."""
        return _evaluate(config, trainee, self.inputs.test(trainee.phase))

    def _classifier(self, config: EfficientConfig, phase: str) -> ResNetClassifier:
        side = config.images.image_size
        head = config.classifier if phase == FROZEN else replace(config.classifier, head_blocks=0)
        norm = "none" if phase == SUPERVISED else "batch"
        classifier = ResNetClassifier(len(self.inputs.class_names), head, norm, config.numerics.precision)
        maps = tf.function(self.encoder).get_concrete_function(tf.TensorSpec([1, side, side, 3])).structured_outputs
        classifier.build(tf.TensorShape([None, *maps.shape[1:]]))
        return classifier

    def _trainee(self, config: EfficientConfig, classifier: ResNetClassifier, phase: str, steps: int) -> Classification:
        seed, batch, xla = config.training.seed, config.training.batch_size, config.numerics.xla
        return Classification(self.encoder, classifier, phase, config.sgd, steps, seed, self._strategy, batch, xla)

    def _train(self, config: EfficientConfig, trainee: Classification, part: Part, steps: int, **evaluation) -> Trained:
        batches = self.inputs.training(config, trainee.phase, part)
        workdir = Workdir(config, "efficient", is_chief(self._strategy))
        rates = _rates(trainee)
        outcome = loop.train(trainee, batches, config.training, steps, workdir, rates=rates, **evaluation)
        self._seconds[config.workdir] = outcome.seconds
        return Trained(trainee, outcome.records)


def first_phase(config: EfficientConfig) -> str:
    """The phase that a run begins with."""
    return SUPERVISED if config.classifier.encoder == PIXELS else FROZEN


def fine_tuning(config: EfficientConfig) -> int:
    """Steps of the second phase at most; 0: there is none."""
    return config.sgd.finetune_steps if first_phase(config) == FROZEN else 0


def folder(config: EfficientConfig, *names: str) -> EfficientConfig:
    """The same settings for a phase in a folder of the run."""
    return replace(config, workdir=os.path.join(config.workdir, *names))


def values(variables: Iterable[tf.Variable]) -> list[np.ndarray]:
    """Copies of the values of variables."""
    return [variable.numpy() for variable in variables]


def assign(variables: Iterable[tf.Variable], copies: Iterable[np.ndarray]) -> None:
    """Sets variables to what `values` gave."""
    for variable, value in zip(variables, copies):
        variable.assign(value)


def _evaluate(config: EfficientConfig, trainee: Classification, batches: Iterable) -> Tested:
    logits, labels = trainee.logits(batches)
    found = scores.score(logits, labels)
    loop.refuse_divergence(found, config, _rates(trainee))
    return Tested(found, logits.argmax(1), labels)


def _rates(trainee: Classification) -> Sequence[str]:
    return ("finetune_rate", "encoder_rate") if trainee.phase == FINE_TUNED else ("learning_rate",)
