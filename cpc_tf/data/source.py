"""The interface of all datasets: encoded images in an order that is a function of (seed,
counter).
"""

from __future__ import annotations

import abc
import contextlib
import hashlib
from collections.abc import Hashable, Iterator, Mapping
from typing import Any, Callable, NamedTuple, Optional

import numpy as np
import tensorflow as tf

from cpc_tf.core.settings import ConfigError
from cpc_tf.data import decode

# Purposes of random numbers, a number each, so that the crop does not depend on the order or on the
# mirror.
ORDER, SHARDS, WINDOW, CROPPING, MIRRORING, CANVAS = range(1, 7)

NO_LABEL = -1
# More examples than any run sees; tf.data wants a number.
FOREVER = tf.int64.max
MOST_LISTED = 100_000  # files that an inventory lists: a few MB, of which a run keeps a part
# Picks examples by their counter, before anything is read or parsed: int64 -> bool of the same
# shape, a scalar or [n].
Select = Optional[Callable[[tf.Tensor], tf.Tensor]]


def random_key(seed: int, purpose: int, *counters: tf.Tensor | int) -> tf.Tensor:
    """A seed for `tf.random.stateless_*`, int64 [2].

    Args:
      seed: the seed of the run.
      purpose: one of the constants above.
      *counters: int64 scalars, such as the epoch or the example counter.
    """
    value = tf.stack([tf.cast(seed, tf.int64), tf.constant(purpose, tf.int64)])
    for counter in counters:
        value = tf.random.experimental.stateless_fold_in(value, tf.cast(counter, tf.int64))
    return value


