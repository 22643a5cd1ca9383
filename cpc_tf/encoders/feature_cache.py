"""Features of the files of a folder, kept in the cache: all commands together encode an image once.

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

from cpc_tf.core.files import cache_folder, writing
from cpc_tf.core.locks import lock
from cpc_tf.core.progress import Progress, waiting_for
from cpc_tf.data import walk
from cpc_tf.data.decode import IntensityRange
from cpc_tf.data.pictures import Batch, Pictures
from cpc_tf.encoders.features import Encoder
from cpc_tf.encoders.side_by_side import SideBySide

_FEATURES = "features.bin"  # float32, a row for each sound image of the index


class Cached(NamedTuple):
    """Features of files.

    Attributes:
      features: float32 [M, D], a file of the cache, which may have rows of other images; of several
        encoders `Columns`.
      sound: indices of the images that can be read, ascending.
      rows: int64 [N]: the row of each of these.
      broken: {index of an image: why it cannot be read}.
      made: how many were not in the cache.
    """

    features: np.ndarray | Columns
    sound: list[int]
    rows: np.ndarray
    broken: dict[int, str]
    made: int


class Columns(NamedTuple):
    """Features [N, D] of several encoders, one after the other, which are read when rows are taken.

    Attributes:
      parts: of each encoder its features float32 [M, d], and the row of each image, int64 [N].
    """

    parts: list[tuple[np.ndarray, np.ndarray]]

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        """Returns some of the images, float32 [n, D]."""
        return np.concatenate([features[of_image[rows]] for features, of_image in self.parts], 1)


def encoded(
    encoder: Encoder,
    root: str,
    paths: Sequence[str | bytes],
    intensity_range: IntensityRange | None,
    batch_size: int,
) -> Cached:
    """Returns the features of files in a folder; those that are not in the cache are computed.

    Those of encoders side by side are kept for each encoder. The memory does not grow with the
    number of images.

    Args:
      encoder: whose features.
      root: the folder.
      paths: of the files.
      intensity_range: how images of more than 8 bits are decoded; None: by their own range.
      batch_size: images encoded at a time.

    Raises:
      ConfigError: the encoder gives features that are not finite.
      NotWritten: the cache cannot be written.
    """
    if isinstance(encoder, SideBySide):
        each = []
        for one in encoder.encoders:
            each.append(encoded(one, root, paths, intensity_range, batch_size))
        return side_by_side(each)
    cache = _folder(encoder, root, intensity_range)
    names = [os.path.relpath(os.fsdecode(path), root) for path in paths]
    stats = walk.stats("", paths).tolist()
    versions = [f"{name} {size} {time}" for name, (size, time) in zip(names, stats)]
    pictures = Pictures(names, [*map(os.fsencode, paths)])
    with writing(cache):
        os.makedirs(cache, exist_ok=True)
        index = open(os.path.join(cache, "index.jsonl"), "a+", encoding="utf-8")  # noqa: SIM115 closed below

    # Compute what is missing.
    with index:
        lock(index)  # another process may be computing the same
        entries, width = _index(index)
        # What could not be read is tried again: permission or a connection may have been missing.
        missing = [
            i for i, version in enumerate(versions) if not isinstance(entries.get(version), int)
        ]
        if missing:
            steps = encoder.steps(pictures.take(missing), batch_size, intensity_range)
            rows = [entry for entry in entries.values() if isinstance(entry, int)]
            new = [versions[i] for i in missing]
            _append(steps, new, index, f"{cache}/{_FEATURES}", 1 + max(rows, default=-1))
            entries, width = _index(index)

    # Look up all.
    sound = []
    rows = []
    broken = {}
    for i, version in enumerate(versions):
        entry = entries[version]
        if isinstance(entry, int):
            sound.append(i)
            rows.append(entry)
        else:
            broken[i] = entry
    features = np.zeros([0, width], np.float32)
    if sound:
        shape = (max(rows) + 1, width)
        features = np.memmap(f"{cache}/{_FEATURES}", np.float32, "r", shape=shape)
    return Cached(features, sound, np.array(rows, np.int64), broken, len(missing))


def side_by_side(each: Sequence[Cached]) -> Cached:
    """Returns features of the same files by several encoders as one."""
    if len(each) == 1:
        return each[0]
    sound = sorted(set.intersection(*(set(cached.sound) for cached in each)))
    broken = {}
    parts = []
    for cached in each:
        broken |= cached.broken
        parts.append((cached.features, cached.rows[np.isin(cached.sound, sound)]))
    made = max(cached.made for cached in each)
    return Cached(Columns(parts), sound, np.arange(len(sound)), broken, made)


def _folder(encoder: Encoder, root: str, intensity_range: IntensityRange | None) -> str:
    """Returns the folder of the cache for a folder of images, as an encoder sees them."""
    key = f"{os.path.realpath(root)}\n{encoder.digest}\n{intensity_range}"
    digest = hashlib.sha256(key.encode(errors="surrogateescape")).hexdigest()[:32]
    return os.path.join(cache_folder(), "features", digest)


def _index(file: TextIO) -> tuple[dict[str, int | str], int]:
    """Returns {name, size and time of an image: its row of features, or why it cannot be read}, and
    their size.
    """
    entries = {}
    width = 1
    file.seek(0)
    for line in file:
        with contextlib.suppress(ValueError):  # a line that a killed process did not end
            entry = json.loads(line)
            width = entry.pop("width", width)
            entries |= entry
    return entries, width


def _append(
    steps: Iterator[tuple[Batch, np.ndarray]],
    versions: list[str],
    index: TextIO,
    path: str,
    rows: int,
) -> None:
    """Appends the features of images to a file, and after each batch its lines to the index.

    Args:
      steps: the images, and the features of the sound ones.
      versions: of these images, as the index names them.
      index: the open index.
      path: the file of features.
      rows: how many of its rows the index has; a killed process may have left more.
    """
    progress = Progress(len(versions))
    with open(path, "ab") as file, waiting_for("encoding images", progress):
        index.write("\n")
        for batch, features in steps:
            entries: dict[str, int | str] = {versions[i]: why for i, why in batch.broken.items()}
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
