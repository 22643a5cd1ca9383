"""The pictures to label and their features, which are computed once and kept in the cache."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from typing import NamedTuple, TextIO

import numpy as np

from cpc_tf import pictures as files
from cpc_tf.classify.features import PictureEncoder
from cpc_tf.data import views, walk
from cpc_tf.evaluation.scores import normalized
from cpc_tf.files import cache_folder, writing
from cpc_tf.pictures import Batch, Pictures
from cpc_tf.progress import Progress, waiting_for
from cpc_tf.settings import ConfigError
from cpc_tf.texts import listed

DIRECTIONS = 128  # principal components in which pictures are compared
_FEATURES = "features.bin"  # float32, a row for each sound picture of the index
_BLOCK = 4096  # rows of features in memory at a time
Tell = Callable[[str], None]


class Gallery(NamedTuple):
    """Pictures that can be read, and their features.

    Attributes:
      pictures: names relative to the folder, and paths.
      features: float32 [M, D], a file of the cache, which may have rows of other pictures.
      rows: int64 [N]: the row of each picture.
      directions: float32 [N, R], of length 1: the features in their first principal components, so that the product of
        two is nearly the cosine of `embed.nearest_others`.
      broken: {name: why it cannot be read}.
    """

    pictures: Pictures
    features: np.ndarray
    rows: np.ndarray
    directions: np.ndarray
    broken: dict[str, str]

    def blocks(self) -> Iterator[np.ndarray]:
        """Yields the features of all pictures in order, float32 [at most 4096, D]."""
        for start in range(0, len(self.rows), _BLOCK):
            yield self.features[self.rows[start : start + _BLOCK]]

    def take(self, indices: np.ndarray) -> np.ndarray:
        """Returns the features of some pictures, float32 [n, D]."""
        return self.features[self.rows[indices]]


def open_gallery(encoder: PictureEncoder, folder: str, batch_size: int, tell: Tell) -> Gallery:
    """Returns the pictures of a folder with their features; those that are not in the cache are computed.

    The memory does not grow with the number of pictures, but for 512 bytes each. An interrupted computation goes on.

    Args:
      encoder: whose features.
      folder: of the pictures.
      batch_size: pictures encoded at a time.
      tell: gets lines for the user.

    Raises:
      ConfigError: there is no such folder, no picture in it, or none that can be read.
      NotWritten: the cache cannot be written.
    """
    root = os.path.expanduser(folder).rstrip("/") or "/"
    if not os.path.isdir(root):
        raise ConfigError("pictures", folder, "there is no such folder")
    pictures = files.find(folder)
    levels = encoder.intensity_range or pictures.intensity_range
    key = f"{os.path.realpath(root)}\n{encoder.digest}\n{levels}"
    cache = os.path.join(cache_folder(), "label", hashlib.sha256(key.encode(errors="surrogateescape")).hexdigest()[:32])
    stats = walk.stats(root, [os.path.relpath(os.fsdecode(path), root) for path in pictures.paths]).tolist()
    versions = [f"{name} {size} {time}" for name, (size, time) in zip(pictures.names, stats)]
    with writing(cache):
        os.makedirs(cache, exist_ok=True)
        index = open(os.path.join(cache, "index.jsonl"), "a+", encoding="utf-8")  # noqa: SIM115 closed below
    with index:
        fcntl.flock(index, fcntl.LOCK_EX)  # another process may be computing the same
        entries, width = _index(index)
        # What could not be read is tried again: permission or a connection may have been missing.
        if missing := [i for i, version in enumerate(versions) if not isinstance(entries.get(version), int)]:
            tell(f"features: {encoder.what}; {len(missing):,} of {len(versions):,} pictures are encoded")
            batches = files.batches(
                pictures.take(missing),
                lambda image: views.plain_crop(image, encoder.geometry),
                batch_size,
                least_side=encoder.geometry.resize,
                intensity_range=levels,
            )
            rows = 1 + max((entry for entry in entries.values() if isinstance(entry, int)), default=-1)
            _append(encoder, batches, [versions[i] for i in missing], index, f"{cache}/{_FEATURES}", rows)
            entries, width = _index(index)
    sound = [i for i, version in enumerate(versions) if isinstance(entries[version], int)]
    broken = {name: entries[v] for name, v in zip(pictures.names, versions) if isinstance(entries[v], str)}
    if not sound:
        why = listed([f"{name} ({reason})" for name, reason in broken.items()])
        raise ConfigError("pictures", folder, f"none can be read: {why}")
    rows = np.array([entries[versions[i]] for i in sound], np.int64)
    features = np.memmap(f"{cache}/{_FEATURES}", np.float32, "r", shape=(rows.max() + 1, width))
    gallery = Gallery(pictures.take(sound), features, rows, np.zeros([0, 0], np.float32), broken)
    return gallery._replace(directions=directions(gallery))


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
    encoder: PictureEncoder, batches: Iterator[Batch], versions: list[str], index: TextIO, path: str, rows: int
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
            features = encoder.encode_batch(batch.images) if len(batch.indices) else np.zeros([0, 0], np.float32)
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


def directions(gallery: Gallery) -> np.ndarray:
    """Returns `Gallery.directions`, in one pass for the mean, one for the covariance and one for the projection."""
    count = len(gallery.rows)
    mean = sum(block.sum(0, dtype=np.float64) for block in gallery.blocks()) / count
    covariance = sum((block - mean).T @ (block - mean) for block in gallery.blocks())
    axes = np.linalg.eigh(covariance)[1][:, : -DIRECTIONS - 1 : -1].astype(np.float32)
    return np.concatenate([normalized(block @ axes, mean.astype(np.float32) @ axes) for block in gallery.blocks()])