def read_once(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns the dataset without tf.data's optimizations, which take longer than reading a small
    folder once.
    """
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    return dataset.with_options(options)


class SplitError(ConfigError):
    """A split that cannot be opened.

    Args:
      split: its name.
      reason: why it cannot be opened.
      flag: the flag that it came from.
    """

    def __init__(self, split: str, reason: str, flag: str = "split"):
        super().__init__(f"--{flag}={split}: {reason}")
        self.split = split
        self.reason = reason


@contextlib.contextmanager
def named_by(flag: str) -> Iterator[None]:
    """Raises a SplitError again with the flag that the split came from."""
    try:
        yield
    except SplitError as error:
        raise SplitError(error.split, error.reason, flag) from error


class SplitInfo(NamedTuple):
    """Information on a split for the user."""

    split: str = ""  # its name in the dataset, if that may differ from the one asked for
    # {split: its examples} of all splits of the dataset, as far as they are known
    splits: Mapping[str, int] = {}
    notes: tuple[str, ...] = ()  # lines on what is left out or taken for something else
    bare: str = ""  # which of its images have no label and are not in it, if there are such
    unlabelled: str = ""  # why there are no labels


class Examples(abc.ABC):
    """A dataset of any kind: `stream` and `ordered` give dicts with a `counter`, int64, and
    more.
    """

    num_examples: int
    class_names: tuple[str, ...]  # of the labels, in their order; empty if unlabelled
    about = SplitInfo()
    # see `inventory`
    edition = ""
    marked = "label"
    intensity_range: decode.IntensityRange | None = (
        None  # of images of more than 8 bits, see `decode.decode`
    )

    @abc.abstractmethod
    def stream(self, seed: int, start: int = 0, select: Select = None) -> tf.data.Dataset:
        """Gives shuffled examples without end, from the global counter `start` on.

        An epoch is the counters [e * num_examples, (e + 1) * num_examples): each example once, in
        an order that is a function of (seed, e). `stream(seed, start)` equals
        `stream(seed).skip(start)` without replaying the data, so that training resumes exactly.
        `select` keeps only some counters, in the same order.
        """

    @abc.abstractmethod
    def ordered(self) -> tf.data.Dataset:
        """Gives each example once, in the order of the files; `counter` is the position."""

    def decode(self, encoded: tf.Tensor, least_side: int = 0) -> tf.Tensor:
        """Returns the pixels of an image of this source, uint8 [H, W, 3]; see `decode.decode`."""
        return decode.decode(encoded, least_side, self.intensity_range)

    def described(self) -> str:
        """Returns counts and a digest, which other files, labels or names of classes would
        change.
        """
        text = f"{self.inventory()['digest']} {self.intensity_range}"
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        return f"{self.num_examples:,} images, {len(self.class_names)} classes, digest {digest}"

    def inventory(self) -> dict[str, Any]:
        """Returns what is in the split, as far as it is known without reading an image, in types of
        JSON.

        Returns:
          edition: its name and version, of TensorFlow Datasets; else empty.
          images: their number.
          classes: their names, in order.
          digest: a text that another file, size or mark, or a class more, would change.
          marked: what the marks are: 'label' or 'boxes'.
          files: {name: [bytes, mark]}; None of more than MOST_LISTED files.
        """
        about = {
            "edition": self.edition,
            "images": self.num_examples,
            "classes": list(self.class_names),
        }
        digest = hashlib.sha256(repr(about).encode())
        files = {}
        for name, size, mark in self.files():
            digest.update(f"{name}\n{size} {mark}\n".encode())
            if len(files) <= MOST_LISTED:
                files[name] = [size, mark]
        listed = files if len(files) <= MOST_LISTED else None
        return {**about, "digest": digest.hexdigest()[:32], "marked": self.marked, "files": listed}

    def files(self) -> Iterator[tuple[str, int, str]]:
        """Yields name, bytes and mark of each file: its label or a digest of its boxes; '' if it
        has none.
        """
        yield from ()

    def share(self, host: int, hosts: int) -> Examples | None:
        """Returns what only this one of several hosts reads in its epochs; None if all hosts go
        through all examples.

        The shares have the same number of examples. Their first epochs together are an epoch of
        this, without its last examples if the hosts do not divide it; so do all later ones.
        """
        return None

    def changed(self) -> list[str]:
        """Returns the paths of the files that have changed or vanished since this was opened, as
        far as is known.
        """
        return []

    def damaged(self) -> list[str]:
        """Reads all files of records; returns the paths of those that cannot be read to their
        ends.
        """
        return []


class Source(Examples):
    """A dataset of encoded images.

    `stream` and `ordered` give dicts of scalars: `counter` int64, `encoded` string (the bytes of an
    image file) and `label` int64 (-1 where there is none). With `multi_label`, `label` is float32
    [classes] of 0 and 1.
    """

    multi_label = False  # whether an image may have any number of labels

    def labels(self) -> np.ndarray:
        """Returns the label of each example, in the order of `ordered`: int64 [N], or float32 [N,
        classes].
        """
        batches = self.ordered().map(lambda example: example["label"]).batch(4096)
        return np.concatenate(list(batches.as_numpy_iterator()))

    def names(self) -> list[str]:
        """Returns a name of each example, in the order of `ordered`: a file, or the place in a
        split of records.
        """
        return [str(index) for index in range(self.num_examples)]

    def identities(self) -> Iterator[Hashable]:
        """Yields what an example has alone among those of all splits of its dataset, in the order
        of `ordered`.
        """
        yield from self.names()

    def groups(self) -> np.ndarray:
        """Returns the group of each example, int64 [N], in the order of `ordered`.

        Examples of a group stay together where a part is drawn.

        Raises:
          ConfigError: a file cannot be read.
        """
        return np.arange(self.num_examples)

    @abc.abstractmethod
    def by_index(self) -> IndexedSource:
        """Returns a source of the same examples, in the same order of `ordered`, that reads by
        index.
        """

    def class_counts(self) -> np.ndarray | None:
        """Returns how many examples each class has, int64 [classes]; None if too much would have to
        be read.
        """
        labels = self.labels()
        if self.multi_label:
            return labels.sum(0).astype(np.int64)
        return np.bincount(labels[labels != NO_LABEL], minlength=len(self.class_names))


class Indexed(Examples):
    """Examples that are read by index: their orders are computed, there is no list to shuffle or to
    keep.
    """

    @abc.abstractmethod
    def read(self, index: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns an example without its counter, by its place in `ordered`; for use in a tf.data
        function.
        """

    def stream(self, seed: int, start: int = 0, select: Select = None) -> tf.data.Dataset:
        """As of all examples; each has its `index`, int64, the place in `ordered`, too."""
        counters = tf.data.Dataset.range(start, FOREVER)
        if select is not None:
            counters = counters.filter(select)
        n = self.num_examples

        def shuffled(counter):
            order = random_key(seed, ORDER, counter // n)
            index = tf.random.experimental.index_shuffle(counter % n, order, n - 1)
            return {"counter": counter, "index": index, **self.read(index)}

        return counters.map(shuffled, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)

    def ordered(self) -> tf.data.Dataset:
        indices = tf.data.Dataset.range(self.num_examples)
        return indices.map(
            lambda index: {"counter": index, **self.read(index)},
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=True,
        )


class IndexedSource(Indexed, Source):
    """A source that reads examples by index."""

    def by_index(self) -> IndexedSource:
        return self


def restricted(source: Source, indices: np.ndarray) -> Source:
    """Returns the examples of `source.ordered()` with these indices, int64 [n], ascending; the
    source itself if all.
    """
    return source if len(indices) == source.num_examples else Subset(source.by_index(), indices)


class Joined(IndexedSource):
    """The examples of one source and then those of another, with the same classes and range of
    values.
    """

    def __init__(self, first: Source, second: Source):
        self._first, self._second = first.by_index(), second.by_index()
        self._sources = (first, second)
        self.num_examples = first.num_examples + second.num_examples
        self.class_names = first.class_names
        self.multi_label = first.multi_label
        self.intensity_range = first.intensity_range

    def read(self, index: tf.Tensor) -> dict[str, tf.Tensor]:
        count = self._first.num_examples
        return tf.cond(
            index < count, lambda: self._first.read(index), lambda: self._second.read(index - count)
        )

    def labels(self) -> np.ndarray:
        return np.concatenate([source.labels() for source in self._sources])

    def names(self) -> list[str]:
        return [name for source in self._sources for name in source.names()]


class Relabelled(IndexedSource):
    """The examples of a source with other labels, int64 [N], of the same classes."""

    def __init__(self, source: Source, labels: np.ndarray, class_names: tuple[str, ...]):
        self._source, self._labels = source.by_index(), tf.constant(labels, tf.int64)
        self.num_examples = source.num_examples
        self.class_names = class_names
        self.intensity_range = source.intensity_range
        self.names = source.names
        self.changed = source.changed
        self.damaged = source.damaged

    def read(self, index: tf.Tensor) -> dict[str, tf.Tensor]:
        return {**self._source.read(index), "label": self._labels[index]}

    def labels(self) -> np.ndarray:
        return self._labels.numpy()


class Subset(IndexedSource):
    """Some examples of a source that reads by index; nothing is copied. See `restricted`."""

    def __init__(self, source: IndexedSource, indices: np.ndarray):
        self.num_examples = len(indices)
        self.class_names = source.class_names
        self.intensity_range = source.intensity_range
        self.multi_label = source.multi_label
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

    def identities(self) -> Iterator[Hashable]:
        every = [*self._source.identities()]
        yield from (every[index] for index in self._indices.numpy())
