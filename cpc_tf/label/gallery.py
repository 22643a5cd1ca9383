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
from cpc_tf.encoders.feature_cache import Columns
from cpc_tf.encoders.features import Encoder
from cpc_tf.encoders.side_by_side import SideBySide
from cpc_tf.evaluation.neighbours import balance, normalized

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
      encoder: whose features these are.
      widths: how many features are of each of several encoders side by side; () of one.
      candidates: the same images by each encoder that `classify.choice` chooses from, the smallest
        first; () if there is one.
    """

    pictures: Pictures
    features: np.ndarray | Columns
    rows: np.ndarray
    directions: np.ndarray
    broken: dict[str, str]
    encoder: Encoder | None = None
    widths: tuple[int, ...] = ()
    candidates: tuple[Gallery, ...] = ()

    def view(self, number: int | None) -> Gallery:
        """Returns the images by one of the candidates; None: by the encoder named first."""
        if not self.candidates:
            return self
        if number is not None:
            return self.candidates[number]
        first = self.encoder.encoders[0]
        return next(view for view in self.candidates if view.encoder is first)

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
    encoders = encoder.encoders if isinstance(encoder, SideBySide) else [encoder]
    each = []
    tell(f"features: {encoder.what}")
    for one in encoders:
        each.append(feature_cache.encoded(one, root, pictures.paths, levels, batch_size))
    cached = feature_cache.side_by_side(each)
    rest = "; the others were in the cache" if cached.made < len(pictures) else ""
    tell(f"{cached.made:,} of {len(pictures):,} images were encoded{rest}")
    broken = {pictures.names[i]: why for i, why in cached.broken.items()}
    if not cached.sound:
        why = listed([f"{name} ({reason})" for name, reason in broken.items()])
        raise ConfigError("pictures", folder, f"none can be read: {why}")
    sound = pictures.take(cached.sound)
    none = np.zeros([0, 0], np.float32)
    gallery = Gallery(sound, cached.features, cached.rows, none, broken, encoder)
    if len(each) > 1:
        widths = tuple(cached.features.shape[1] for cached in each)
        gallery = gallery._replace(widths=widths)
        single = []
        for one, (features, rows) in zip(encoders, cached.features.parts):
            single.append(Gallery(sound, features, rows, none, broken, one))
        single.sort(key=lambda view: (view.encoder.parameters, view.features.shape[1]))
        gallery = gallery._replace(candidates=(*single, gallery))
    return gallery._replace(directions=directions(gallery))


def directions(gallery: Gallery) -> np.ndarray:
    """Returns `Gallery.directions`, in one pass for the mean, one for the covariance and one for
    the projection.
    """
    count = len(gallery.rows)
    mean = sum(block.sum(0, dtype=np.float64) for block in gallery.blocks()) / count
    covariance = sum((block - mean).T @ (block - mean) for block in gallery.blocks())
    if gallery.widths:
        factors = balance(np.diag(covariance), gallery.widths)
        covariance *= np.outer(factors, factors)
        axes = factors[:, None] * _axes(covariance)
    else:
        axes = _axes(covariance)
    return np.concatenate(
        [normalized(block @ axes, mean.astype(np.float32) @ axes) for block in gallery.blocks()]
    )


def _axes(covariance: np.ndarray) -> np.ndarray:
    """Returns the first principal components, float32 [D, R]."""
    return np.linalg.eigh(covariance)[1][:, : -DIRECTIONS - 1 : -1].astype(np.float32)
