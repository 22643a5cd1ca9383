"""The phases of a classifier's training: supervised, or frozen and then fine-tuned."""

from __future__ import annotations

import copy
import gc
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from cpc_tf.core.keras import keras
from cpc_tf.efficient.classifier import SUPERVISED, Classification, build_classifier
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.efficient.inputs import Inputs
from cpc_tf.encoders.config import PIXELS
from cpc_tf.encoders.load import LoadedEncoder, load_feature_maps
from cpc_tf.evaluation.scores import fitted_temperature
from cpc_tf.training import loop
from cpc_tf.training.phases import (
    FINE_TUNED,
    FROZEN,
    HELD_OUT,
    Evaluation,
    Learned,
    Length,
    PhasedRun,
    Plateau,
    Record,
)
from cpc_tf.training.strategy import wants_xla


class ClassifierTest(NamedTuple):
    """A classifier's scores and outputs on the images of a part, in order."""

    scores: dict[str, float]
    logits: np.ndarray  # float32 [N, classes]
    labels: np.ndarray  # of the same kind as those of `Source`


def load_encoder(config: EfficientConfig, strategy: tf.distribute.Strategy) -> LoadedEncoder:
    """Returns the encoder of a run, or of one of its trials. Raises ConfigError, see
    `load_feature_maps`.
    """
    classifier = config.classifier
    with strategy.scope():
        return load_feature_maps(
            classifier.encoder,
            classifier.endpoint,
            config.images.image_size,
            backbone=classifier.backbones[0],
            signature=classifier.signature,
            frozen_by="--finetune_steps=0" if fine_tuning(config) else "",
            seed=config.training.seed,
            precision=config.numerics.precision,
            recompute=classifier.recompute,
            norm=classifier.norm,
            xla=wants_xla(config.numerics.xla, strategy),
        )


