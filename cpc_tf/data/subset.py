"""Few labels: a stratified, seeded, nested part of a labelled dataset."""

from __future__ import annotations

import fractions
import math

import numpy as np
import tensorflow as tf

from cpc_tf.data import keys
from cpc_tf.data.source import FOREVER, Select, Source
from cpc_tf.settings import ConfigError


def choose(
    labels: np.ndarray, class_names: tuple[str, ...], fraction: float, per_class: int = 0, seed: int = 0
) -> np.ndarray:
    """The places of the labels that a classifier may see.

    Stratified: each class gives the same part of its examples, rounded. Nested: a smaller part lies inside a larger
    one of the same seed.

    Args:
      labels: int64 [N].
      class_names: of the labels.
      fraction: in (0, 1], of each class.
      per_class: if not 0, so many of each class instead.
      seed: of the choice.

    Returns:
      int64 [n], ascending.

    Raises:
      ConfigError: a class would get no label, or has fewer than `per_class`.
    """
    chosen = []
    for number, name in enumerate(class_names):
        places = _shuffled(labels, number, seed)
        have = len(places)
        # Exact, so that 0.29 of 100 is 29; half a label more is one more.
        count = per_class or int(fractions.Fraction(str(fraction)) * have + fractions.Fraction(1, 2))
        if not have:
            raise ConfigError(f"--split: class {name} has no examples there, so it cannot be learned")
        if not count:
            raise ConfigError(
                f"--label_fraction={fraction}: leaves none of the {have} labels of class {name}; the least that gives "
                f"one is {math.ceil(5e5 / have) / 1e6:g}, or say --labels_per_class=1"
            )
        if count > have:
            raise ConfigError(f"--labels_per_class={per_class}: class {name} has only {have}")
        chosen.append(places[:count])
    return np.sort(np.concatenate(chosen))


def hold_out(
    labels: np.ndarray, chosen: np.ndarray, part: float, seed: int = 0
) -> tuple[np.ndarray, np.ndarray] | None:
    """Splits chosen labels into those to fit and those held out to select settings on, class by class.

    Args:
      labels: int64 [N], of all examples.
      chosen: places, int64 [n].
      part: in [0, 1), held out of each class; at least one of it.

    Returns:
      (places to fit, places held out), ascending; None if nothing is to be held out or a class has only one label.
    """
    fit, held = [], []
    for number in np.unique(labels[chosen]):
        places = _shuffled(labels, number, seed)
        places = places[np.isin(places, chosen)]
        if not part or len(places) < 2:
            return None
        count = max(1, round(part * len(places)))
        fit.append(places[:-count])
        held.append(places[-count:])
    return np.sort(np.concatenate(fit)), np.sort(np.concatenate(held))


def _shuffled(labels: np.ndarray, number: int, seed: int) -> np.ndarray:
    """All places of a class in the order in which they are given out."""
    return np.random.default_rng([seed, int(number)]).permutation(np.flatnonzero(labels == number))


def restricted(source: Source, places: np.ndarray) -> Source:
    """The source itself if all its places are meant, else a Subset of it."""
    return source if len(places) == source.num_examples else Subset(source, places)


class Subset(Source):
    """Some examples of a source, their encoded files in memory. See `Source`.

    Memory: a hundredth of ImageNet is 1.4 GB, a tenth 14 GB.

    Args:
      source: where they come from.
      places: in the order of `source.ordered()`, ascending, int64 [n].
    """

    def __init__(self, source: Source, places: np.ndarray):
        self.num_examples = len(places)
        self.class_names = source.class_names
        wanted = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(tf.constant(places, tf.int64), tf.ones([len(places)], tf.int32)), 0
        )
        kept = source.ordered().filter(lambda example: wanted.lookup(example["counter"]) > 0)
        examples = list(kept.as_numpy_iterator())
        self._encoded = tf.constant([example["encoded"] for example in examples])
        self._labels = tf.constant([example["label"] for example in examples], tf.int64)

    def stream(self, seed: int, start: int = 0, select: Select = None) -> tf.data.Dataset:
        counters = tf.data.Dataset.range(start, FOREVER)
        if select is not None:
            counters = counters.filter(select)
        n = self.num_examples

        def shuffled(counter):
            order = keys.key(seed, keys.ORDER, counter // n)
            return self._example(counter, tf.random.experimental.index_shuffle(counter % n, order, n - 1))

        return counters.map(shuffled)

    def ordered(self) -> tf.data.Dataset:
        return tf.data.Dataset.range(self.num_examples).map(lambda place: self._example(place, place))

    def _example(self, counter, place):
        return {"counter": counter, "encoded": self._encoded[place], "label": self._labels[place]}
