"""What the phases are trained and evaluated on: images or, of a frozen encoder, their features, encoded once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from cpc_tf.data.pipeline import pipeline
from cpc_tf.data.sources.source import Source
from cpc_tf.data.sources.subset import restricted
from cpc_tf.data.views.views import RandomSizedCrop
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.efficient.labels import Labels
from cpc_tf.efficient.trainee import FROZEN
from cpc_tf.encoders.load import LoadedEncoder
from cpc_tf.evaluation.features import Features, cached_batches, encode_dataset
from cpc_tf.training.strategy import replica_batches

_BATCH = 128  # of what is only encoded


class Part(NamedTuple):
    """Some of the labelled images, and their positions among all that may be seen, int64 [n]."""

    source: Source
    rows: np.ndarray


class Inputs:
    """The images of a run: those whose labels may be seen, parts of them, and those of the test.

    Features are encoded when they are first asked for: by then the encoder must be as it came.

    Args:
      config: of the run.
      encoder: images -> feature maps.
      source, test_source: the splits to train and to test on.
      labels: which labels of `source` may be seen.
    """

    def __init__(
        self, config: EfficientConfig, encoder: LoadedEncoder, source: Source, test_source: Source, labels: Labels
    ):
        self._config, self._encoder, self._test_source, self._labels = config, encoder, test_source, labels
        self.sources = (source, test_source)
        self._encoded: dict[Source, Features] = {}
        self.class_names = source.class_names
        self.chosen = Part(restricted(source, labels.chosen), np.arange(len(labels.chosen)))

    @functools.cached_property
    def fit(self) -> Part:
        """Those to fit while settings are selected."""
        return self._part(self._labels.fit)

    @functools.cached_property
    def _held_out(self) -> Part:
        return self._part(self._labels.held_out)

    def _part(self, indices: np.ndarray) -> Part:
        rows = np.searchsorted(self._labels.chosen, indices)
        return Part(restricted(self.chosen.source, rows), rows)

    def training(
        self, config: EfficientConfig, phase: str, part: Part
    ) -> Callable[[int, tf.distribute.InputContext], tf.data.Dataset]:
        """Batches of a part as `loop.train` wants them: of augmented images, or of the features of some views of them.

        `config` is of the phase, which may have settings of its own.
        """
        if not self._is_cached(phase):
            make = functools.partial(pipeline.batches, part.source, RandomSizedCrop(), config.images, config.augment)
            return replica_batches(config.training, make)
        views = config.sgd.cached_views

        def features() -> Features:
            rows = (np.arange(views)[:, None] * len(self.chosen.rows) + part.rows).ravel()
            return Features(self._views.latents[rows], self._views.labels[rows])

        return cached_batches(features, views, config.training)

    def held_out(self, phase: str) -> Iterable[dict[str, tf.Tensor]]:
        """The held-out images, in order, as `Classification.logits` takes them."""
        return self._in_order(phase, self._held_out.source, "encoding held-out images")

    def test(self, phase: str) -> Iterable[dict[str, tf.Tensor]]:
        """The images of the test, in order, as `Classification.logits` takes them."""
        return self._in_order(phase, self._test_source, "encoding test images")

    def _is_cached(self, phase: str) -> bool:
        return phase == FROZEN and bool(self._config.sgd.cached_views)

    def _in_order(self, phase: str, source: Source, title: str) -> Iterable[dict[str, tf.Tensor]]:
        images = pipeline.plain_images(source, self._config.images, _BATCH)
        if not self._is_cached(phase):
            return images
        if source not in self._encoded:
            self._encoded[source] = encode_dataset(images, self._encoder.encode, source.num_examples, title, "image")
        return _in_batches(self._encoded[source])

    @functools.cached_property
    def _views(self) -> Features:
        """All views of the images that may be seen: view after view, each in their order."""
        config, source = self._config, self.chosen.source
        views = config.sgd.cached_views
        batches = pipeline.image_views(source, config.images, config.augment, _BATCH, views, config.training.seed)
        return encode_dataset(batches, self._encoder.encode, views * source.num_examples, "encoding images", "image")


def _in_batches(features: Features) -> Iterator[dict[str, np.ndarray]]:
    for start in range(0, len(features.labels), _BATCH):
        rows = slice(start, start + _BATCH)
        yield {"latents": features.latents[rows], "label": features.labels[rows]}
