"""Trains and evaluates a classifier in one phase: supervised, frozen or fine-tuned, in a folder of its own."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

import numpy as np
import tensorflow as tf

from cpc_tf.efficient.classifier import ResNetClassifier
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.efficient.inputs import Inputs, Part
from cpc_tf.efficient.trainee import FINE_TUNED, FROZEN, SUPERVISED, Classification
from cpc_tf.encoders.card import PIXELS
from cpc_tf.encoders.load import LoadedEncoder
from cpc_tf.evaluation import scores
from cpc_tf.keras import keras
from cpc_tf.settings import replace
from cpc_tf.training import loop
from cpc_tf.training.strategy import is_chief
from cpc_tf.training.workdir import Workdir


class Phases:
    """The phases of a run, which share an encoder: each begins with it as it came, and leaves its own values in it.

    Args:
      encoder: images -> feature maps, with all its variables.
      inputs: what it is trained and evaluated on.
      strategy: where it runs.
    """

    def __init__(self, encoder: LoadedEncoder, inputs: Inputs, strategy: tf.distribute.Strategy):
        self.encoder, self.inputs, self._strategy = encoder, inputs, strategy
        self._weights = encoder.get_weights()
        self._seconds: dict[str, float] = {}  # by folder, since a phase may be restored again

    @property
    def seconds(self) -> float:
        """How long all phases have trained, over all sessions of the run."""
        return sum(self._seconds.values())

    def first(self, config: EfficientConfig, part: Part) -> Classification:
        """The classifier on the frozen encoder or, of 'pixels', everything, trained on a part in `config.workdir`."""
        phase = first_phase(config)
        self.encoder.set_weights(self._weights)
        keras.utils.set_random_seed(config.training.seed)
        with self._strategy.scope():
            classifier = self._classifier(config, phase)
            steps = config.training.steps(len(self.inputs.chosen.rows))
            trainee = Classification(self.encoder, classifier, phase, config, steps, self._strategy)
        self._train(config, trainee, part, steps)
        return trainee

    def fine_tune(
        self, config: EfficientConfig, start: Classification, part: Part, steps: int, evaluated: bool = False
    ) -> tuple[Classification, Sequence[dict[str, float]]]:
        """Goes on with the whole stack from the classifier of a frozen phase, in `config.workdir`.

        Returns:
          What was trained, and the records; some have held-out figures if these are to be `evaluated`.
        """
        horizon = config.sgd.finetune_steps
        self.encoder.set_weights(self._weights)  # first, since averages begin at the weights
        trainee = Classification(self.encoder, start.classifier, FINE_TUNED, config, horizon, self._strategy)
        every = config.sgd.look_every if evaluated else 0
        evaluate = (lambda: self.held_out(config, trainee)) if evaluated else None
        return trainee, self._train(config, trainee, part, steps, evaluate=evaluate, evaluate_every=every)

    def held_out(self, config: EfficientConfig, trainee: Classification) -> dict[str, float]:
        """How a classifier does on the held-out labels."""
        found, _ = _evaluate(config, trainee, self.inputs.held_out(trainee.phase))
        return {"held_out_top1": found["top1"], "held_out_loss": found["loss"]}

    def test(self, config: EfficientConfig, trainee: Classification) -> tuple[dict[str, float], np.ndarray]:
        """Top-1, top-5 and loss of a classifier on the test split, and (label, prediction) of each image, [N, 2]."""
        return _evaluate(config, trainee, self.inputs.test(trainee.phase))

    def _classifier(self, config: EfficientConfig, phase: str) -> ResNetClassifier:
        side = config.images.image_size
        head = config.classifier if phase == FROZEN else replace(config.classifier, head_blocks=0)
        norm = "none" if phase == SUPERVISED else "batch"
        classifier = ResNetClassifier(len(self.inputs.class_names), head, norm, config.numerics.precision)
        maps = tf.function(self.encoder).get_concrete_function(tf.TensorSpec([1, side, side, 3])).structured_outputs
        classifier.build(tf.TensorShape([None, *maps.shape[1:]]))
        return classifier

    def _train(
        self, config: EfficientConfig, trainee: Classification, part: Part, steps: int, **evaluation
    ) -> Sequence[dict[str, float]]:
        batches = self.inputs.training(config, trainee.phase, part)
        workdir = Workdir(config, "efficient", is_chief(config.training))
        outcome = loop.train(trainee, batches, config.training, steps, workdir, **evaluation)
        self._seconds[config.workdir] = outcome.seconds
        return outcome.records


def first_phase(config: EfficientConfig) -> str:
    """The phase that a run begins with."""
    return SUPERVISED if config.classifier.encoder == PIXELS else FROZEN


def fine_tuning(config: EfficientConfig) -> int:
    """Steps of the second phase at most; 0: there is none."""
    return config.sgd.finetune_steps if first_phase(config) == FROZEN else 0


def folder(config: EfficientConfig, *names: str) -> EfficientConfig:
    """The same settings for a phase in a folder of the run."""
    return replace(config, workdir=os.path.join(config.workdir, *names))


def _evaluate(
    config: EfficientConfig, trainee: Classification, batches: Iterable
) -> tuple[dict[str, float], np.ndarray]:
    logits, labels = trainee.logits(batches)
    found = scores.score(logits, labels)
    loop.refuse_divergence(found, config, trainee.rates)
    return found, np.stack([labels, logits.argmax(1)], 1)
