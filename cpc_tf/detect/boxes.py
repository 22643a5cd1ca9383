"""Boxes: [y1, x1, y2, x2], float32, in pixels from the corner of the image; pixel i lies between i and i + 1."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

# Weights of the codes (y, x, height, width) of a box relative to an anchor or a region (Girshick 2015's code; C4).
ANCHOR_WEIGHTS = (1.0, 1.0, 1.0, 1.0)
REGION_WEIGHTS = (10.0, 10.0, 5.0, 5.0)
# Largest ratio of a box's side to its anchor's, so that exp() stays finite (C4).
MAX_RATIO = 1000 / 16


def anchor_grid(rows: int, columns: int, stride: float, sizes: Sequence[float], ratios: Sequence[float]) -> np.ndarray:
    """Returns boxes of several sizes and shapes around the centre of each cell of a feature map (Ren et al. 2015).

    Args:
      stride: side of a cell in pixels.
      sizes: square roots of the areas, in pixels.
      ratios: heights over widths.

    Returns:
      float32 [rows * columns * len(sizes) * len(ratios), 4], cell by cell; they may reach beyond the image.
    """
    size, root = np.meshgrid(sizes, np.sqrt(ratios), indexing="ij")
    half = 0.5 * np.stack([size * root, size / root], -1).reshape(-1, 2)  # [S*R, 2]: heights and widths
    y, x = np.meshgrid((np.arange(rows) + 0.5) * stride, (np.arange(columns) + 0.5) * stride, indexing="ij")
    centre = np.stack([y, x], -1).reshape(-1, 1, 2)  # [rows*columns, 1, 2]
    return np.concatenate([centre - half, centre + half], -1).reshape(-1, 4).astype(np.float32)


def sides(boxes: tf.Tensor) -> tf.Tensor:
    """Returns heights and widths [..., 2] of boxes [..., 4]; 0 where y2 < y1 or x2 < x1."""
    return tf.nn.relu(boxes[..., 2:] - boxes[..., :2])


def centres(boxes: tf.Tensor) -> tf.Tensor:
    """Returns centres (y, x) [..., 2] of boxes [..., 4]."""
    return 0.5 * (boxes[..., :2] + boxes[..., 2:])


def area(boxes: tf.Tensor) -> tf.Tensor:
    """Returns areas [...] of boxes [..., 4]."""
    return tf.reduce_prod(sides(boxes), -1)


def iou(one: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
    """Returns intersection over union [..., N, M] of boxes [..., N, 4] and [..., M, 4]; 0 if a box has no area."""
    one, other = one[..., :, None, :], other[..., None, :, :]
    top_left = tf.maximum(one[..., :2], other[..., :2])  # [..., N, M, 2]
    bottom_right = tf.minimum(one[..., 2:], other[..., 2:])
    shared = tf.reduce_prod(tf.nn.relu(bottom_right - top_left), -1)  # [..., N, M]
    return tf.math.divide_no_nan(shared, area(one) + area(other) - shared)


def clip(boxes: tf.Tensor, sizes: tf.Tensor) -> tf.Tensor:
    """Clips boxes [B, N, 4] to images of the heights and widths `sizes` [B, 2]."""
    sizes = tf.cast(sizes, boxes.dtype)
    return tf.clip_by_value(boxes, 0.0, tf.concat([sizes, sizes], -1)[:, None, :])


def encode(boxes: tf.Tensor, anchors: tf.Tensor, weights: Sequence[float] = REGION_WEIGHTS) -> tf.Tensor:
    """Returns the codes [..., 4] of boxes [..., 4] relative to anchors [..., 4], multiplied by `weights`.

    A code is the shift of the centre in units of the anchor's sides, and the logarithms of the ratios of the sides. It
    is 0 if the box or the anchor has no area.
    """
    size, unit = sides(boxes), sides(anchors)
    proper = tf.reduce_all((size > 0) & (unit > 0), -1, keepdims=True)  # [..., 1]
    size, unit = tf.where(proper, size, 1.0), tf.where(proper, unit, 1.0)
    shift = (centres(boxes) - centres(anchors)) / unit
    return tf.where(proper, tf.concat([shift, tf.math.log(size / unit)], -1) * tf.constant(weights), 0.0)


def decode(deltas: tf.Tensor, anchors: tf.Tensor, weights: Sequence[float] = REGION_WEIGHTS) -> tf.Tensor:
    """Returns boxes [..., 4] from their codes `deltas` [..., 4]; the inverse of `encode`."""
    deltas = deltas / tf.constant(weights)
    unit = sides(anchors)
    half = 0.5 * unit * tf.exp(tf.minimum(deltas[..., 2:], math.log(MAX_RATIO)))
    centre = centres(anchors) + deltas[..., :2] * unit
    return tf.concat([centre - half, centre + half], -1)
