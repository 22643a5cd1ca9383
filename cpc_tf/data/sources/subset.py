"""Some examples of a source, by their indices: nothing is copied."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from cpc_tf.data.sources.source import IndexedSource, Source


def restricted(source: Source, indices: np.ndarray) -> Source:
    """Returns the examples of `source.ordered()` with these indices, int64 [n], ascending; the source itself if all."""
    return source if len(indices) == source.num_examples else Subset(source.by_index(), indices)


class Subset(IndexedSource):
    """Some examples of a source that reads by index. See `restricted`."""

    def __init__(self, source: IndexedSource, indices: np.ndarray):
        self.num_examples, self.class_names, self.levels = len(indices), source.class_names, source.levels
        self.several_labels = source.several_labels
        self._source, self._indices = source, tf.constant(indices, tf.int64)

    def read(self, index: tf.Tensor) -> dict[str, tf.Tensor]:
        return self._source.read(self._indices[index])

    def labels(self) -> np.ndarray:
        return self._source.labels()[self._indices.numpy()]

    def groups(self) -> np.ndarray:
        return self._source.groups()[self._indices.numpy()]

    def names(self) -> list[str]:
        every = self._source.names()
        return [every[index] for index in self._indices.numpy()]
