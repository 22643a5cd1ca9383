"""TFRecord files of TensorFlow Datasets: read in a shuffled order, window by window, or each record
by its place.
"""

from __future__ import annotations

import abc
import copy
import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds

from cpc_tf.core import files
from cpc_tf.core.progress import Progress
from cpc_tf.core.settings import ConfigError
from cpc_tf.data import walk
from cpc_tf.data.source import (
    FOREVER,
    NO_LABEL,
    SHARDS,
    WINDOW,
    Examples,
    Select,
    SplitError,
    SplitInfo,
    random_key,
)

FRAME = 16  # bytes around a record: its length and a checksum before it, another one behind
# Bytes of files from which on an index is written to disk: fewer are read again in a second.
REMEMBERED = 64 << 20
_READ_BUFFER = 8 << 20  # bytes; TensorFlow's default of 256 kB makes remote reads slow
_BATCH = 256  # records of a file that are in memory together
_FILES = 4  # read at the same time
_SHOWN = 1 << 30  # bytes of files from which on progress is shown
_LINES = 10  # of progress
_MB = 1_000_000

# records that one call of a function copies out of a window: a call for each record would be slow
_PIECE = 64


class Records(Examples):
    """The records of a split of a prepared builder; a subclass says what is in them. See
    `Examples`.

    The order of an epoch: the shards shuffled, their records in windows of `window`, each window
    shuffled. A resume jumps to the shard and re-reads at most one window of encoded records. Up to
    three windows are in memory: the one in use, the next, and the one being read. The files of half
    a window are read at the same time, each as a whole; that does not change the order. Files with
    more records than that are read one after the other.

    If it is `shared`, a share is a part of an epoch's sequence of shards. A file at the border of
    two shares is read by both hosts, by the later one from its beginning.
    """

    shared = False  # whether each of several hosts reads only its share

    def __init__(self, builder: tfds.core.DatasetBuilder, split: str, window: int):
        """Raises ConfigError if the builder has no such split."""
        try:
            info = builder.info.splits[split]
            self.num_examples = info.num_examples
        except (KeyError, ValueError, AssertionError) as error:
            names = ", ".join(sorted(builder.info.splits))
            raise SplitError(split, f"{builder.name} has the splits {names}") from error
        if not self.num_examples:
            raise SplitError(split, f"no example of {builder.name} is in it")
        instructions = [piece for piece in info.file_instructions if piece.take]
        self._files = [piece.filename for piece in instructions]
        self._skips = np.array([piece.skip for piece in instructions], np.int64)
        self._takes = np.array([piece.take for piece in instructions], np.int64)
        self._window = window
        self._begin = 0
        self._info = builder.info
        self._largest = int(self._takes.max())
        self.about = SplitInfo(
            "", {name: builder.info.splits[name].num_examples for name in builder.info.splits}
        )

    def share(self, host: int, hosts: int) -> Records | None:
        if not self.shared:
            return None
        share = copy.copy(self)
        share.num_examples = self.num_examples // hosts
        share._begin = host * share.num_examples
        if not share.num_examples:
            raise ConfigError(
                f"--share_records: {self.num_examples} records cannot be shared among {hosts} hosts"
            )
        return share

    def stream(self, seed: int, start: int = 0, select: Select = None) -> tf.data.Dataset:
        epochs = tf.data.Dataset.range(start // self.num_examples, FOREVER)

        def windows_of(epoch):
            # Only the first epoch has something to skip.
            done = tf.maximum(start - epoch * self.num_examples, 0)
            return self._windows(seed, epoch, done)

        windows = epochs.flat_map(windows_of)
        # The next window is read while this one is used up.
        pieces = windows.prefetch(1).flat_map(
            lambda position, window: self._shuffled(seed, position, window, start, select)
        )
        return pieces.unbatch().map(
            self._parse, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
        )

    def ordered(self) -> tf.data.Dataset:
        files = tf.range(len(self._files))
        records = self._records(files, tf.constant(0, tf.int64), self.num_examples)
        records = records.enumerate()
        return records.map(self._parse, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)

    @property
    def edition(self) -> str:
        return self._info.full_name

    def files(self) -> Iterator[tuple[str, int, str]]:
        folders, names = zip(*(os.path.split(path) for path in self._files))
        sizes = walk.stats(folders[0], list(names))[:, 0].tolist()
        for name, size, skip, take in zip(names, sizes, self._skips.tolist(), self._takes.tolist()):
            yield f"{name}[{skip}:{skip + take}]", size, ""

    def damaged(self) -> list[str]:
        def is_sound(path):
            try:
                for _ in tf.data.TFRecordDataset(path, buffer_size=_READ_BUFFER).batch(1024):
                    pass
            except tf.errors.OpError:
                return False
            return True

        return [path for path in dict.fromkeys(self._files) if not is_sound(path)]

    def _windows(self, seed, epoch, skip):
        """Gives (counter of the first record, string [window]), from the window with record `skip`
        of an epoch on.
        """
        first = skip // self._window * self._window
        order = tf.random.experimental.stateless_shuffle(
            tf.range(len(self._files)), seed=random_key(seed, SHARDS, epoch)
        )
        at_once = max(1, min(self._window // 2 // self._largest, len(self._files)))
        begin = self._begin + first
        end = self._begin + self.num_examples
        windows = self._records(order, begin, end, at_once).batch(self._window).enumerate()
        start = epoch * self.num_examples + first
        return windows.map(lambda number, window: (start + number * self._window, window))

    def _records(self, order, first, last, at_once=1):
        """Gives records [first, last) of the shards in this order, by jumping to the shard of the
        first one.

        `at_once` files are read at the same time; if that is more than one, each is held in memory
        as a whole.
        """
        takes = tf.gather(self._takes, order)
        ends = tf.cumsum(takes)
        first_shard = tf.searchsorted(ends, [first], side="right", out_type=tf.int64)[0]
        last = tf.constant(last, tf.int64)
        last_shard = tf.searchsorted(ends, [last], side="left", out_type=tf.int64)[0]

        def read(number):
            shard = order[number]
            start = ends[number] - takes[number]
            before = tf.maximum(first - start, 0)
            count = tf.minimum(last - start, takes[number])
            records = tf.data.TFRecordDataset(
                tf.gather(self._files, shard), buffer_size=_READ_BUFFER
            )
            return records.skip(tf.gather(self._skips, shard) + before).take(count - before)

        shards = tf.data.Dataset.range(first_shard, last_shard + 1)
        if at_once == 1:
            return shards.flat_map(read)
        files = shards.map(
            lambda number: read(number).batch(self._largest).get_single_element(),
            num_parallel_calls=at_once,
            deterministic=True,
        )
        return files.unbatch()

    def _shuffled(self, seed, position, window, start, select):
        """Gives (counters, records) of one window, shuffled, in pieces, from the counter `start`
        on.
        """
        order = tf.random.experimental.stateless_shuffle(
            tf.range(tf.size(window, tf.int64)), seed=random_key(seed, WINDOW, position)
        )
        counters = tf.range(tf.maximum(position, start), position + tf.size(window, tf.int64))
        if select is not None:
            counters = counters[select(counters)]
        numbered = (counters, tf.gather(order, counters - position))
        pieces = tf.data.Dataset.from_tensor_slices(numbered).batch(_PIECE)
        return pieces.map(lambda counters, places: (counters, tf.gather(window, places)))

    @abc.abstractmethod
    def _parse(self, counter: tf.Tensor, record: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the example in an encoded record."""


class Piece(NamedTuple):
    """Some records of a TFRecord file on a disk or in a bucket, one after the other."""

    path: str
    skip: int  # records before the first one
    take: int  # how many there are


class RecordIndex(NamedTuple):
    """All records of some pieces, piece after piece. Each array has an entry a record."""

    pieces: np.ndarray  # int32, places in the list of pieces
    offsets: np.ndarray  # int64, bytes before the record in its file
    labels: np.ndarray  # int64; -1 where there is none


def index_of(pieces: Sequence[Piece], label: str, dataset: str) -> RecordIndex:
    """Returns the index of some records, from the cache if it is there and the files have not
    changed since.

    Args:
      pieces: whose records are tf.train.Example.
      label: the feature that holds the label, an integer; empty: there is none.
      dataset: its name, for messages.

    Raises:
      tf.errors.OpError: a file is damaged or cannot be read.
    """
    stats = walk.stats("", [piece.path for piece in pieces])
    size = int(stats[:, 0].sum())
    if size < REMEMBERED:
        return _read(pieces, label, size, dataset)
    key = [f"records 1 {label}"]
    for piece, (length, changed) in zip(pieces, stats.tolist()):
        key.append(f"{piece.path}\n{piece.skip} {piece.take} {length} {changed}")
    wanted = np.repeat(np.arange(len(pieces), dtype=np.int32), [piece.take for piece in pieces])

    def is_sound(pieces, offsets, labels):
        kinds = [(wanted.shape, kind) for kind in (np.int32, np.int64, np.int64)]
        if [(each.shape, each.dtype) for each in (pieces, offsets, labels)] != kinds:
            return False
        if (pieces != wanted).any():
            return False
        return bool(((offsets >= 0) & (offsets <= stats[wanted, 0] - FRAME)).all())

    index = files.remember(
        "record_indices",
        key,
        lambda: _read(pieces, label, size, dataset)._asdict(),
        is_sound,
        again="the records will be read again",
    )
    return RecordIndex(**index)


def _read(pieces, label, size, dataset):
    """Reads all pieces once, from the beginnings of their files."""
    paths, skips, takes = zip(*pieces)

    def batches(number):
        """Gives (number of the piece, lengths of some records, labels of those that belong to
        it).
        """
        records = tf.data.TFRecordDataset(tf.gather(paths, number), buffer_size=_READ_BUFFER)
        skip = tf.gather(tf.constant(skips, tf.int64), number)
        records = records.take(skip + tf.gather(tf.constant(takes, tf.int64), number))
        records = records.batch(_BATCH).enumerate()
        # The first records of a file may belong to no piece.
        begin = lambda n: tf.clip_by_value(skip - n * _BATCH, 0, _BATCH)  # noqa: E731
        return records.map(
            lambda n, batch: (number, tf.strings.length(batch), labels(batch[begin(n) :]))
        )

    def labels(batch):
        if not label:
            return tf.fill(tf.shape(batch), np.int64(NO_LABEL))
        return tf.io.parse_example(batch, {label: tf.io.FixedLenFeature([], tf.int64)})[label]

    read = tf.data.Dataset.range(len(pieces)).interleave(
        batches, cycle_length=_FILES, block_length=1, num_parallel_calls=_FILES, deterministic=True
    )
    lengths = [[] for _ in pieces]
    labels_of = [[] for _ in pieces]
    done = 0
    tenths = -1
    progress = Progress(size // _MB)
    for number, some, values in read.prefetch(1).as_numpy_iterator():
        lengths[number].append(some.astype(np.int64) + FRAME)
        labels_of[number].append(values)
        done += int(lengths[number][-1].sum())
        progress.update(done // _MB)
        if size >= _SHOWN and _LINES * done // size > tenths:
            tenths = _LINES * done // size
            print(
                f"reading {dataset} once to find labels and offsets of its records, MB: {progress}",
                flush=True,
            )
    offsets = []
    labels_of_records = []
    for number, skip in enumerate(skips):
        length = np.concatenate(lengths[number])
        offsets.append((np.cumsum(length) - length)[skip:])
        labels_of_records += labels_of[number]
    return RecordIndex(
        pieces=np.repeat(np.arange(len(pieces), dtype=np.int32), takes),
        offsets=np.concatenate(offsets),
        labels=np.concatenate(labels_of_records),
    )
