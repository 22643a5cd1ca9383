"""Resizing, crops, mirroring and grids of patches of single images; random choices are keyed by (seed, counter)."""

from __future__ import annotations

import tensorflow as tf

from cpc_tf.data import keys


def resize(image: tf.Tensor, height: int | tf.Tensor, width: int | tf.Tensor | None = None) -> tf.Tensor:
    """Resizes an image, uint8 [H, W, 3] -> uint8 [height, width, 3]; without `width`, to a square.

    The aspect ratio is not kept, so the whole image is used, as in appendix A.
    """
    sides = (height, height if width is None else width)
    before, after = tf.shape(image)[:2], tf.stack(sides)

    def change():
        # Sides are shrunk first. The mean over each pixel's footprint does not alias and takes 0.7 ms for 500x375 ->
        # 300x300; antialias=True takes 2.1 ms, bilinear without it 0.5 ms.
        between = tf.minimum(before, after)
        shrunk = tf.cond(
            tf.reduce_any(before > after),
            lambda: tf.image.resize(image, between, method="area"),
            lambda: tf.cast(image, tf.float32),
        )
        changed = tf.cond(
            tf.reduce_any(between < after), lambda: tf.image.resize(shrunk, after, method="bilinear"), lambda: shrunk
        )
        return tf.cast(tf.round(changed), tf.uint8)

    resized = tf.cond(tf.reduce_all(before == after), lambda: image, change)
    return tf.ensure_shape(resized, [*(side if isinstance(side, int) else None for side in sides), 3])


def random_crop(image: tf.Tensor, side: int, seed: int, counter: tf.Tensor) -> tf.Tensor:
    """Cuts a random square, uint8 [S, S, 3] -> uint8 [side, side, 3]; all positions are equally likely."""
    room = image.shape[0] - side
    corner = tf.random.stateless_uniform(
        [2], keys.key(seed, keys.CROP, counter), minval=0, maxval=room + 1, dtype=tf.int32
    )
    crop = tf.slice(image, tf.concat([corner, [0]], 0), [side, side, 3])
    return tf.ensure_shape(crop, [side, side, 3])


def random_sized_crop(
    image: tf.Tensor, side: int, least_area: float, stretch: float, seed: int, *counters: tf.Tensor | int
) -> tf.Tensor:
    """Cuts and resizes a random part (Szegedy et al. 2014, Inception), uint8 [H, W, 3] -> uint8 [side, side, 3].

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
        keys.key(seed, keys.CROP, *counters),
        min_object_covered=0.0,
        aspect_ratio_range=(1 / stretch, stretch),
        area_range=(least_area, 1.0),
        use_image_if_no_bounding_boxes=True,
    )
    return resize(tf.slice(image, begin, size), side)


def centre_crop(image: tf.Tensor, side: int) -> tf.Tensor:
    """Cuts the square in the middle, uint8 [S, S, 3] -> uint8 [side, side, 3]; an odd pixel is cut below and right."""
    start = (image.shape[0] - side) // 2
    return image[start : start + side, start : start + side]


def mirror(image: tf.Tensor, seed: int, *counters: tf.Tensor | int) -> tf.Tensor:
    """Mirrors an image [H, W, 3] left to right with probability 1/2."""
    heads = tf.random.stateless_uniform([], keys.key(seed, keys.MIRROR, *counters)) < 0.5
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
    return tf.stack([rows[:, :, left : left + patch] for left in starts], axis=1)  # [R, C, patch, patch, 3]
