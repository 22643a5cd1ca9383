"""What the phases are trained and evaluated on: images or, of a frozen encoder, their features, encoded once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from cpc_tf.data import pipeline
from cpc_tf.data.source import Source
from cpc_tf.data.subset import restricted
from cpc_tf.data.views import RandomSizedCrop
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.efficient.labels import Labels
from cpc_tf.efficient.trainee import FROZEN
from cpc_tf.encoders.loaded import LoadedEncoder
from cpc_tf.evaluation.features import Features, cached_batches, encode_dataset
from cpc_tf.training.strategy import replica_batches

_BATCH = 128  # of what is only encoded


class Part(NamedTuple):
    """Some of the labelled images.

    Attributes:
      source: these.
      rows: their positions among all that may be seen, int64 [n].
    """

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
        self.class_names = source.class_names
        self.chosen = Part(restricted(source, labels.chosen), np.arange(len(labels.chosen)))

    @functools.cached_property
    def fit(self) -> Part:
        """Those to fit while settings are selected."""
        return self._part(self._labels.fit)

    @functools.cached_property
    def _held_out(self) -> Part:
        return self._part(self._labels.held_out)

    def training(
        self, config: EfficientConfig, phase: str, part: Part
    ) -> Callable[[int, tf.distribute.InputContext], tf.data.Dataset]:
        """Batches as `loop.train` wants them: of augmented images, or of the feature maps of some views of them.

        Args:
          config: of this phase.
          phase: 'supervised', 'frozen' or 'fine-tuned'.
          part: to train on.
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
        return _in_batches(self._held_out_features) if self._is_cached(phase) else self._plain(self._held_out.source)

    def test(self, phase: str) -> Iterable[dict[str, tf.Tensor]]:
        """The images of the test, in order, as `Classification.logits` takes them."""
        return _in_batches(self._test_features) if self._is_cached(phase) else self._plain(self._test_source)

    def _part(self, indices: np.ndarray) -> Part:
        rows = np.searchsorted(self._labels.chosen, indices)
        return Part(restricted(self.chosen.source, rows), rows)

    def _is_cached(self, phase: str) -> bool:
        return phase == FROZEN and bool(self._config.sgd.cached_views)

    def _plain(self, source: Source) -> tf.data.Dataset:
        return pipeline.plain_images(source, self._config.images, _BATCH)

    @functools.cached_property
    def _test_features(self) -> Features:
        return self._encoded(self._plain(self._test_source), self._test_source.num_examples, "encoding test images")

    @functools.cached_property
    def _held_out_features(self) -> Features:
        source = self._held_out.source
        return self._encoded(self._plain(source), source.num_examples, "encoding held-out images")

    @functools.cached_property
    def _views(self) -> Features:
        """All views of the images that may be seen: view after view, each in their order."""
        config, source = self._config, self.chosen.source
        views = config.sgd.cached_views
        batches = pipeline.image_views(source, config.images, config.augment, _BATCH, views, config.training.seed)
        return self._encoded(batches, views * source.num_examples, "encoding images")

    def _encoded(self, batches: tf.data.Dataset, count: int, title: str) -> Features:
        return encode_dataset(batches, self._encoder.encode, count, title, "image")


def _in_batches(features: Features) -> Iterator[dict[str, np.ndarray]]:
    for start in range(0, len(features.labels), _BATCH):
        rows = slice(start, start + _BATCH)
        yield {"latents": features.latents[rows], "label": features.labels[rows]}
