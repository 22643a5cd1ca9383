"""Where each record of TFRecord files begins, and its label: read once a machine, then remembered."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

from cpc_tf import cache
from cpc_tf.data.sources import check_cache
from cpc_tf.data.sources.source import NO_LABEL
from cpc_tf.files import NotWritten, reason, remove_leftovers, write_file
from cpc_tf.progress import Progress

FRAME = 16  # bytes around a record: its length and a checksum before it, another one behind
REMEMBERED = 64 << 20  # bytes of files from which on an index is written to disk: fewer are read again in a second
READ_BUFFER = 8 << 20  # bytes; TensorFlow's default of 256 kB makes remote reads slow
_BATCH = 256  # records of a file that are in memory together
_FILES = 4  # read at the same time
_SHOWN = 1 << 30  # bytes of files from which on progress is shown
_LINES = 10  # of progress
_MB = 1_000_000


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
    """Returns the index of some records, from `cache.folder()` if it is known and the files have not changed since.

    Args:
      pieces: whose records are tf.train.Example.
      label: the feature that holds the label, an integer; empty: there is none.
      dataset: its name, for messages.

    Raises:
      tf.errors.OpError: a file is damaged or cannot be read.
    """
    stats = check_cache.stats("", [piece.path for piece in pieces])
    size = int(stats[:, 0].sum())
    if size < REMEMBERED:
        return _read(pieces, label, size, dataset)
    digest = hashlib.sha256(f"records 1 {label}\n".encode())
    for piece, (length, changed) in zip(pieces, stats.tolist()):
        digest.update(f"{piece.path}\n{piece.skip} {piece.take} {length} {changed}\n".encode())
    path = os.path.join(cache.folder(), "record_indices", digest.hexdigest()[:32] + ".npz")
    found = _recall(path, pieces, stats[:, 0])
    if found is None:
        found = _read(pieces, label, size, dataset)
        remove_leftovers(os.path.dirname(path), r"[0-9a-f]{32}\.npz\.\d+\.tmp")
        stream = io.BytesIO()
        np.savez(stream, **found._asdict())
        try:
            write_file(path, stream.getvalue())
        except NotWritten as error:  # only a cache
            why = reason(error.__cause__ or error)
            logging.warning("%s: cannot be written, the records will be read again: %s", path, why)
    return found


def _read(pieces, label, size, dataset):
    """Reads all pieces once, from the beginnings of their files."""
    paths, skips, takes = zip(*pieces)

    def batches(number):
        """Gives (number of the piece, lengths of some records, labels of those that belong to it)."""
        records = tf.data.TFRecordDataset(tf.gather(paths, number), buffer_size=READ_BUFFER)
        skip = tf.gather(tf.constant(skips, tf.int64), number)
        records = records.take(skip + tf.gather(tf.constant(takes, tf.int64), number)).batch(_BATCH).enumerate()
        return records.map(lambda n, batch: (number, tf.strings.length(batch), labels(batch[_from(n, skip) :])))

    def labels(batch):
        if not label:
            return tf.fill(tf.shape(batch), np.int64(NO_LABEL))
        return tf.io.parse_example(batch, {label: tf.io.FixedLenFeature([], tf.int64)})[label]

    read = tf.data.Dataset.range(len(pieces)).interleave(
        batches, cycle_length=_FILES, block_length=1, num_parallel_calls=_FILES, deterministic=True
    )
    lengths, found, done, shown = [[] for _ in pieces], [[] for _ in pieces], 0, -1
    progress = Progress(size // _MB)
    for number, some, values in read.prefetch(1).as_numpy_iterator():
        lengths[number].append(some.astype(np.int64) + FRAME)
        found[number].append(values)
        done += int(lengths[number][-1].sum())
        progress.update(done // _MB)
        if size >= _SHOWN and _LINES * done // size > shown:
            shown = _LINES * done // size
            print(f"reading {dataset} once for labels and places of its records, MB: {progress}", flush=True)
    ends = [np.cumsum(np.concatenate(each)) - np.concatenate(each) for each in lengths]
    return RecordIndex(
        pieces=np.repeat(np.arange(len(pieces), dtype=np.int32), takes),
        offsets=np.concatenate([end[skip:] for end, skip in zip(ends, skips)]),
        labels=np.concatenate([values for each in found for values in each]),
    )


def _from(batch, skip):
    """Returns the first record of a batch that is not skipped."""
    return tf.clip_by_value(skip - batch * _BATCH, 0, _BATCH)


def _recall(path, pieces, sizes):
    """Returns the index in a file, None if there is no such file or it cannot be of these pieces."""
    try:
        with tf.io.gfile.GFile(path, "rb") as file, np.load(io.BytesIO(file.read()), allow_pickle=False) as arrays:
            found = RecordIndex(*(arrays[name] for name in RecordIndex._fields))
    except (tf.errors.OpError, OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    wanted = np.repeat(np.arange(len(pieces), dtype=np.int32), [piece.take for piece in pieces])
    kinds = [(wanted.shape, kind) for kind in (np.int32, np.int64, np.int64)]
    if [(each.shape, each.dtype) for each in found] != kinds or not np.array_equal(found.pieces, wanted):
        return None
    inside = (found.offsets >= 0) & (found.offsets <= sizes[wanted] - FRAME)
    return found if inside.all() else None
