"""The interface of all datasets: encoded images in an order that is a function of (seed, counter)."""

from __future__ import annotations

import abc
import functools
import hashlib
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Callable, NamedTuple, Optional

import numpy as np
import tensorflow as tf

from cpc_tf.data import keys
from cpc_tf.data.decoding import decode
from cpc_tf.settings import ConfigError

NO_LABEL = -1
# More examples than any run sees; tf.data wants a number.
FOREVER = tf.int64.max
MOST_LISTED = 100_000  # files that an inventory lists: a few MB, of which a run keeps a part
# Picks examples by their counter, before anything is read or parsed: int64 -> bool of the same shape, a scalar or [n].
Select = Optional[Callable[[tf.Tensor], tf.Tensor]]


def read_once(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns the dataset without tf.data's optimizations, which take longer than reading a small folder."""
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
        self.split, self.reason = split, reason


class About(NamedTuple):
    """What to tell the user about a split."""

    split: str = ""  # its name in the dataset, if that may differ from the one asked for
    splits: Mapping[str, int] = {}  # {split: its examples} of all splits of the dataset, as far as they are known
    notes: tuple[str, ...] = ()  # lines on what is left out or taken for something else
    unlabelled: str = ""  # why there are no labels


class Examples(abc.ABC):
    """A dataset, whatever its examples hold of an image: `stream` and `ordered` give dicts with a `counter`, int64."""

    num_examples: int
    class_names: tuple[str, ...]  # of the labels, in their order; empty if unlabelled
    about = About()
    edition, marked = "", "label"  # see `inventory`
    intensity_range: decode.IntensityRange | None = (
        None  # how images of more than 8 bits are decoded, see `decode.decode`
    )

    @abc.abstractmethod
    def stream(self, seed: int, start: int = 0, select: Select = None) -> tf.data.Dataset:
        """Gives shuffled examples without end, from the global counter `start` on.

        An epoch is the counters [e * num_examples, (e + 1) * num_examples): each example once, in an order that is a
        function of (seed, e). `stream(seed, start)` equals `stream(seed).skip(start)` without replaying the data, so
        that training resumes exactly. `select` keeps only some counters, in the same order.
        """

    @abc.abstractmethod
    def ordered(self) -> tf.data.Dataset:
        """Gives each example once, in the order of the files; `counter` is the position."""

    def decode(self, encoded: tf.Tensor, least_side: int = 0) -> tf.Tensor:
        """Returns the pixels of an image of this source, uint8 [H, W, 3]; see `decode.decode`."""
        return decode.decode(encoded, least_side, self.intensity_range)

    def described(self) -> str:
        """Returns counts and a digest, which other files, labels or names of classes would change."""
        digest = hashlib.sha256(f"{self.inventory()['digest']} {self.intensity_range}".encode()).hexdigest()[:8]
        return f"{self.num_examples:,} images, {len(self.class_names)} classes, digest {digest}"

    def inventory(self) -> dict[str, Any]:
        """Returns what is in the split, as far as it is known without reading an image, in types of JSON.

        Returns:
          edition: its name and version, of TensorFlow Datasets; else empty.
          images: their number.
          classes: their names, in order.
          digest: a text that another file, size or mark, or a class more, would change.
          marked: what the marks are: 'label' or 'boxes'.
          files: {name: [bytes, mark]}; None of more than MOST_LISTED files.
        """
        about = {"edition": self.edition, "images": self.num_examples, "classes": list(self.class_names)}
        digest, files = hashlib.sha256(repr(about).encode()), {}
        for name, size, mark in self.files():
            digest.update(f"{name}\n{size} {mark}\n".encode())
            if len(files) <= MOST_LISTED:
                files[name] = [size, mark]
        listed = files if len(files) <= MOST_LISTED else None
        return {**about, "digest": digest.hexdigest()[:32], "marked": self.marked, "files": listed}

    def files(self) -> Iterator[tuple[str, int, str]]:
        """Yields name, bytes and mark of each file: its label or a digest of its boxes; '' if it has none."""
        yield from ()

    def share(self, host: int, hosts: int) -> Examples | None:
        """Returns what only this one of several hosts reads in its epochs; None if all hosts go through all examples.

        The shares have the same number of examples. Their first epochs together are an epoch of this, without its last
        examples if the hosts do not divide it; likewise all others.
        """
        return None

    def changed(self) -> list[str]:
        """Returns the paths of the files that have changed or vanished since this was opened, as far as is known."""
        return []

    def damaged(self) -> list[str]:
        """Reads all files of records; returns the paths of those that cannot be read to their ends."""
        return []


class Source(Examples):
    """A dataset of encoded images.

    `stream` and `ordered` give dicts of scalars: `counter` int64, `encoded` string (the bytes of an image file) and
    `label` int64 (-1 where there is none). With `multi_label`, `label` is float32 [classes] of 0 and 1.
    """

    multi_label = False  # whether an image may have any number of labels

    def labels(self) -> np.ndarray:
        """Returns the label of each example, in the order of `ordered`: int64 [N], or float32 [N, classes]."""
        batches = self.ordered().map(lambda example: example["label"]).batch(4096)
        return np.concatenate(list(batches.as_numpy_iterator()))

    def names(self) -> list[str]:
        """Returns a name of each example, in the order of `ordered`: a file, or the place in a split of records."""
        return [str(index) for index in range(self.num_examples)]

    def groups(self) -> np.ndarray:
        """Returns the group of each example, int64 [N], in the order of `ordered`.

        Those of a group are on one side of whatever is drawn.

        Raises:
          ConfigError: a file cannot be read.
        """
        return np.arange(self.num_examples)

    @abc.abstractmethod
    def by_index(self) -> IndexedSource:
        """Returns a source of the same examples, in the same order of `ordered`, that reads by index."""

    def class_counts(self) -> np.ndarray | None:
        """Returns how many examples each class has, int64 [classes]; None if too much would have to be read."""
        labels = self.labels()
        if self.multi_label:
            return labels.sum(0).astype(np.int64)
        return np.bincount(labels[labels != NO_LABEL], minlength=len(self.class_names))


class Indexed(Examples):
    """Examples that are read by index: their orders are computed, there is no list to shuffle or to keep."""

    @abc.abstractmethod
    def read(self, index: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns an example without its counter, by its place in `ordered`; for use in a tf.data function."""

    def stream(self, seed: int, start: int = 0, select: Select = None) -> tf.data.Dataset:
        counters = tf.data.Dataset.range(start, FOREVER)
        if select is not None:
            counters = counters.filter(select)
        n = self.num_examples

        def shuffled(counter):
            order = keys.key(seed, keys.ORDER, counter // n)
            index = tf.random.experimental.index_shuffle(counter % n, order, n - 1)
            return {"counter": counter, **self.read(index)}

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
    """Returns the examples of `source.ordered()` with these indices, int64 [n], ascending; the source itself if all."""
    return source if len(indices) == source.num_examples else Subset(source.by_index(), indices)


class Subset(IndexedSource):
    """Some examples of a source that reads by index; nothing is copied. See `restricted`."""

    def __init__(self, source: IndexedSource, indices: np.ndarray):
        self.num_examples, self.class_names = len(indices), source.class_names
        self.intensity_range, self.multi_label = source.intensity_range, source.multi_label
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


class Objects(NamedTuple):
    """Which objects the images of a source have, in the order of `ordered`."""

    names: list[str]  # of the images
    images: np.ndarray  # int64 [objects], ascending: the place of its image in `names`
    labels: np.ndarray  # int64 [objects]
    difficult: np.ndarray  # bool [objects]

    def of(self, names: Collection[str]) -> Objects:
        """Returns the images that have one of some names, and their objects."""
        wanted = np.array([name in names for name in self.names], bool)
        own = wanted[self.images]
        images = (np.cumsum(wanted) - 1)[self.images[own]]
        kept = [name for name, is_wanted in zip(self.names, wanted) if is_wanted]
        return Objects(kept, images, self.labels[own], self.difficult[own])


class Sizes(NamedTuple):
    """Heights and widths in pixels of the decoded images.

    Attributes:
      images: [N, 2], of each image, in the order of `ordered`.
      boxes: [M, 2], of each object.
      owner: [M], the index of the image of each object.
    """

    images: np.ndarray
    boxes: np.ndarray
    owner: np.ndarray


class DetectionSource(Examples):
    """A dataset of encoded images with objects in them.

    `stream` and `ordered` give dicts:
      counter: int64.
      encoded: string, the bytes of an image file.
      name: string, the image's name in VOC's result files.
      boxes: float32 [n, 4], (ymin, xmin, ymax, xmax) in pixels of the decoded image, from 0 and half-open: the first
        pixel's is (0, 0, 1, 1). They lie within the image and have an area.
      labels: int64 [n], indices of class_names.
      difficult: bool [n], VOC's mark of objects that need not be found.

    Attributes:
      category_ids: {class: its id in COCO's JSON}; empty of other formats.
    """

    category_ids: Mapping[str, int] = MappingProxyType({})

    @functools.cached_property
    def objects(self) -> Objects:
        """Which objects its images have; the first use may read all examples, without decoding an image."""
        examples = self.ordered().map(lambda example: [example[name] for name in ("name", "labels", "difficult")])
        names, labels, difficult = zip(*examples.as_numpy_iterator())
        images = np.repeat(np.arange(len(names)), [len(own) for own in labels])
        return Objects([name.decode() for name in names], images, np.concatenate(labels), np.concatenate(difficult))

    def sizes(self) -> Sizes:
        """Returns the sizes of all images and objects; reads the images, but does not decode them."""
        examples = self.ordered().map(lambda example: (decode.image_size(example["encoded"]), example["boxes"]))
        images, boxes = zip(*examples.as_numpy_iterator())
        sides = [own[:, 2:] - own[:, :2] for own in boxes]
        owner = np.repeat(np.arange(len(images)), [len(own) for own in boxes])
        return Sizes(np.stack(images), np.concatenate(sides), owner)


class Named(DetectionSource):
    """The images of a source that have one of some names; nothing is copied.

    An epoch has the order that the source has. A resume reads that epoch from its start, without decoding an image.
    """

    def __init__(self, source: DetectionSource, names: Collection[str]):
        self.class_names, self.intensity_range, self._source = source.class_names, source.intensity_range, source
        self.objects = source.objects.of({*names})
        self.num_examples = len(self.objects.names)
        pairs = tf.lookup.KeyValueTensorInitializer(tf.constant([*names]), tf.ones([len(names)], tf.int32))
        self._wanted = tf.lookup.StaticHashTable(pairs, 0)

    def stream(self, seed: int, start: int = 0, select: Select = None) -> tf.data.Dataset:
        epoch, done = divmod(start, self.num_examples)
        examples = self._counted(self._source.stream(seed, epoch * self._source.num_examples), start, done)
        return examples if select is None else examples.filter(lambda example: select(example["counter"]))

    def ordered(self) -> tf.data.Dataset:
        return self._counted(self._source.ordered(), 0, 0)

    def _counted(self, examples, start, done):
        """Returns the named ones among some examples, without the first `done`, counted from `start` on."""
        own = examples.filter(lambda example: self._wanted.lookup(example["name"]) > 0).skip(done)
        return own.enumerate(start).map(lambda counter, example: {**example, "counter": counter})
