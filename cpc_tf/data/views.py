"""What an encoder sees of an image: resizing, crops, mirroring and grids of patches, and the views
made of them.

Random choices are keyed by (seed, counter of the example).
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Union

import tensorflow as tf

from cpc_tf import augment
from cpc_tf.augment.config import AugmentConfig
from cpc_tf.data.config import CROP, SQUASH, GeometryConfig, ImageConfig
from cpc_tf.data.source import CROPPING, MIRRORING, random_key

# fills what an image does not cover, as in the canvas of a detector and the warps of the
# augmentation
GREY = 128
_LONGEST = 4  # longer side of a cropped image, in shorter sides: a strip would fill the memory


def resize(
    image: tf.Tensor, height: int | tf.Tensor, width: int | tf.Tensor | None = None
) -> tf.Tensor:
    """Resizes an image, uint8 [H, W, 3] -> uint8 [height, width, 3]; without `width`, to a square.

    The aspect ratio is not kept, so the whole image is used, as in appendix A.
    """
    sides = (height, height if width is None else width)
    before = tf.shape(image)[:2]
    after = tf.stack(sides)

    def change():
        # Sides are shrunk first. The mean over each pixel's footprint does not alias and takes 0.7
        # ms for 500x375 -> 300x300; antialias=True takes 2.1 ms, bilinear without it 0.5 ms.
        between = tf.minimum(before, after)
        shrunk = tf.cond(
            tf.reduce_any(before > after),
            lambda: tf.image.resize(image, between, method="area"),
            lambda: tf.cast(image, tf.float32),
        )
        changed = tf.cond(
            tf.reduce_any(between < after),
            lambda: tf.image.resize(shrunk, after, method="bilinear"),
            lambda: shrunk,
        )
        return tf.cast(tf.round(changed), tf.uint8)

    resized = tf.cond(tf.reduce_all(before == after), lambda: image, change)
    return tf.ensure_shape(
        resized, [*(side if isinstance(side, int) else None for side in sides), 3]
    )


def fit(image: tf.Tensor, side: int, mode: str = SQUASH) -> tf.Tensor:
    """Resizes an image before a square is cut out of it: uint8 [H, W, 3] -> uint8 [height, width,
    3].

    Args:
      image: of any size.
      side: of the square, in pixels.
      mode: 'squash': the result is the square, the aspect ratio is lost. 'crop': the shorter side
        is `side`; of an image that is more than 4 times as long as wide the middle is used. 'pad':
        the longer side is `side`, and grey (128) fills the square on both sides of the image; an
        odd row or column is added below or right.

    Example:
      `centre_crop(fit(image, 256, "pad"), 224)` is what a classifier with `--resize=256
      --image_size=224 --resize_mode=pad` sees of a test image.
    """
    if mode == SQUASH:
        return resize(image, side)
    if mode == CROP:
        full = tf.shape(image)[:2]
        used = tf.minimum(full, _LONGEST * tf.reduce_min(full))
        begin = (full - used) // 2
        image = tf.slice(image, [begin[0], begin[1], 0], [used[0], used[1], 3])
        return resize(image, *_scaled(used, side, tf.reduce_min(used)))
    size = tf.shape(image)[:2]
    height, width = _scaled(size, side, tf.reduce_max(size))
    image = resize(image, height, width)
    top = (side - height) // 2
    left = (side - width) // 2
    below = side - height - top
    right = side - width - left
    image = tf.pad(image, [[top, below], [left, right], [0, 0]], constant_values=GREY)
    return tf.ensure_shape(image, [side, side, 3])


def _scaled(size, side, reference):
    """Returns a height and width, int32 [2], times side / reference, rounded, at least one pixel
    each.
    """
    scaled = tf.round(tf.cast(size, tf.float32) * (side / tf.cast(reference, tf.float32)))
    return tf.unstack(tf.maximum(tf.cast(scaled, tf.int32), 1))


def random_crop(image: tf.Tensor, side: int, seed: int, counter: tf.Tensor) -> tf.Tensor:
    """Cuts a random square, uint8 [H, W, 3] -> uint8 [side, side, 3]; all positions are equally
    likely.
    """
    key = random_key(seed, CROPPING, counter)
    size = tf.shape(image)

    def corner(axis):
        # Two numbers each time, of which one is used: a square image has the crops that it had when
        # all were square.
        numbers = tf.random.stateless_uniform(
            [2], key, minval=0, maxval=size[axis] - side + 1, dtype=tf.int32
        )
        return numbers[axis]

    crop = tf.slice(image, [corner(0), corner(1), 0], [side, side, 3])
    return tf.ensure_shape(crop, [side, side, 3])


def random_sized_crop(
    image: tf.Tensor,
    side: int,
    least_area: float,
    stretch: float,
    seed: int,
    *counters: tf.Tensor | int,
) -> tf.Tensor:
    """Cuts and resizes a random part (Szegedy et al. 2014, Inception), uint8 [H, W, 3] -> uint8
    [side, side, 3].

    Args:
      image: the image.
      side: of the result.
      least_area: smallest fraction of the image's area; the largest is 1.
      stretch: the aspect ratio of the part is between 1 / stretch and stretch.
      seed, *counters: key of the random choice.
    """
    begin, size, _ = tf.image.stateless_sample_distorted_bounding_box(
        tf.shape(image),
        tf.zeros([1, 0, 4]),  # no object that the crop must show
        random_key(seed, CROPPING, *counters),
        min_object_covered=0.0,
        aspect_ratio_range=(1 / stretch, stretch),
        area_range=(least_area, 1.0),
        use_image_if_no_bounding_boxes=True,
    )
    return resize(tf.slice(image, begin, size), side)


def centre_crop(image: tf.Tensor, side: int) -> tf.Tensor:
    """Cuts the square in the middle, uint8 [H, W, 3] -> uint8 [side, side, 3]; an odd pixel is cut
    below and right.
    """
    top, left = tf.unstack((tf.shape(image)[:2] - side) // 2)
    return tf.ensure_shape(image[top : top + side, left : left + side], [side, side, 3])


def plain_crop(image: tf.Tensor, geometry: GeometryConfig | ImageConfig) -> tf.Tensor:
    """Resizes an image and cuts its middle, as a test sees it: uint8 [H, W, 3] -> uint8
    [image_size, image_size, 3].
    """
    return centre_crop(fit(image, geometry.resize, geometry.resize_mode), geometry.image_size)


def mirror(image: tf.Tensor, seed: int, *counters: tf.Tensor | int) -> tf.Tensor:
    """Mirrors an image [H, W, 3] left to right with probability 1/2."""
    heads = tf.random.stateless_uniform([], random_key(seed, MIRRORING, *counters)) < 0.5
    return tf.cond(heads, lambda: tf.reverse(image, axis=[1]), lambda: image)


def grid_of_patches(image: tf.Tensor, patch: int, stride: int) -> tf.Tensor:
    """Cuts all patches of a square image, `stride` px from each other.

    Args:
      image: uint8 [S, S, 3], S static, with (S - patch) divisible by stride.

    Returns:
      uint8 [R, C, patch, patch, 3], R from top to bottom, C from left to right.
    """
    starts = range(0, image.shape[0] - patch + 1, stride)
    # Slices and stack are 40 times faster than tf.image.extract_patches, which computes in float32.
    rows = tf.stack([image[top : top + patch] for top in starts])  # [R, patch, S, 3]
    columns = [rows[:, :, left : left + patch] for left in starts]
    return tf.stack(columns, axis=1)  # [R, C, patch, patch, 3]


# least side, see `decode.decode` -> the pixels of an image, uint8 [H, W, 3]
Decode = Callable[[int], tf.Tensor]
Geometry = Union[GeometryConfig, ImageConfig]  # each view takes one of the two


class View(abc.ABC):
    """What is cut from one image."""

    key: str  # its name in a batch
    seen: str  # what the encoder saw, for model cards: "In pre-training it saw ..."

    @property
    def views(self) -> dict[str, View]:
        """What a batch has of it, each under its name there."""
        return {self.key: self}

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
    """The grid of overlapping patches of a random crop, each augmented independently: [R, C, P, P,
    3].
    """

    key = "patches"
    seen = "the patches of the grid, each on its own"

    def shape(self, geometry: GeometryConfig) -> list[int]:
        return [geometry.grid, geometry.grid, geometry.patch_size, geometry.patch_size, 3]

    def cut(self, image, counter, geometry, augmentation, seed):
        fitted = fit(image(geometry.resize), geometry.resize, geometry.resize_mode)
        image = random_crop(fitted, geometry.image_size, seed, counter)
        if geometry.mirror:
            image = mirror(image, seed, counter)
        grid = grid_of_patches(image, geometry.patch_size, geometry.patch_stride)
        return _augmented(grid, augmentation, seed, counter)


class WholeImage(View):
    """A random crop, augmented as one patch: [S, S, 3]."""

    key = "image"
    seen = "whole images"

    def cut(self, image, counter, geometry, augmentation, seed):
        patches = PatchGrid().cut(image, counter, geometry.whole, augmentation, seed)
        return patches[0, 0]  # the only patch


class RandomSizedCrop(View):
    """A part of random size and shape, augmented as one patch: [S, S, 3].

    Appendix C: "We extract a randomly sized crop [...] We follow this with the same image
    transformations as for self-supervised pre-training".
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
        augmented = _augmented(crop, augmentation, seed, counter)
        return tf.concat([plain, augmented], 0)[:, 0]  # [2, 1, S, S, 3]


