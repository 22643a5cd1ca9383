"""Grids of overlapping patches: cut out of images, and encoded patch by patch."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

_PIXEL_SIDE = 8


def patch_grid(images: tf.Tensor, patch: int, stride: int) -> tf.Tensor:
    """All patches of the images; pixels below and right of the last whole patch are left out.

    Args:
      images: [B, H, W, 3], any H and W of at least `patch`.
      patch: side of a patch.
      stride: distance between neighbouring patches.

    Returns:
      [B, R, C, patch, patch, 3], R from top to bottom, C from left to right.
    """
    shape = tf.shape(images)
    tf.debugging.assert_greater_equal(
        tf.reduce_min(shape[1:3]), patch, f"the images are smaller than a patch of {patch} px"
    )
    rows, columns = (tf.range(0, side - patch + 1, stride)[:, None] + tf.range(patch) for side in (shape[1], shape[2]))
    bands = tf.gather(images, rows, axis=1)  # [B, R, P, W, 3]
    patches = tf.gather(bands, columns, axis=3)  # [B, R, P, C, P, 3]
    return tf.transpose(patches, [0, 1, 3, 2, 4, 5])


def encode_grid(encode: Callable[[tf.Tensor], tf.Tensor], patches: tf.Tensor) -> tf.Tensor:
    """Patches [B, R, C, P, P, 3], uint8 or float32 in [0, 1] -> latents float32 [B, R, C, D], each patch on its own.

    Args:
      encode: images float32 [N, P, P, 3] in [0, 1] -> features float32 [N, D].
    """
    flat = tf.reshape(patches, [-1, *patches.shape[3:]])  # [B*R*C, P, P, 3]
    latents = encode(tf.image.convert_image_dtype(flat, tf.float32))  # [B*R*C, D]
    grid = tf.reshape(latents, tf.concat([tf.shape(patches)[:3], tf.shape(latents)[1:]], 0))
    return tf.ensure_shape(grid, [*patches.shape[:3], latents.shape[-1]])


def pixel_grid(patches: tf.Tensor) -> tf.Tensor:
    """Patches uint8 [B, R, C, P, P, 3] -> their pixels, shrunk to 8x8 a patch, as one latent [B, 1, 1, R*C*192]."""
    flat = tf.cast(tf.reshape(patches, [-1, *patches.shape[3:]]), tf.float32) / 255.0  # [B*R*C, P, P, 3]
    small = tf.image.resize(flat, [_PIXEL_SIDE, _PIXEL_SIDE], antialias=True)
    size = patches.shape[1] * patches.shape[2] * _PIXEL_SIDE * _PIXEL_SIDE * 3
    return tf.reshape(small, [-1, 1, 1, size])
