"""Trains and evaluates a classifier in one phase (supervised, frozen or fine-tuned), in a folder of its own."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from cpc_tf.data.pipeline import pipeline
from cpc_tf.data.sources.source import Source
from cpc_tf.data.sources.subset import restricted
from cpc_tf.data.views.views import RandomSizedCrop
from cpc_tf.efficient.classifier import (
    ENCODED,
    FINE_TUNED,
    FROZEN,
    SUPERVISED,
    Classification,
    ResNetClassifier,
    build_classifier,
)
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.efficient.labels import Labels
from cpc_tf.efficient.propagation.stream import beside
from cpc_tf.encoders.card import PIXELS
from cpc_tf.encoders.loaded import LoadedEncoder
from cpc_tf.evaluation import calibration, label_kinds
from cpc_tf.evaluation.features import Features, encode_dataset, feature_batches
from cpc_tf.evaluation.replicas import on_replicas
from cpc_tf.keras import keras
from cpc_tf.settings import replace
from cpc_tf.training import loop
from cpc_tf.training.strategy import is_chief, replica_batches
from cpc_tf.training.workdir import Workdir


class Inputs:
    """The images of a run, in four parts.

    'chosen' are the images whose labels may be used. A search trains on its part 'fit' and is scored on
    the rest, 'held_out'. 'test' is the test split.

    Features of a frozen encoder are encoded at the first use, which must be before the encoder is fine-tuned.

    Args:
      config: of the run.
      encoder: images -> feature maps.
      source, test_source: the splits to train and to test on.
      labels: which labels of `source` may be used.
      strategy: its replicas encode.
      unlabelled: with label propagation, pictures whose labels are not read.
    """

    def __init__(
        self,
        config: EfficientConfig,
        encoder: LoadedEncoder,
        source: Source,
        test_source: Source,
        labels: Labels,
        strategy: tf.distribute.Strategy,
        unlabelled: Source | None = None,
    ):
        self._config, self._labels, self._unlabelled = config, labels, unlabelled
        xla = config.numerics.xla if encoder.compiles else "off"
        self._encode = on_replicas(encoder.encode, strategy, ENCODED, xla)
        self._batch = ENCODED * strategy.num_replicas_in_sync
        self.sources, self.class_names, self.count = (source, test_source), source.class_names, len(labels.chosen)
        self.kind, self.holds_out = label_kinds.of(source.several_labels), labels.held_out is not None
        self._parts = {"chosen": restricted(source, labels.chosen), "test": test_source}
        self._encoded: dict[str, Features] = {}

    def _rows(self, part: str) -> np.ndarray:
        """Returns the positions of a part among the chosen images, int64 [n]."""
        return np.searchsorted(self._labels.chosen, getattr(self._labels, part))

    def _source(self, part: str) -> Source:
        if part not in self._parts:
            self._parts[part] = restricted(self._parts["chosen"], self._rows(part))
        return self._parts[part]

    def _is_cached(self, phase: str) -> bool:
        return phase == FROZEN and bool(self._config.sgd.cached_views)

    def training(
        self, config: EfficientConfig, phase: str, part: str
    ) -> Callable[[int, tf.distribute.InputContext], tf.data.Dataset]:
        """Returns batches of a part as `loop.train` takes them: augmented images, or features of some views of each.

        With label propagation, phases that train the whole network get pictures without labels beside these.

        `config` is that of the phase, which may have settings of its own.
        """
        if not self._is_cached(phase):
            source = self._source(part)
            make = functools.partial(pipeline.batches, source, RandomSizedCrop(), config.images, config.augment)
            if self._unlabelled and phase != FROZEN:
                make = beside(make, self._unlabelled, config)
            return replica_batches(config.training, make)

        def cached(**order) -> tf.data.Dataset:
            rows = (np.arange(config.sgd.cached_views)[:, None] * self.count + self._rows(part)).ravel()
            return feature_batches(Features(self._views.latents[rows], self._views.labels[rows]), **order)

        return replica_batches(config.training, cached)

    def in_order(self, phase: str, part: str) -> Iterable[dict[str, tf.Tensor]]:
        """Returns the images of a part in order, as `Classification.logits` takes them."""
        source = self._source(part)
        images = pipeline.plain_images(source, self._config.images, self._batch)
        if not self._is_cached(phase):
            return images
        if part not in self._encoded:
            title = f"encoding {part.replace('_', '-')} images"
            self._encoded[part] = encode_dataset(images, self._encode, source.num_examples, title, "image")
        latents, labels = self._encoded[part]
        batches = (slice(start, start + self._batch) for start in range(0, len(labels), self._batch))
        return [{"latents": latents[rows], "label": labels[rows]} for rows in batches]

    def sample(self, part: str, most: int) -> tuple[np.ndarray, Features]:
        """Returns at most `most` evenly spaced images of a part, uint8 [n, S, S, 3], and their mean features [n, D]."""
        source = self._source(part)
        every = -(-source.num_examples // most)
        images = pipeline.plain_images(source, self._config.images, self._batch, every=every)
        pixels = np.concatenate([batch["image"] for batch in images.as_numpy_iterator()])
        encode = functools.partial(_mean_features, self._encode)
        return pixels, encode_dataset(images, encode, len(pixels), field="image")

    @functools.cached_property
    def _views(self) -> Features:
        """All views of the chosen images: view after view, each in the order of the images."""
        config, source = self._config, self._source("chosen")
        views = config.sgd.cached_views
        batches = pipeline.image_views(source, config.images, config.augment, self._batch, views, config.training.seed)
        return encode_dataset(batches, self._encode, views * self.count, "encoding images", "image")


def _mean_features(encode: Callable[[tf.Tensor], tf.Tensor], images: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(encode(images), [1, 2])  # [B, h, w, D] -> [B, D]


class Evaluated(NamedTuple):
    """What a classifier made of the images of a part, in order."""

    scores: dict[str, float]
    logits: np.ndarray  # float32 [N, classes]
    labels: np.ndarray  # of the same kind as those of `Source`


class Phases:
    """The phases of a run. They share an encoder: each starts from the original weights, and changes them."""

    def __init__(self, encoder: LoadedEncoder, inputs: Inputs, strategy: tf.distribute.Strategy):
        self.encoder, self.inputs, self._strategy = encoder, inputs, strategy
        self._weights = encoder.get_weights()
        self._seconds: dict[str, float] = {}  # by folder, since a phase may be restored again

    @property
    def seconds(self) -> float:
        """Seconds that all phases have trained, over all sessions of the run."""
        return sum(self._seconds.values())

    def first(self, config: EfficientConfig, part: str) -> Classification:
        """Trains the first phase on a part, in `config.workdir`: the classifier or, for 'pixels', everything."""
        phase, steps = first_phase(config), config.training.steps(self.inputs.count)
        self.encoder.set_weights(self._weights)
        keras.utils.set_random_seed(config.training.seed)
        with self._strategy.scope():
            classifier = build_classifier(config, phase, self.encoder, len(self.inputs.class_names))
            trainee = self._classification(classifier, phase, config, steps)
        self._train(config, trainee, part, steps)
        return trainee

    def fine_tune(
        self, config: EfficientConfig, start: Classification, part: str, steps: int, evaluated: bool = False
    ) -> tuple[Classification, Sequence[dict[str, float]]]:
        """Trains the encoder and the classifier of a frozen phase, in `config.workdir`.

        Returns:
          The trained phase and the records of metrics.jsonl; with `evaluated`, some have held-out scores.
        """
        # A length that is to be chosen needs constant rates: a shorter cosine would be another one.
        horizon, chosen = config.sgd.finetune_steps, self.inputs.holds_out
        self.encoder.set_weights(self._weights)  # first, since averages begin at the weights
        trainee = self._classification(start.classifier, FINE_TUNED, config, 0 if chosen else horizon)
        every = -(-horizon // config.sgd.looks) if evaluated else 0
        evaluate = (lambda: self.held_out(config, trainee)) if evaluated else None
        return trainee, self._train(config, trainee, part, steps, evaluate=evaluate, evaluate_every=every)

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
        self, classifier: ResNetClassifier, phase: str, config: EfficientConfig, cosine_steps: int
    ) -> Classification:
        return Classification(self.encoder, classifier, phase, config, cosine_steps, self._strategy, self.inputs.kind)

    def _train(
        self, config: EfficientConfig, trainee: Classification, part: str, steps: int, **evaluation
    ) -> Sequence[dict[str, float]]:
        batches = self.inputs.training(config, trainee.phase, part)
        workdir = Workdir(config, "efficient", is_chief(config.training))
        outcome = loop.train(trainee, batches, config.training, steps, workdir, **evaluation)
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
