"""Views: what an encoder sees of an image in training. Random choices are keyed by (seed, counter of the example)."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Union

import tensorflow as tf

from cpc_tf import augment
from cpc_tf.augment.config import AugmentConfig
from cpc_tf.data.config import GeometryConfig, ImageConfig
from cpc_tf.data.views import geometry as geo

Decode = Callable[[int], tf.Tensor]  # least side, see `decode.decode` -> the pixels of an image, uint8 [H, W, 3]
Geometry = Union[GeometryConfig, ImageConfig]  # each view takes one of the two


class View(abc.ABC):
    """What is cut from one image."""

    key: str  # its name in a batch
    seen: str  # what the encoder saw, for model cards: "In pre-training it saw ..."

    def shape(self, geometry: Geometry) -> list[int]:
        """Returns the static shape of one image's view."""
        return [geometry.image_size, geometry.image_size, 3]

    @abc.abstractmethod
    def cut(
        self,
        image: Decode,
        counter: tf.Tensor,
        geometry: Geometry,
        augmentation: AugmentConfig,
        seed: int,
    ) -> tf.Tensor:
        """Returns the augmented view of an image, uint8 of `shape`."""


class PatchGrid(View):
    """The grid of overlapping patches of a random crop, each augmented independently: [R, C, P, P, 3]."""

    key = "patches"
    seen = "the patches of the grid, each on its own"

    def shape(self, geometry: GeometryConfig) -> list[int]:
        return [geometry.grid, geometry.grid, geometry.patch_size, geometry.patch_size, 3]

    def cut(self, image, counter, geometry, augmentation, seed):
        fitted = geo.fit(image(geometry.resize), geometry.resize, geometry.resize_mode)
        image = geo.random_crop(fitted, geometry.image_size, seed, counter)
        if geometry.mirror:
            image = geo.mirror(image, seed, counter)
        grid = geo.grid_of_patches(image, geometry.patch_size, geometry.patch_stride)
        return _augmented(grid, augmentation, seed, counter)


class WholeImage(View):
    """A random crop, augmented as one patch: [S, S, 3]."""

    key = "image"
    seen = "whole images"

    def cut(self, image, counter, geometry, augmentation, seed):
        return PatchGrid().cut(image, counter, geometry, augmentation, seed)[0, 0]  # the only patch


class RandomSizedCrop(View):
    """A part of random size and shape, augmented as one patch: [S, S, 3].

    Appendix C: "We extract a randomly sized crop [...] We follow this with the same image transformations as for
    self-supervised pre-training".
    """

    key = "image"
    seen = "crops of images, each of a random size and shape"

    def cut(self, image, counter, geometry, augmentation, seed):
        crop = _crops(image, geometry, geometry.crop_area, geometry.crop_stretch, seed, [[counter]])
        return _augmented(crop, augmentation, seed, counter)[0, 0]


class PlainAndAugmented(View):
    """A part of random size and shape twice, as it is and augmented as one patch: [2, S, S, 3]."""

    key = "views"
    seen = RandomSizedCrop.seen

    def shape(self, geometry: GeometryConfig) -> list[int]:
        return [2, geometry.image_size, geometry.image_size, 3]

    def cut(self, image, counter, geometry, augmentation, seed):
        crop = _crops(image, geometry, geometry.crop_area, geometry.crop_stretch, seed, [[counter]])
        plain = augment.at_test(crop, augmentation.policy)
        return tf.concat([plain, _augmented(crop, augmentation, seed, counter)], 0)[:, 0]  # [2, 1, S, S, 3]


class SeveralCrops(View):
    """Several parts of random size and shape, each augmented independently: [V, S, S, 3].

    `count` is V; for `least_area` and `stretch` see `geometry.random_sized_crop`.
    """

    key = "views"
    seen = "crops of images, each of a random size and shape"

    def __init__(self, count: int, least_area: float = 0.2, stretch: float = 4 / 3):
        self.count, self.least_area, self.stretch = count, least_area, stretch

    def shape(self, geometry: GeometryConfig) -> list[int]:
        return [self.count, geometry.image_size, geometry.image_size, 3]

    def cut(self, image, counter, geometry, augmentation, seed):
        keys = [[counter, view] for view in range(self.count)]
        crops = _crops(image, geometry, self.least_area, self.stretch, seed, keys)
        return _augmented(crops, augmentation, seed, counter)[0]


def _crops(image, geometry, least_area, stretch, seed, keys):
    """Cuts a random-sized crop for each of K lists of counters, as a grid of one row: uint8 [1, K, S, S, 3]."""
    side = geometry.image_size
    pixels = image(int(side / least_area**0.5))  # so that the smallest crop is not enlarged
    crops = [geo.random_sized_crop(pixels, side, least_area, stretch, seed, *counters) for counters in keys]
    if geometry.mirror:
        crops = [geo.mirror(crop, seed, *counters) for crop, counters in zip(crops, keys)]
    return tf.stack(crops)[None]


def _augmented(grid, augmentation, seed, counter):
    """Augments each patch of uint8 [R, C, P, P, 3] independently."""
    if not augmentation.policy.used:
        return grid
    rows, columns, side = grid.shape[:3]
    recipe = augment.draw(augmentation, seed, counter, rows * columns, side)
    flat = tf.reshape(grid, [rows * columns, side, side, 3])  # [R*C, P, P, 3]
    flat = augment.apply(flat, recipe, engine=augmentation.engine)
    return tf.reshape(flat, grid.shape)
