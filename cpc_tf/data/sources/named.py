"""Some images of a source of boxes, by their names; nothing is copied."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from cpc_tf.data.sources.source import DetectionSource, Select


def image_names(source: DetectionSource) -> list[str]:
    """Returns the name of each image of a source, in order."""
    return source.objects.names


class Named(DetectionSource):
    """The images of a source that have one of some names. See `DetectionSource`.

    An epoch has the order that the source has. A resume reads that epoch from its start, without decoding an image.
    """

    def __init__(self, source: DetectionSource, names: Sequence[str]):
        self.class_names, self.levels, self._source = source.class_names, source.levels, source
        self.objects = source.objects.of({*names})
        self.num_examples = len(self.objects.names)
        pairs = tf.lookup.KeyValueTensorInitializer(tf.constant(names), tf.ones([len(names)], tf.int32))
        self._wanted = tf.lookup.StaticHashTable(pairs, 0)

    def stream(self, seed: int, start: int = 0, select: Select = None) -> tf.data.Dataset:
        epoch, done = divmod(start, self.num_examples)
        examples = self._own(self._source.stream(seed, epoch * self._source.num_examples)).skip(done)
        counted = _counted(examples, start)
        return counted if select is None else counted.filter(lambda example: select(example["counter"]))

    def ordered(self) -> tf.data.Dataset:
        return _counted(self._own(self._source.ordered()), 0)

    def _own(self, examples: tf.data.Dataset) -> tf.data.Dataset:
        return examples.filter(lambda example: self._wanted.lookup(example["name"]) > 0)


def _counted(examples: tf.data.Dataset, start: int) -> tf.data.Dataset:
    return examples.enumerate(start).map(lambda counter, example: {**example, "counter": counter})
