"""Max-pooling that XLA can compile and whose gradient is deterministic."""

from __future__ import annotations

import tensorflow as tf


def max_pool(x: tf.Tensor) -> tf.Tensor:
    """3x3 max-pool of stride 2, padding 'SAME': the values and the gradients of `tf.nn.max_pool2d(x, 3, 2, "SAME")`.

    TensorFlow has no deterministic XLA kernel of that gradient (2.15: "GPU MaxPool gradient ops do not yet have a
    deterministic XLA implementation"). The maximum of shifted slices needs none: of equal values the first one gets the
    gradient, in the order of rows, then columns.

    Args:
      x: [N, H, W, C], float; H and W need not be known.

    Returns:
      [N, ceil(H / 2), ceil(W / 2), C].
    """
    for axis in (2, 1):  # columns first, so that the first of equal values is the first in its row
        size = tf.shape(x)[axis] if x.shape[axis] is None else x.shape[axis]
        padding = [[0, 0], [0, 0], [0, 0], [0, 0]]
        padding[axis] = [size % 2, 1]
        padded = tf.pad(x, padding, constant_values=x.dtype.min)  # 2 * ceil(size / 2) + 1 along the axis
        end = 2 * ((size + 1) // 2)
        first, second, third = (_every_second(padded, axis, start, end + start - 1) for start in range(3))
        x = tf.maximum(tf.maximum(first, second), third)
    return x


def _every_second(x: tf.Tensor, axis: int, start: int, stop: int | tf.Tensor) -> tf.Tensor:
    """x[start:stop:2] along an axis."""
    return x[:, start:stop:2] if axis == 1 else x[:, :, start:stop:2]
