"""The images to label and their features, which are computed once and kept in the cache."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from cpc_tf.core.settings import ConfigError
from cpc_tf.core.texts import listed
from cpc_tf.data import pictures as files
from cpc_tf.data.pictures import Pictures
from cpc_tf.encoders import feature_cache
from cpc_tf.encoders.features import Encoder
from cpc_tf.evaluation.neighbours import normalized

DIRECTIONS = 128  # principal components in which images are compared
_BLOCK = 4096  # rows of features in memory at a time
Tell = Callable[[str], None]


class Gallery(NamedTuple):
    """Images that can be read, and their features.

    Attributes:
      pictures: names relative to the folder, and paths.
      features: float32 [M, D], a file of the cache, which may have rows of other images.
      rows: int64 [N]: the row of each image.
      directions: float32 [N, R], of length 1: the features in their first principal components, so
        that the product of two is nearly the cosine of `neighbours.nearest_others`.
      broken: {name: why it cannot be read}.
    """

    pictures: Pictures
    features: np.ndarray
    rows: np.ndarray
    directions: np.ndarray
    broken: dict[str, str]

    def blocks(self) -> Iterator[np.ndarray]:
        """Yields the features of all images in order, float32 [at most 4096, D]."""
        for start in range(0, len(self.rows), _BLOCK):
            yield self.features[self.rows[start : start + _BLOCK]]

    def take(self, indices: np.ndarray) -> np.ndarray:
        """Returns the features of some images, float32 [n, D]."""
        return self.features[self.rows[indices]]


def open_gallery(encoder: Encoder, folder: str, batch_size: int, tell: Tell) -> Gallery:
    """Returns the images of a folder with their features; those that are not in the cache are
    computed.

    The memory does not grow with the number of images, but for 512 bytes each. An interrupted
    computation goes on.

    Args:
      encoder: whose features.
      folder: of the images.
      batch_size: images encoded at a time.
      tell: gets lines for the user.

    Raises:
      ConfigError: there is no such folder, no image in it, or none that can be read.
      NotWritten: the cache cannot be written.
    """
    root = os.path.expanduser(folder).rstrip("/") or "/"
    if not os.path.isdir(root):
        raise ConfigError("pictures", folder, "there is no such folder")
    pictures = files.find(folder)
    levels = encoder.intensity_range or pictures.intensity_range
    tell(f"features: {encoder.what}")
    cached = feature_cache.encoded(encoder, root, pictures.paths, levels, batch_size)
    tell(f"{cached.made:,} of {len(pictures):,} images were encoded; the others were in the cache")
    broken = {pictures.names[i]: why for i, why in cached.broken.items()}
    if not cached.sound:
        why = listed([f"{name} ({reason})" for name, reason in broken.items()])
        raise ConfigError("pictures", folder, f"none can be read: {why}")
    sound = pictures.take(cached.sound)
    gallery = Gallery(sound, cached.features, cached.rows, np.zeros([0, 0], np.float32), broken)
    return gallery._replace(directions=directions(gallery))


def directions(gallery: Gallery) -> np.ndarray:
    """Returns `Gallery.directions`, in one pass for the mean, one for the covariance and one for
    the projection.
    """
    count = len(gallery.rows)
    mean = sum(block.sum(0, dtype=np.float64) for block in gallery.blocks()) / count
    covariance = sum((block - mean).T @ (block - mean) for block in gallery.blocks())
    axes = np.linalg.eigh(covariance)[1][:, : -DIRECTIONS - 1 : -1].astype(np.float32)
    return np.concatenate(
        [normalized(block @ axes, mean.astype(np.float32) @ axes) for block in gallery.blocks()]
    )