class SeveralCrops(View):
    """Several parts of random size and shape, each augmented independently: [V, S, S, 3].

    `count` is V; for `least_area` and `stretch` see `geometry.random_sized_crop`.
    """

    key = "views"
    seen = "crops of images, each of a random size and shape"

    def __init__(self, count: int, least_area: float = 0.2, stretch: float = 4 / 3):
        self.count = count
        self.least_area = least_area
        self.stretch = stretch

    def shape(self, geometry: GeometryConfig) -> list[int]:
        return [self.count, geometry.image_size, geometry.image_size, 3]

    def cut(self, image, counter, geometry, augmentation, seed):
        keys = [[counter, view] for view in range(self.count)]
        crops = _crops(image, geometry, self.least_area, self.stretch, seed, keys)
        return _augmented(crops, augmentation, seed, counter)[0]


class Together:
    """Several views of an image, each under a name of its own.

    They draw as each does alone: of a patch grid and a whole image both are of the same crop.
    """

    def __init__(self, views: dict[str, View]):
        self.views = views

    @property
    def seen(self) -> str:
        return " and ".join(dict.fromkeys(view.seen for view in self.views.values()))


def _crops(image, geometry, least_area, stretch, seed, keys):
    """Cuts a random-sized crop for each of K lists of counters, as a grid of one row: uint8 [1, K,
    S, S, 3].
    """
    side = geometry.image_size
    pixels = image(int(side / least_area**0.5))  # so that the smallest crop is not enlarged
    crops = [
        random_sized_crop(pixels, side, least_area, stretch, seed, *counters) for counters in keys
    ]
    if geometry.mirror:
        crops = [mirror(crop, seed, *counters) for crop, counters in zip(crops, keys)]
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
