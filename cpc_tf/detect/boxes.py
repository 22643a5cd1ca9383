"""Boxes: [y1, x1, y2, x2], float32, in pixels from the corner of the image; pixel i lies between i and i + 1."""

from __future__ import annotations

import math
from collections.abc import Sequence

import tensorflow as tf

# Of the differences (y, x, height, width) between a box and its anchor or region (Girshick 2015's code; C4).
ANCHOR_WEIGHTS = (1.0, 1.0, 1.0, 1.0)
REGION_WEIGHTS = (10.0, 10.0, 5.0, 5.0)
# Of a box over its anchor; more is taken for this much, so that exp() stays finite (C4).
LARGEST_RATIO = 1000 / 16


def sides(boxes: tf.Tensor) -> tf.Tensor:
    """Heights and widths [..., 2] of boxes [..., 4]; 0 of those turned inside out."""
    return tf.nn.relu(boxes[..., 2:] - boxes[..., :2])


def centres(boxes: tf.Tensor) -> tf.Tensor:
    """(y, x) [..., 2] of the centres of boxes [..., 4]."""
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
    """Boxes [B, N, 4] cut at the borders of their images, whose heights and widths are `sizes` [B, 2]."""
    sizes = tf.cast(sizes, boxes.dtype)
    return tf.clip_by_value(boxes, 0.0, tf.concat([sizes, sizes], -1)[:, None, :])


def encode(boxes: tf.Tensor, anchors: tf.Tensor, weights: Sequence[float] = REGION_WEIGHTS) -> tf.Tensor:
    """How boxes [..., 4] differ from anchors [..., 4]: shifts in the anchor's sides, logarithms of the sides' ratios.

    The four are multiplied by `weights`, and 0 where the box or the anchor has no area.
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
