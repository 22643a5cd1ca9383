"""Boxes: [y1, x1, y2, x2], float32, in pixels from the corner of the image; pixel i lies between i and i + 1."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

# Weights of the differences (y, x, height, width) between a box and its anchor or region (Girshick 2015's code; C4).
ANCHOR_WEIGHTS = (1.0, 1.0, 1.0, 1.0)
REGION_WEIGHTS = (10.0, 10.0, 5.0, 5.0)
# Largest ratio of a box's side to its anchor's, so that exp() stays finite (C4).
LARGEST_RATIO = 1000 / 16


def anchor_grid(rows: int, columns: int, stride: float, sizes: Sequence[float], ratios: Sequence[float]) -> np.ndarray:
    """The anchors of a feature map: boxes of several sizes and shapes around the centre of each cell (Ren et al. 2015).

    Args:
      rows, columns: of the map.
      stride: side of a cell in pixels.
      sizes: square roots of the areas, in pixels.
      ratios: heights over widths.

    Returns:
      [rows * columns * len(sizes) * len(ratios), 4], float32, cell by cell, and in a cell size by size. Anchors may
      reach beyond the image.
    """
    size, root = np.meshgrid(sizes, np.sqrt(ratios), indexing="ij")
    half = 0.5 * np.stack([size * root, size / root], -1).reshape(-1, 2)  # [S*R, 2]: heights and widths
    y, x = np.meshgrid((np.arange(rows) + 0.5) * stride, (np.arange(columns) + 0.5) * stride, indexing="ij")
    centre = np.stack([y, x], -1).reshape(-1, 1, 2)  # [rows*columns, 1, 2]
    return np.concatenate([centre - half, centre + half], -1).reshape(-1, 4).astype(np.float32)


def sides(boxes: tf.Tensor) -> tf.Tensor:
    """Heights and widths [..., 2] of boxes [..., 4]; 0 for boxes turned inside out."""
    return tf.nn.relu(boxes[..., 2:] - boxes[..., :2])


def centres(boxes: tf.Tensor) -> tf.Tensor:
    """Centres (y, x) [..., 2] of boxes [..., 4]."""
    return 0.5 * (boxes[..., :2] + boxes[..., 2:])


def area(boxes: tf.Tensor) -> tf.Tensor:
    """Areas [...] of boxes [..., 4]."""
    return tf.reduce_prod(sides(boxes), -1)


def iou(one: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
    """Intersection over union [..., N, M] of boxes [..., N, 4] and [..., M, 4]; 0 where a box has no area."""
    one, other = one[..., :, None, :], other[..., None, :, :]
    top_left = tf.maximum(one[..., :2], other[..., :2])  # [..., N, M, 2]
    bottom_right = tf.minimum(one[..., 2:], other[..., 2:])
    shared = tf.reduce_prod(tf.nn.relu(bottom_right - top_left), -1)  # [..., N, M]
    return tf.math.divide_no_nan(shared, area(one) + area(other) - shared)


def clip(boxes: tf.Tensor, sizes: tf.Tensor) -> tf.Tensor:
    """Clips boxes [B, N, 4] to their images, whose heights and widths are `sizes` [B, 2]."""
    sizes = tf.cast(sizes, boxes.dtype)
    return tf.clip_by_value(boxes, 0.0, tf.concat([sizes, sizes], -1)[:, None, :])


def encode(boxes: tf.Tensor, anchors: tf.Tensor, weights: Sequence[float] = REGION_WEIGHTS) -> tf.Tensor:
    """Differences [..., 4] between boxes [..., 4] and anchors [..., 4], multiplied by `weights`.

    Shifts are in units of the anchor's sides; sizes are logarithms of the ratios of the sides. Differences are 0 where
    the box or the anchor has no area.
    """
    size, unit = sides(boxes), sides(anchors)
    proper = tf.reduce_all((size > 0) & (unit > 0), -1, keepdims=True)  # [..., 1]
    size, unit = tf.where(proper, size, 1.0), tf.where(proper, unit, 1.0)
    shift = (centres(boxes) - centres(anchors)) / unit
    return tf.where(proper, tf.concat([shift, tf.math.log(size / unit)], -1) * tf.constant(weights), 0.0)


def decode(deltas: tf.Tensor, anchors: tf.Tensor, weights: Sequence[float] = REGION_WEIGHTS) -> tf.Tensor:
    """Boxes [..., 4] that differ from anchors [..., 4] by `deltas`; the inverse of `encode`."""
    deltas = deltas / tf.constant(weights)
    unit = sides(anchors)
    half = 0.5 * unit * tf.exp(tf.minimum(deltas[..., 2:], math.log(LARGEST_RATIO)))
    centre = centres(anchors) + deltas[..., :2] * unit
    return tf.concat([centre - half, centre + half], -1)
