"""Some examples of a source, by their indices; only what cannot be read by index is copied."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from cpc_tf.data.sources.source import IndexedSource, Source


def restricted(source: Source, indices: np.ndarray) -> Source:
    """Returns the examples of `source.ordered()` with these indices, int64 [n], ascending; the source itself if all."""
    if len(indices) == source.num_examples:
        return source
    return Subset(source, indices) if isinstance(source, IndexedSource) else InMemory(source, indices)


class _Part(IndexedSource):
    def __init__(self, source: Source, indices: np.ndarray):
        self.num_examples, self.class_names, self.levels = len(indices), source.class_names, source.levels
        self.several_labels = source.several_labels
        self._source, self._indices = source, tf.constant(indices, tf.int64)

    def names(self) -> list[str]:
        every = self._source.names()
        return [every[index] for index in self._indices.numpy()]


class Subset(_Part):
    """Some examples of a source that reads by index. See `restricted`."""

    def read(self, index: tf.Tensor) -> dict[str, tf.Tensor]:
        return self._source.read(self._indices[index])

    def labels(self) -> np.ndarray:
        return self._source.labels()[self._indices.numpy()]


class InMemory(_Part):
    """Some examples of a source of records, read once and kept encoded. See `restricted`.

    Memory: 1 % of ImageNet is 1.4 GB, 10 % are 14 GB. Subsets of it share that memory.
    """

    def __init__(self, source: Source, indices: np.ndarray):
        super().__init__(source, indices)
        wanted = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(tf.constant(indices, tf.int64), tf.ones([len(indices)], tf.int32)), 0
        )
        kept = source.ordered().filter(lambda example: wanted.lookup(example["counter"]) > 0)
        examples = list(kept.as_numpy_iterator())
        self._encoded = tf.constant([example["encoded"] for example in examples])
        self._labels = tf.constant(np.stack([example["label"] for example in examples]))

    def read(self, index: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"encoded": self._encoded[index], "label": self._labels[index]}

    def labels(self) -> np.ndarray:
        return self._labels.numpy()
