"""The grid of overlapping patches of images whose size is only known when the graph runs."""

from __future__ import annotations

import tensorflow as tf


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
