"""Trains and evaluates a classifier in one phase (supervised, frozen or fine-tuned), in a folder of its own."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from cpc_tf.efficient.classifier import (
    FINE_TUNED,
    FROZEN,
    SUPERVISED,
    Classification,
    ResNetClassifier,
    build_classifier,
)
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.efficient.inputs import Inputs
from cpc_tf.efficient.plateau import Length, Plateau, evaluate_every, plateau
from cpc_tf.encoders.config import PIXELS
from cpc_tf.encoders.load import LoadedEncoder, load_feature_maps
from cpc_tf.evaluation import calibration
from cpc_tf.keras import keras
from cpc_tf.settings import replace
from cpc_tf.training import loop
from cpc_tf.training.strategy import is_chief, wants_xla
from cpc_tf.training.workdir import Workdir


class Evaluated(NamedTuple):
    """What a classifier made of the images of a part, in order."""

    scores: dict[str, float]
    logits: np.ndarray  # float32 [N, classes]
    labels: np.ndarray  # of the same kind as those of `Source`


def load_encoder(config: EfficientConfig, strategy: tf.distribute.Strategy) -> LoadedEncoder:
    """Returns the encoder of a run, or of one of its trials. Raises ConfigError, see `load_feature_maps`."""
    chosen = config.classifier
    with strategy.scope():
        return load_feature_maps(
            chosen.encoder,
            chosen.endpoint,
            config.images.image_size,
            backbone=chosen.backbones[0],
            signature=chosen.signature,
            frozen_by="--finetune_steps=0" if fine_tuning(config) else "",
            seed=config.training.seed,
            precision=config.numerics.precision,
            recompute=chosen.recompute,
            norm=chosen.norm,
            xla=wants_xla(config.numerics.xla, strategy),
        )


class Phases:
    """The phases of a run. They share an encoder: each starts from the original weights, and changes them.

    A phase with another --backbone than the one before has a network of its own in place of the shared one.
    """

    def __init__(self, encoder: LoadedEncoder, inputs: Inputs, strategy: tf.distribute.Strategy):
        self.encoder, self.inputs, self._strategy = encoder, inputs, strategy
        self._backbone = inputs.config.classifier.backbones[0]
        self._remember(inputs.config)
        self._seconds: dict[str, float] = {}  # by folder, since a phase may be restored again

    @property
    def seconds(self) -> float:
        """Seconds that all phases have trained, over all sessions of the run."""
        return sum(self._seconds.values())

    def first(self, config: EfficientConfig, part: str, length: Length | None = None) -> Classification:
        """Trains the first phase on a part, in `config.workdir`: the classifier or, for 'pixels', everything.

        `length`: as `converge` found it; without it the steps are those of the settings, and the rate is a cosine.
        """
        trainee = self._first(config, cosine=not length, drop_step=length.drop_step if length else 0)
        self._train(config, trainee, part, length.steps if length else self._longest(config))
        return trainee

    def converge(self, config: EfficientConfig) -> Plateau:
        """Trains the first phase on 'fit', in `config.workdir`, until the held-out score stays or the steps end."""
        trainee = self._first(config, cosine=False)

        def state(records: Sequence[dict[str, float]]) -> Plateau:
            return plateau(records, self.inputs.score, config.sgd.patience)

        def ended(records: Sequence[dict[str, float]]) -> bool:
            found = state(records)
            trainee.drop_rates(found.drop_step > 0)
            return found.ended

        return state(self._train(config, trainee, "fit", self._longest(config), True, ended))

    def _longest(self, config: EfficientConfig) -> int:
        """Returns the given length of the first phase, which is the longest with --patience."""
        return config.training.steps(self.inputs.count)

    def _first(self, config: EfficientConfig, cosine: bool, drop_step: int = 0) -> Classification:
        """Returns a new trainee of the first phase."""
        phase, longest = first_phase(config), self._longest(config)
        self._begin(config)
        keras.utils.set_random_seed(config.training.seed)
        with self._strategy.scope():
            classifier = build_classifier(config, phase, self._maps, len(self.inputs.class_names))
            return self._classification(classifier, phase, config, longest, cosine, drop_step)

    def _begin(self, config: EfficientConfig) -> None:
        """Gives the encoder its original weights, after loading that of another --backbone."""
        backbone = config.classifier.backbones[0]
        if backbone != self._backbone:
            self.encoder = self._weights = None
            gc.collect()  # the network is part of circles; memory may hold no two of them
            self.encoder, self._backbone = load_encoder(config, self._strategy), backbone
            self._remember(config)
        self.encoder.set_weights(self._weights)

    def _remember(self, config: EfficientConfig) -> None:
        """Keeps the weights of a new encoder and the shape of its maps, which is traced only here."""
        with self._strategy.scope():
            self._weights, self._maps = self.encoder.get_weights(), self.encoder.map_shape(config.images.image_size)

    def fine_tune(
        self, config: EfficientConfig, start: Classification, part: str, steps: int, evaluated: bool = False
    ) -> tuple[Classification, Sequence[dict[str, float]]]:
        """Trains the encoder and the classifier of a frozen phase, in `config.workdir`.

        Returns:
          The trained phase and the records of metrics.jsonl; with `evaluated`, some have held-out scores.
        """
        self.encoder.set_weights(self._weights)  # first, since averages begin at the weights
        # A length that is to be chosen needs constant rates: a shorter cosine would be another one.
        longest, cosine = config.sgd.finetune_steps, not self.inputs.held_out
        trainee = self._classification(start.classifier, FINE_TUNED, config, longest, cosine)

        def ended(records: Sequence[dict[str, float]]) -> bool:
            return evaluated and plateau(records, self.inputs.score, config.sgd.patience, drops=False).ended

        return trainee, self._train(config, trainee, part, steps, evaluated, ended)

    def held_out(self, config: EfficientConfig, trainee: Classification) -> dict[str, float]:
        """Returns the main score and the loss on the held-out labels, and the temperature that fits, if one does."""
        found, kind = self._evaluate(config, trainee, "held_out"), self.inputs.kind
        temperature = calibration.fitted_temperature(*kind.choices(found.logits, found.labels))
        return {
            **{f"held_out_{name}": found.scores[name] for name in (kind.main, "loss")},
            **({"held_out_temperature": temperature} if temperature else {}),
        }

    def test(self, config: EfficientConfig, trainee: Classification) -> Evaluated:
        """Evaluates on the test split."""
        return self._evaluate(config, trainee, "test")

    def _evaluate(self, config: EfficientConfig, trainee: Classification, part: str) -> Evaluated:
        logits, labels = trainee.logits(self.inputs.in_order(trainee.phase, part))
        found = Evaluated(self.inputs.kind.score(logits, labels), logits, labels)
        loop.refuse_divergence(found.scores, config, trainee.rates)
        return found

    def _classification(
        self, classifier: ResNetClassifier, phase: str, config: EfficientConfig, steps: int, *course
    ) -> Classification:
        kind = self.inputs.kind
        return Classification(self.encoder, classifier, phase, config, steps, self._strategy, kind, *course)

    def _train(
        self,
        config: EfficientConfig,
        trainee: Classification,
        part: str,
        steps: int,
        evaluated: bool = False,
        ended: Callable[[Sequence[dict[str, float]]], bool] = lambda records: False,
    ) -> Sequence[dict[str, float]]:
        """Returns the records of metrics.jsonl; with `evaluated`, some have held-out scores."""
        batches = self.inputs.training(config, trainee.phase, part)
        workdir = Workdir(config, "efficient", is_chief(config.training))
        evaluation = {}
        if evaluated:
            every = evaluate_every(config, steps, self.inputs.count)
            evaluation = {"evaluate": lambda: self.held_out(config, trainee), "evaluate_every": every}
        outcome = loop.train(trainee, batches, config.training, steps, workdir, ended=ended, **evaluation)
        self._seconds[config.workdir] = outcome.seconds
        return outcome.records


def first_phase(config: EfficientConfig) -> str:
    """Returns the phase that a run begins with."""
    return SUPERVISED if config.classifier.encoder == PIXELS else FROZEN


def fine_tuning(config: EfficientConfig) -> int:
    """Returns the most steps of fine-tuning; 0: there is none."""
    return config.sgd.finetune_steps if first_phase(config) == FROZEN else 0


def folder(config: EfficientConfig, *names: str) -> EfficientConfig:
    """Returns the same settings for a phase in a folder of the run."""
    return replace(config, workdir=os.path.join(config.workdir, *names))
