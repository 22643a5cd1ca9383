"""TensorFlow Datasets: found and prepared quietly, and its records as sources of images with
labels.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import io
import os
import re
from collections.abc import Callable, Hashable, Iterator

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds
from absl import logging
from tensorflow_datasets.core.utils import tqdm_utils

from cpc_tf.core import texts
from cpc_tf.core.files import remove_leftovers
from cpc_tf.core.progress import waiting_for
from cpc_tf.core.settings import ConfigError
from cpc_tf.data import check
from cpc_tf.data.config import RANGE, DataConfig
from cpc_tf.data.records import Piece, RecordIndex, Records, index_of
from cpc_tf.data.source import NO_LABEL, IndexedSource, Source

_UNLABELLED = ("unlabelled", "unlabeled")  # how names of splits without labels begin
_MOST_COUNTED = 1 << 30  # bytes of records that are read to count labels: seconds


def find(name: str, data_dir: str) -> tfds.core.DatasetBuilder:
    """Returns a builder, downloaded and prepared if needed.

    Args:
      name: as `tfds.builder` takes it, e.g. 'imagenet2012' or 'cifar10:3.0.2'.
      data_dir: where the prepared data are or will be; empty: the default of TFDS.

    Raises:
      ConfigError: no such dataset, or it cannot be prepared.
    """
    try:
        with quiet():
            builder = tfds.builder(name, data_dir=data_dir or None)
    except tfds.core.DatasetNotFoundError as error:
        builders = tfds.list_builders(with_community_datasets=False)
        close = difflib.get_close_matches(name.split("/")[0].split(":")[0], builders, n=3)
        hint = "see tensorflow.org/datasets/catalog."
        if close:
            hint = f"did you mean {' or '.join(close)}?"
        hint += " Your own images are --dataset=folder:PATH"
        raise ConfigError(f"--dataset={name}: no such dataset; {hint}") from error
    except ValueError as error:
        raise ConfigError(f"--dataset={name}: {_one_line(name, error)}") from error
    return prepare(builder)


def embedded(
    data: DataConfig,
    builder: type[tfds.core.DatasetBuilder],
    config: Callable[..., tfds.core.BuilderConfig],
    unit: str,
    example: str,
) -> tfds.core.DatasetBuilder:
    """Returns the prepared builder of a dataset of this package, such as 'photos' or
    'photos/20000'.

    Args:
      data: the settings of the dataset.
      builder: its class.
      config: the number after the slash, or nothing -> the configuration of the builder.
      unit: what that number counts, for messages.
      example: a value of --dataset with a number, for messages.

    Raises:
      ConfigError: what follows the slash is no such number.
    """
    _, _, count = data.dataset.partition("/")
    if count and not (count.isdecimal() and int(count)):
        raise ConfigError(
            f"--dataset={data.dataset}: the slash must be followed by the number of {unit},"
            f" e.g. {example}"
        )
    with quiet():
        made = builder(
            config=config(int(count)) if count else config(), data_dir=data.data_dir or None
        )
    return prepare(made, progress=False)


def prepare(builder: tfds.core.DatasetBuilder, progress: bool = True) -> tfds.core.DatasetBuilder:
    """Returns the builder of the prepared data; downloads and prepares them if needed, maybe beside
    other processes.

    Raises:
      ConfigError: the data can only be downloaded by hand, or not at all.
    """
    with quiet():  # later versions warn of data that are not there yet
        if builder.is_prepared() and builder.info.splits:
            return builder
    # Leftovers of a preparation that was killed; one that is under way writes all the time.
    folder, version = os.path.split(builder.data_dir)
    remove_leftovers(folder, re.escape(version) + r"\.incomplete\w+")
    print(f"preparing dataset {builder.info.full_name} in {builder.data_dir}", flush=True)
    try:
        with waiting_for(f"preparing {builder.info.full_name}"), quiet(progress):
            builder.download_and_prepare()
    except Exception as error:
        # TFDS prepares aside and renames. A second process cannot rename onto the data of the
        # first, and need not.
        with quiet():
            prepared = builder.is_prepared()
        if not prepared:
            why = _one_line(builder.name, error)
            raise ConfigError(f"--dataset={builder.name}: cannot be prepared: {why}") from error
    # Read back from the disk, since `builder` may describe what another process has prepared.
    with quiet():
        return tfds.builder_from_directory(builder.data_dir)


def _one_line(name, error):
    """Returns the first line of an error. A warning shows all lines, which may say what to download
    by hand.
    """
    text = str(error).strip()
    if texts.one_line(text) == text:
        return text or type(error).__name__
    lines = [texts.escaped(line.rstrip()) for line in text.split("\n")]
    logging.warning("--dataset=%s: TensorFlow Datasets says:\n%s", name, "\n".join(lines))
    return f"{lines[0]} (all of it is above)"


@contextlib.contextmanager
def quiet(progress: bool = False):
    """Mutes what TFDS logs and prints, and its progress bars unless `progress`."""
    verbosity = logging.get_verbosity()
    had_bars = getattr(tqdm_utils, "_active", True)  # no function tells
    logging.set_verbosity(logging.ERROR)
    if not progress:
        tfds.disable_progress_bar()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        if had_bars:  # not if the user has switched them off
            tfds.enable_progress_bar()
        logging.set_verbosity(verbosity)


class TfdsSource(Records, Source):
    """A split of a prepared builder: its image and, if there is one, its label. See `Source`."""

    def __init__(
        self, builder: tfds.core.DatasetBuilder, split: str, window: int, sixteen_bit: str = RANGE
    ):
        """Raises ConfigError if the builder has no such split, or no images that can be read."""
        super().__init__(builder, split, window)
        self._name = builder.name
        self._split = split
        self._features, self._image = _features(builder)
        if self._features[self._image].np_dtype == np.uint16:
            self.intensity_range = check.range_of_records(
                sixteen_bit, builder.name, self._some(builder), self.num_examples
            )
        # TFDS gives all splits the same features: unlabelled ones carry label -1, here as in stl10.
        parts = map(str.strip, split.split("+"))
        bare = next((part for part in parts if part.startswith(_UNLABELLED)), "")
        if bare:
            self.about = self.about._replace(
                unlabelled=f"{bare} is a usual name for images without labels"
            )
        labelled = "label" in self._features and not bare
        self.class_names = tuple(self._features["label"].names) if labelled else ()

    def names(self) -> list[str]:
        return [f"{self._split}/{index}" for index in range(self.num_examples)]

    def identities(self) -> Iterator[Hashable]:
        for path, skip, take in zip(self._files, self._skips.tolist(), self._takes.tolist()):
            yield from ((path, place) for place in range(skip, skip + take))

    @functools.cached_property
    def index(self) -> RecordIndex:
        """Where each record is, and its label, in the order of `ordered`. The first use may read
        all records.
        """
        pieces = [
            Piece(*piece) for piece in zip(self._files, self._skips.tolist(), self._takes.tolist())
        ]
        return index_of(pieces, "label" if "label" in self._features else "", self._name)

    def labels(self) -> np.ndarray:
        return self.index.labels

    def by_index(self) -> IndexedRecords:
        return IndexedRecords(self)

    def class_counts(self) -> np.ndarray | None:
        size = 0
        for path in dict.fromkeys(self._files):
            size += tf.io.gfile.stat(path).length
            if size > _MOST_COUNTED:
                return None
        return super().class_counts()

    def _parse(self, counter, record):
        example = self._features.deserialize_example(
            record, decoders={self._image: tfds.decode.SkipDecoding()}
        )
        label = tf.cast(example.get("label", NO_LABEL), tf.int64)
        return {"counter": counter, "encoded": example[self._image], "label": label}

    def _some(self, builder):
        """Yields encoded images of all splits; TFDS has shuffled them."""
        splits = [name for name, info in sorted(builder.info.splits.items()) if info.num_examples]
        for split in splits:
            examples = builder.as_dataset(
                split=split, decoders={self._image: tfds.decode.SkipDecoding()}
            )
            for example in examples.take(check.MEASURED // len(splits) + 1):
                yield example[self._image]


class IndexedRecords(IndexedSource):
    """The examples of a `TfdsSource`, each read where it is in its file."""

    def __init__(self, source: TfdsSource):
        self.num_examples = source.num_examples
        self.class_names = source.class_names
        self.intensity_range = source.intensity_range
        self.names = source.names
        self.identities = source.identities
        self.labels = source.labels
        self._parse = source._parse
        self._paths, self._pieces = tf.constant(source._files), tf.constant(source.index.pieces)
        self._offsets = tf.constant(source.index.offsets)

    def read(self, index: tf.Tensor) -> dict[str, tf.Tensor]:
        # Only this operation begins within a file. Without a buffer it reads the record and no
        # more.
        path = self._paths[self._pieces[index]]
        offset = self._offsets[index]
        shape = {"output_types": [tf.string], "output_shapes": [[]]}
        rest = tf.raw_ops.TFRecordDatasetV2(
            filenames=[path], compression_type="", buffer_size=0, byte_offsets=[offset]
        )
        record = tf.raw_ops.TakeDataset(input_dataset=rest, count=1, **shape)
        (record,) = tf.raw_ops.DatasetToSingleElement(dataset=record, **shape)
        example = self._parse(index, record)
        return {"encoded": example["encoded"], "label": example["label"]}


def _features(builder):
    """Returns the features to read, as a FeaturesDict, and the name of the image among them."""
    features = builder.info.features
    images = [name for name in features if isinstance(features[name], tfds.features.Image)]
    if not images:
        raise ConfigError(
            f"--dataset={builder.name}: has no images, its features are {', '.join(features)}"
        )
    image = "image" if "image" in images else images[0]
    if features[image].np_dtype not in (np.uint8, np.uint16):
        kind = np.dtype(features[image].np_dtype)
        raise ConfigError(
            f"--dataset={builder.name}: its images are {kind}; only uint8 and uint16 can be read"
        )
    wanted = {image: features[image]}
    if "label" in features and isinstance(features["label"], tfds.features.ClassLabel):
        wanted["label"] = features["label"]
    # Only these: parsing the rest of each record (boxes, file names) costs time.
    return tfds.features.FeaturesDict(wanted), image
