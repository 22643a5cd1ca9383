"""Features of the files of a folder, kept in the cache: `cpc-tf label` and `cpc-tf classify` encode a picture once.

A row is added after each batch, so an interrupted computation goes on.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TextIO

import numpy as np

from cpc_tf.classify.features import PictureEncoder
from cpc_tf.core.files import cache_folder, writing
from cpc_tf.core.locks import lock
from cpc_tf.core.progress import Progress, waiting_for
from cpc_tf.data import pictures as files
from cpc_tf.data import views, walk
from cpc_tf.data.decode import IntensityRange
from cpc_tf.data.pictures import Batch, Pictures

_FEATURES = "features.bin"  # float32, a row for each sound picture of the index


class Cached(NamedTuple):
    """Features of files.

    Attributes:
      features: float32 [M, D], a file of the cache, which may have rows of other pictures.
      sound: indices of the pictures that can be read, ascending.
      rows: int64 [N]: the row of each of these.
      broken: {index of a picture: why it cannot be read}.
      made: how many were not in the cache.
    """

    features: np.ndarray
    sound: list[int]
    rows: np.ndarray
    broken: dict[int, str]
    made: int


def encoded(
    encoder: PictureEncoder,
    root: str,
    names: Sequence[str],
    intensity_range: IntensityRange | None,
    batch_size: int,
) -> Cached:
    """Returns the features of files in a folder; those that are not in the cache are computed.

    The memory does not grow with the number of pictures.

    Args:
      encoder: whose features.
      root: the folder.
      names: files, relative to it.
      intensity_range: how pictures of more than 8 bits are decoded; None: by their own range.
      batch_size: pictures encoded at a time.

    Raises:
      ConfigError: the encoder gives features that are not finite.
      NotWritten: the cache cannot be written.
    """
    key = f"{os.path.realpath(root)}\n{encoder.digest}\n{intensity_range}"
    digest = hashlib.sha256(key.encode(errors="surrogateescape")).hexdigest()[:32]
    cache = os.path.join(cache_folder(), "features", digest)
    stats = walk.stats(root, names).tolist()
    versions = [f"{name} {size} {time}" for name, (size, time) in zip(names, stats)]
    pictures = Pictures([*names], [os.fsencode(os.path.join(root, name)) for name in names])
    with writing(cache):
        os.makedirs(cache, exist_ok=True)
        index = open(os.path.join(cache, "index.jsonl"), "a+", encoding="utf-8")  # noqa: SIM115 closed below
    with index:
        lock(index)  # another process may be computing the same
        entries, width = _index(index)
        # What could not be read is tried again: permission or a connection may have been missing.
        missing = [
            i for i, version in enumerate(versions) if not isinstance(entries.get(version), int)
        ]
        if missing:
            batches = files.batches(
                pictures.take(missing),
                lambda image: views.plain_crop(image, encoder.geometry),
                batch_size,
                least_side=encoder.geometry.resize,
                intensity_range=intensity_range,
            )
            rows = 1 + max(
                (entry for entry in entries.values() if isinstance(entry, int)), default=-1
            )
            _append(
                encoder,
                batches,
                [versions[i] for i in missing],
                index,
                f"{cache}/{_FEATURES}",
                rows,
            )
            entries, width = _index(index)
    sound = [i for i, version in enumerate(versions) if isinstance(entries[version], int)]
    broken = {
        i: entries[version]
        for i, version in enumerate(versions)
        if isinstance(entries[version], str)
    }
    rows = np.array([entries[versions[i]] for i in sound], np.int64)
    if not sound:
        return Cached(np.zeros([0, width], np.float32), sound, rows, broken, len(missing))
    features = np.memmap(f"{cache}/{_FEATURES}", np.float32, "r", shape=(rows.max() + 1, width))
    return Cached(features, sound, rows, broken, len(missing))


def _index(file: TextIO) -> tuple[dict[str, int | str], int]:
    """Returns {name, size and time of a picture: its row of features, or why it cannot be read}, and their size."""
    entries, width = {}, 1
    file.seek(0)
    for line in file:
        with contextlib.suppress(ValueError):  # a line that a killed process did not end
            entry = json.loads(line)
            width = entry.pop("width", width)
            entries |= entry
    return entries, width


def _append(
    encoder: PictureEncoder,
    batches: Iterator[Batch],
    versions: list[str],
    index: TextIO,
    path: str,
    rows: int,
) -> None:
    """Appends the features of pictures to a file, and after each batch its lines to the index.

    Args:
      encoder: whose features.
      batches: of the pictures.
      versions: of these pictures, as the index names them.
      index: the open index.
      path: the file of features.
      rows: how many of its rows the index has; a killed process may have left more.
    """
    progress = Progress(len(versions))
    with open(path, "ab") as file, waiting_for("encoding pictures", progress):
        index.write("\n")
        for batch in batches:
            entries: dict[str, int | str] = {versions[i]: why for i, why in batch.broken.items()}
            features = (
                encoder.encode_batch(batch.images)
                if len(batch.indices)
                else np.zeros([0, 0], np.float32)
            )
            entries |= {versions[i]: rows + n for n, i in enumerate(batch.indices)}
            about = {"width": features.shape[1]} if len(features) else {}
            with writing(path):
                if len(features):
                    file.truncate(rows * features[0].nbytes)
                    file.write(features.tobytes())
                    file.flush()
                index.write(json.dumps({**about, **entries}) + "\n")
                index.flush()
            rows += len(features)
            progress.update(batch.stop)
