"""ROIAlign (He et al. 2017), computed as a product with two small matrices per region: weights of rows and of columns.

A bin of a region is the mean of points sampled bilinearly. This is linear in the feature map and separable, so nothing
is gathered and any number of points costs the same.
"""

from __future__ import annotations

import tensorflow as tf


def hat_weights(start: tf.Tensor, end: tf.Tensor, bins: int, points: int, cells: int) -> tf.Tensor:
    """Returns the weights [..., bins, cells] of the cells of an axis in the bins of regions from `start` to `end`.

    The centre of cell i is at i. Points up to one cell outside the map take the value at its border, others 0.
    """
    steps = (tf.range(bins * points, dtype=tf.float32) + 0.5) / (bins * points)
    position = start[..., None] + (end - start)[..., None] * steps  # [..., bins*points]
    inside = (position >= -1.0) & (position <= float(cells))
    position = tf.clip_by_value(position, 0.0, cells - 1.0)
    hat = tf.nn.relu(1.0 - tf.abs(position[..., None] - tf.range(cells, dtype=tf.float32)))
    hat = tf.where(inside[..., None], hat, 0.0)  # [..., bins*points, cells]
    return tf.reduce_mean(tf.reshape(hat, tf.concat([tf.shape(start), [bins, points, cells]], 0)), -2)


def roi_align(
    features: tf.Tensor, boxes: tf.Tensor, stride: float, size: int, points: int = 2, chunk: int = 0
) -> tf.Tensor:
    """Pools each box to a grid, without the offset of half a cell of the first implementations.

    Args:
      features: [B, H, W, C], float32 or bfloat16.
      boxes: [B, K, 4] in pixels; no gradient reaches them.
      stride: pixels per cell of the features.
      size: side of the grid.
      points: sampled per bin and axis.
      chunk: regions computed at a time, which bounds the intermediate [B, chunk, size, W, C]; 0: all.

    Returns:
      [B, K, size, size, C] in the dtype of `features`; 0 for boxes without area.
    """
    boxes = tf.stop_gradient(boxes)
    empty = tf.reduce_any(boxes[..., 2:] <= boxes[..., :2], -1)  # [B, K]
    y1, x1, y2, x2 = tf.unstack(boxes / stride - 0.5, axis=-1)
    rows = hat_weights(y1, y2, size, points, features.shape[1])  # [B, K, P, H]
    columns = hat_weights(x1, x2, size, points, features.shape[2])  # [B, K, Q, W]
    rows = tf.where(empty[..., None, None], 0.0, rows)
    return _pool(features, tf.cast(rows, features.dtype), tf.cast(columns, features.dtype), chunk)


def _pool(features: tf.Tensor, rows: tf.Tensor, columns: tf.Tensor, chunk: int) -> tf.Tensor:
    """Computes einsum('bhwc,bkph,bkqw->bkpqc') in the cheapest order, chunk by chunk.

    The custom gradient recomputes the intermediates, which the gradient of a loop would keep in memory.
    """
    count = rows.shape[1]
    chunk = min(chunk or count, count)
    weights = (_split(rows, chunk), _split(columns, chunk))

    @tf.custom_gradient
    def pool(features: tf.Tensor):
        def forward(weights):
            rows, columns = weights  # [B, c, P, H], [B, c, Q, W]
            return tf.matmul(columns[:, :, None], tf.einsum("bkph,bhwc->bkpwc", rows, features))

        def backward(total, slices):
            upstream, rows, columns = slices
            between = tf.matmul(columns[:, :, None], upstream, transpose_a=True)  # [B, c, P, W, C]
            return total + tf.cast(tf.einsum("bkph,bkpwc->bhwc", rows, between), tf.float32)

        def gradient(upstream: tf.Tensor):
            start = tf.zeros(tf.shape(features), tf.float32)
            total = tf.foldl(backward, (_split(upstream, chunk), *weights), start, parallel_iterations=1)
            return tf.cast(total, features.dtype)

        pooled = tf.map_fn(forward, weights, parallel_iterations=1, fn_output_signature=features.dtype)
        pooled = tf.transpose(pooled, [1, 0, 2, 3, 4, 5])  # [B, n, chunk, P, Q, C]
        pooled = tf.reshape(pooled, tf.concat([tf.shape(pooled)[:1], [pooled.shape[1] * chunk], pooled.shape[3:]], 0))
        return pooled[:, :count], gradient

    return pool(features)


def _split(x: tf.Tensor, chunk: int) -> tf.Tensor:
    """Splits [B, K, ...] to [n, B, chunk, ...], padded with zeros if chunk does not divide K."""
    count = -(-x.shape[1] // chunk)
    x = tf.pad(x, [[0, 0], [0, count * chunk - x.shape[1]]] + [[0, 0]] * (x.shape.rank - 2))
    x = tf.reshape(x, tf.concat([tf.shape(x)[:1], [count, chunk], x.shape[2:]], 0))  # [B, n, chunk, ...]
    return tf.transpose(x, [1, 0, *range(2, x.shape.rank)])
