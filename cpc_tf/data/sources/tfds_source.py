"""Any TensorFlow Datasets builder as a source."""

from __future__ import annotations

import abc
import contextlib
import difflib
import io
import os
import re

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds
from absl import logging

from cpc_tf import texts
from cpc_tf.data import keys
from cpc_tf.data.config import DataConfig
from cpc_tf.data.sources import levels
from cpc_tf.data.sources.source import FOREVER, NO_LABEL, About, Examples, Select, Source, SplitError
from cpc_tf.files import remove_leftovers
from cpc_tf.settings import ConfigError

_READ_BUFFER = 8 << 20  # bytes; TensorFlow's default of 256 kB makes remote reads slow
_MOST_COUNTED = 1 << 30  # bytes of records that are read to count labels: seconds


class Records(Examples):
    """The records of a split of a prepared builder; what is in them is a subclass's business. See `Examples`.

    The order of an epoch: the shards shuffled, their records in windows of `window`, each window shuffled. A resume
    jumps to the shard and re-reads at most one window of encoded records. Up to three windows are in memory: the one in
    use, the next, and the one being collected.
    """

    def __init__(self, builder: tfds.core.DatasetBuilder, split: str, window: int):
        """Raises ConfigError if the builder has no such split."""
        info = _split_info(builder, split)
        instructions = [piece for piece in info.file_instructions if piece.take]
        self.num_examples = info.num_examples
        self._files = [piece.filename for piece in instructions]
        self._skips = np.array([piece.skip for piece in instructions], np.int64)
        self._takes = np.array([piece.take for piece in instructions], np.int64)
        self._window = window
        self.about = About("", {name: builder.info.splits[name].num_examples for name in builder.info.splits})

    def stream(self, seed: int, start: int = 0, select: Select = None) -> tf.data.Dataset:
        epochs = tf.data.Dataset.range(start // self.num_examples, FOREVER)
        # Only the first epoch has something to skip.
        windows = epochs.flat_map(
            lambda epoch: self._windows(seed, epoch, tf.maximum(start - epoch * self.num_examples, 0))
        )
        # Reads the next window while this one is used up.
        windows = windows.prefetch(1)
        records = windows.flat_map(lambda position, window: self._shuffled(seed, position, window, start, select))
        return records.map(self._parse, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)

    def ordered(self) -> tf.data.Dataset:
        records = self._records(tf.range(len(self._files)), tf.constant(0, tf.int64)).enumerate()
        return records.map(self._parse, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)

    def damaged(self) -> list[str]:
        return [path for path in dict.fromkeys(self._files) if not _is_sound(path)]

    def _windows(self, seed, epoch, skip):
        """(counter of the first record, string [window]) from the window that holds record `skip` of an epoch on."""
        first = skip // self._window * self._window
        order = tf.random.experimental.stateless_shuffle(
            tf.range(len(self._files)), seed=keys.key(seed, keys.SHARDS, epoch)
        )
        windows = self._records(order, first).batch(self._window).enumerate()
        start = epoch * self.num_examples + first
        return windows.map(lambda number, window: (start + number * self._window, window))

    def _records(self, order, first):
        """The records of the shards in this order, from record number `first` on, by jumping to its shard."""
        takes = tf.gather(self._takes, order)
        ends = tf.cumsum(takes)
        first_shard = tf.searchsorted(ends, [first], side="right", out_type=tf.int64)[0]

        def read(number):
            shard = order[number]
            passed = tf.maximum(first - (ends[number] - takes[number]), 0)
            records = tf.data.TFRecordDataset(tf.gather(self._files, shard), buffer_size=_READ_BUFFER)
            return records.skip(tf.gather(self._skips, shard) + passed).take(takes[number] - passed)

        return tf.data.Dataset.range(first_shard, len(self._files)).flat_map(read)

    def _shuffled(self, seed, position, window, start, select):
        """(counter, record) of one window, shuffled, from the counter `start` on."""
        order = tf.random.experimental.stateless_shuffle(
            tf.range(tf.size(window, tf.int64)), seed=keys.key(seed, keys.WINDOW, position)
        )
        counters = tf.data.Dataset.range(tf.maximum(position, start), position + tf.size(window, tf.int64))
        if select is not None:
            counters = counters.filter(select)
        return counters.map(lambda counter: (counter, window[order[counter - position]]))

    @abc.abstractmethod
    def _parse(self, counter: tf.Tensor, record: tf.Tensor) -> dict[str, tf.Tensor]:
        """The example that an encoded record holds."""


class TfdsSource(Records, Source):
    """A split of a prepared builder: image and, if there is one, label. See `Source`."""

    def __init__(
        self, builder: tfds.core.DatasetBuilder, split: str, window: int, sixteen_bit: str = DataConfig.sixteen_bit
    ):
        """Raises ConfigError if the builder has no such split or no image feature."""
        super().__init__(builder, split, window)
        self._features, self._image = _features(builder)
        if self._features[self._image].np_dtype == np.uint16:
            self.levels = levels.of_records(sixteen_bit, builder.name, self._some(builder), self.num_examples)
        # TFDS gives all splits the same features: the unlabelled ones carry label -1, here as in stl10.
        labelled = "label" in self._features and not split.startswith(("unlabelled", "unlabeled"))
        self.class_names = tuple(self._features["label"].names) if labelled else ()

    def class_counts(self) -> np.ndarray | None:
        size = 0
        for path in dict.fromkeys(self._files):
            size += tf.io.gfile.stat(path).length
            if size > _MOST_COUNTED:
                return None
        return super().class_counts()

    def _parse(self, counter, record):
        example = self._features.deserialize_example(record, decoders={self._image: tfds.decode.SkipDecoding()})
        label = tf.cast(example.get("label", NO_LABEL), tf.int64)
        return {"counter": counter, "encoded": example[self._image], "label": label}

    def _some(self, builder):
        """Encoded images of all splits; TFDS has shuffled them."""
        splits = [name for name, info in sorted(builder.info.splits.items()) if info.num_examples]
        for split in splits:
            examples = builder.as_dataset(split=split, decoders={self._image: tfds.decode.SkipDecoding()})
            yield from (example[self._image] for example in examples.take(levels.PICTURES // len(splits) + 1))


def find(name: str, data_dir: str) -> tfds.core.DatasetBuilder:
    """A builder, downloaded and prepared if it is not yet.

    Args:
      name: as `tfds.builder` takes it, e.g. 'imagenet2012' or 'cifar10:3.0.2'.
      data_dir: where the prepared data are or shall be; empty: the default of TFDS.

    Raises:
      ConfigError: no such dataset, or it cannot be prepared.
    """
    try:
        with quiet():
            builder = tfds.builder(name, data_dir=data_dir or None)
    except (tfds.core.DatasetNotFoundError, ValueError) as error:
        raise ConfigError(f"--dataset={name}: {_why_not(name, error)}") from error
    return prepare(builder)


def prepare(builder: tfds.core.DatasetBuilder, progress: bool = True) -> tfds.core.DatasetBuilder:
    """The builder of the prepared data; what is missing is downloaded and prepared, by several processes if need be.

    Raises:
      ConfigError: the data can only be had by hand, or not at all.
    """
    with quiet():  # later versions warn of what is not there yet
        if builder.is_prepared() and builder.info.splits:
            return builder
    # What a killed preparation left beside; one that is under way writes all the time.
    folder, version = os.path.split(builder.data_dir)
    remove_leftovers(folder, re.escape(version) + r"\.incomplete\w+")
    logging.info("preparing dataset %s in %s", builder.info.full_name, builder.data_dir)
    try:
        with quiet(progress):
            builder.download_and_prepare()
    except Exception as error:
        # TFDS prepares aside and renames: whoever comes second cannot rename onto the data of the first, and need not.
        with quiet():
            prepared = builder.is_prepared()
        if not prepared:
            raise ConfigError(f"--dataset={builder.name}: cannot be prepared: {_told(builder.name, error)}") from error
    # Read back from the disk, for `builder` may describe what another process has prepared.
    with quiet():
        return tfds.builder_from_directory(builder.data_dir)


def _is_sound(path):
    try:
        for _ in tf.data.TFRecordDataset(path, buffer_size=_READ_BUFFER).batch(1024):
            pass
    except tf.errors.OpError:
        return False
    return True


def _split_info(builder, split):
    try:
        info = builder.info.splits[split]
        empty = not info.num_examples
    except (KeyError, ValueError, AssertionError) as error:
        names = ", ".join(sorted(builder.info.splits))
        raise SplitError(split, f"{builder.name} has the splits {names}") from error
    if empty:
        raise SplitError(split, f"no example of {builder.name} is in it")
    return info


def _features(builder):
    """The features we read, as a FeaturesDict, and the name of the image among them."""
    features = builder.info.features
    images = [name for name in features if isinstance(features[name], tfds.features.Image)]
    if not images:
        raise ConfigError(f"--dataset={builder.name}: has no images, its features are {', '.join(features)}")
    image = "image" if "image" in images else images[0]
    if features[image].np_dtype not in (np.uint8, np.uint16):
        kind = np.dtype(features[image].np_dtype)
        raise ConfigError(f"--dataset={builder.name}: its images are of {kind}; what is read is uint8 and uint16")
    wanted = {image: features[image]}
    if "label" in features and isinstance(features["label"], tfds.features.ClassLabel):
        wanted["label"] = features["label"]
    # Only these: parsing the rest (boxes, file names) of each record costs time.
    return tfds.features.FeaturesDict(wanted), image


def _why_not(name, error):
    if not isinstance(error, tfds.core.DatasetNotFoundError):
        return _told(name, error)
    known = tfds.list_builders(with_community_datasets=False)
    close = difflib.get_close_matches(name.split("/")[0].split(":")[0], known, n=3)
    hint = f"did you mean {' or '.join(close)}?" if close else "see tensorflow.org/datasets/catalog"
    return f"no such dataset; {hint} Your own pictures are --dataset=folder:PATH"


def _told(name, error):
    """What an error says, as one line. A warning shows more than that, such as what to download, whole."""
    text = str(error).strip()
    if texts.one_line(text) == text:
        return text or type(error).__name__
    lines = [texts.escaped(line.rstrip()) for line in text.split("\n")]
    logging.warning("--dataset=%s: TensorFlow Datasets says:\n%s", name, "\n".join(lines))
    return f"{lines[0]} (all of it is above)"


@contextlib.contextmanager
def quiet(progress: bool = False):
    """Mutes the log lines and prints of TFDS, and its progress bars unless asked for."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)
    if not progress:
        tfds.disable_progress_bar()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        tfds.enable_progress_bar()
        logging.set_verbosity(verbosity)