class ClassifierPhases(PhasedRun):
    """The phases of a run. They share an encoder: each starts from its original weights and changes
    them.

    A phase with another --backbone than the one before replaces it.
    """

    def __init__(self, encoder: LoadedEncoder, inputs: Inputs, strategy: tf.distribute.Strategy):
        super().__init__("efficient")
        self.encoder = encoder
        self.inputs = inputs
        self._strategy = strategy
        self._backbone = inputs.config.classifier.backbones[0]
        self._counted = 0
        self._remember(inputs.config)

    def first(
        self,
        config: EfficientConfig,
        part: str,
        length: Length | None = None,
        begin: Classification | None = None,
    ) -> Classification:
        """Trains the first phase on a part, in `config.workdir`: the classifier or, for 'pixels',
        everything.

        Args:
          length: as `converge` chose it; without it the steps are those of the settings, and the
            rate is a cosine.
          begin: whose classifier this one begins as, at a tenth of the rate; None: with new
            weights.
        """
        trainee = self._first(config, length)
        if begin:
            trainee.classifier.set_weights(begin.classifier.get_weights())
        bound = config.sgd.stop_at_loss
        learned = None
        if bound:
            learned = Learned(bound, trainee.drop_rates, goes_on=begin is not None)
        steps = length.steps if length else self._longest(config)
        self._train(config, trainee, part, steps, learned=learned)
        return trainee

    @property
    def parameters(self) -> dict[str, int]:
        """{'parameters': of the encoder and the classifier, as last trained}; {} where the
        encoder's are not known.
        """
        encoder = sum(int(np.prod(x.shape)) for x in self.encoder.trainable_variables)
        return {"parameters": encoder + self._counted} if encoder else {}

    def on_all_labels(self) -> ClassifierPhases:
        """Returns the same phases with inputs whose 'chosen' images are all, those of the
        test too.
        """
        made = copy.copy(self)
        made.inputs = self.inputs.with_test()
        return made

    def converge(self, config: EfficientConfig) -> Plateau:
        """Trains the first phase on 'fit', in `config.workdir`, until the held-out score stays or
        the steps end.
        """
        longest = self._longest(config)
        trainee = self._first(config, Length(longest))
        evaluation = self._evaluation(config, trainee, longest)
        evaluation = evaluation._replace(drops=config.sgd.rate_drops, drop_rates=trainee.drop_rates)
        return evaluation.plateau(self._train(config, trainee, "fit", longest, evaluation).records)

    def _longest(self, config: EfficientConfig) -> int:
        """Returns the given length of the first phase, which is the longest with --patience."""
        return config.training.steps(self.inputs.count)

    def _first(self, config: EfficientConfig, length: Length | None) -> Classification:
        """Returns a new trainee of the first phase, with the original weights of the encoder of
        `config`.

        Without a length its rate is a cosine, or drops at --drops_at.
        """
        phase = first_phase(config)
        backbone = config.classifier.backbones[0]
        if backbone != self._backbone:
            self.encoder = self._weights = None
            gc.collect()  # the network has reference cycles, and memory may not hold two
            self.encoder = load_encoder(config, self._strategy)
            self._backbone = backbone
            self._remember(config)
        self.encoder.set_weights(self._weights)
        keras.utils.set_random_seed(config.training.seed)
        with self._strategy.scope():
            classifier = build_classifier(config, phase, self._maps, len(self.inputs.class_names))
            self._counted = sum(int(np.prod(x.shape)) for x in classifier.trainable_variables)
            steps = self._longest(config)
            kind = self.inputs.kind
            if length:
                drops = length.drop_steps
            else:
                drops = [round(part * steps) for part in config.sgd.numbers("drops_at")]
            cosine = not length and not drops
            return Classification(
                self.encoder, classifier, phase, config, steps, self._strategy, kind, cosine, drops
            )

    def _remember(self, config: EfficientConfig) -> None:
        """Keeps the weights of a new encoder and the shape of its maps, which is traced only
        here.
        """
        with self._strategy.scope():
            self._weights = self.encoder.get_weights()
            self._maps = self.encoder.map_shape(config.images.image_size)

    def fine_tune(
        self,
        config: EfficientConfig,
        start: Classification,
        part: str,
        steps: int,
        evaluated: bool = False,
    ) -> tuple[Classification, Sequence[Record]]:
        """Trains the encoder and the classifier of a frozen phase, in `config.workdir`.

        Returns:
          The trained phase and the records of metrics.jsonl; with `evaluated`, some have held-out
          scores.
        """
        self.encoder.set_weights(self._weights)  # first, since averages begin at the weights
        # A length that is to be chosen needs constant rates: a shorter cosine would be another one.
        trainee = Classification(
            self.encoder,
            start.classifier,
            FINE_TUNED,
            config,
            config.sgd.finetune_steps,
            self._strategy,
            self.inputs.kind,
            cosine=not self.inputs.held_out,
        )
        evaluation = self._evaluation(config, trainee, steps) if evaluated else None
        return trainee, self._train(config, trainee, part, steps, evaluation).records

    def held_out(self, config: EfficientConfig, trainee: Classification) -> dict[str, float]:
        """Returns the main score and the loss on the held-out labels, and the temperature that
        fits, if one does.
        """
        tested = self.test(config, trainee, "held_out")
        kind = self.inputs.kind
        temperature = fitted_temperature(*kind.choices(tested.logits, tested.labels))
        scores = {f"{HELD_OUT}{name}": tested.scores[name] for name in (kind.main, "loss")}
        if temperature:
            scores[f"{HELD_OUT}temperature"] = temperature
        return scores

    def test(
        self, config: EfficientConfig, trainee: Classification, part: str = "test"
    ) -> ClassifierTest:
        """Tests on a part, by default the test split. Raises Diverged if the loss is not finite."""
        logits, labels = trainee.logits(self.inputs.in_order(trainee.phase, part))
        scores = self.inputs.kind.score(logits, labels, self.inputs.groups(part))
        loop.refuse_divergence(scores, config, trainee.rates)
        return ClassifierTest(scores, logits, labels)

    def _evaluation(
        self, config: EfficientConfig, trainee: Classification, longest: int
    ) -> Evaluation:
        every = evaluate_every(config, trainee.phase, longest, self.inputs.size("fit"))
        return Evaluation(
            lambda: self.held_out(config, trainee), every, self.inputs.score, config.sgd.patience
        )

    def _train(
        self,
        config: EfficientConfig,
        trainee: Classification,
        part: str,
        steps: int,
        evaluation: Evaluation | None = None,
        learned: Learned | None = None,
    ) -> loop.Outcome:
        batches = self.inputs.training(config, trainee.phase, part)
        return self.train(self.workdir(config), trainee, batches, steps, evaluation, learned)


def first_phase(config: EfficientConfig) -> str:
    """Returns the phase that a run begins with."""
    return SUPERVISED if config.classifier.encoder == PIXELS else FROZEN


def fine_tuning(config: EfficientConfig) -> int:
    """Returns the most steps of fine-tuning; 0: there is none."""
    return config.sgd.finetune_steps if first_phase(config) == FROZEN else 0


def evaluate_every(config: EfficientConfig, phase: str, longest: int, images: int) -> int:
    """Returns the steps between evaluations on held-out labels: an epoch of the images that are
    trained on.

    Of few images it is --look_steps or, fine-tuned, --finetune_look_steps: an evaluation after each
    epoch of a frozen phase could take longer than the training. Short phases have at least
    --least_looks.
    """
    sgd = config.sgd
    epoch = math.ceil(images / config.training.batch_size)
    least = sgd.finetune_look_steps if phase == FINE_TUNED else sgd.look_steps
    return min(max(epoch, least), math.ceil(longest / sgd.least_looks))
