"""The images of a run with few labels: what each phase trains on, and what it is scored on."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

import numpy as np
import tensorflow as tf

from cpc_tf.data import pipeline
from cpc_tf.data.source import Select, Source, restricted
from cpc_tf.data.views import RandomSizedCrop
from cpc_tf.efficient.classifier import ENCODED, FROZEN
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.efficient.labels import Labels
from cpc_tf.efficient.propagation import beside
from cpc_tf.encoders.config import PIXELS
from cpc_tf.encoders.load import LoadedEncoder
from cpc_tf.evaluation import label_kinds
from cpc_tf.evaluation.features import Features, encode_dataset, feature_batches
from cpc_tf.evaluation.replicas import on_replicas, own_images
from cpc_tf.training.strategy import replica_batches


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
        self.config, self._labels, self.unlabelled = config, labels, unlabelled
        xla = config.numerics.xla if encoder.compiles else "off"
        # A supervised network is not kept here: a search over several has room for one at a time.
        supervised = config.classifier.encoder == PIXELS
        self._encode = None if supervised else on_replicas(encoder.encode, strategy, ENCODED, xla)
        self._encode_means = (
            None
            if supervised
            else on_replicas(
                lambda images: tf.reduce_mean(encoder.encode(images), [1, 2]),  # [B, h, w, D] -> [B, D]
                strategy,
                ENCODED,
                xla,
            )
        )
        self._batch, self._own = ENCODED * strategy.num_replicas_in_sync, own_images(strategy, ENCODED)
        self.sources, self.class_names, self.count = (source, test_source), source.class_names, len(labels.chosen)
        self.kind = label_kinds.of(source.several_labels)
        self.held_out = 0 if labels.held_out is None else len(labels.held_out)  # labels
        self.score = f"held_out_{self.kind.main}"  # what settings and lengths are selected by
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
        return phase == FROZEN and bool(self.config.sgd.cached_views)

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
            if self.unlabelled and phase != FROZEN:
                make = beside(make, self.unlabelled, config)
            return replica_batches(config.training, make)

        def cached(**order) -> tf.data.Dataset:
            rows = (np.arange(config.sgd.cached_views)[:, None] * self.count + self._rows(part)).ravel()
            return feature_batches(Features(self._views.latents[rows], self._views.labels[rows]), **order)

        return replica_batches(config.training, cached, remote=False)

    def in_order(self, phase: str, part: str) -> Iterable[dict[str, tf.Tensor]]:
        """Returns the images of a part in order, as `Classification.logits` takes them."""
        source = self._source(part)
        images = self._plain(source, decoded=self._own)
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
        images = self._plain(source, every)
        pixels = np.concatenate([batch["image"] for batch in images.as_numpy_iterator()])
        return pixels, encode_dataset(images, self._encode_means, len(pixels), field="image")

    def _plain(self, source: Source, every: int = 1, decoded: Select = None) -> tf.data.Dataset:
        policy = self.config.augment.policy
        return pipeline.plain_images(source, self.config.images, self._batch, every, policy, decoded)

    @functools.cached_property
    def _views(self) -> Features:
        """All views of the chosen images: view after view, each in the order of the images."""
        config, source = self.config, self._source("chosen")
        views = config.sgd.cached_views
        seed = config.training.seed
        batches = pipeline.image_views(source, config.images, config.augment, self._batch, views, seed, self._own)
        return encode_dataset(batches, self._encode, views * self.count, "encoding images", "image")
