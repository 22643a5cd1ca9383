"""Boxes: anchors, codes and overlaps; proposals and detections by greedy non-maximum suppression.

A box is [y1, x1, y2, x2], float32, in pixels from the corner of the image; pixel i lies between i
and i + 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from cpc_tf.detect.config import InferenceConfig

# Weights of the codes (y, x, height, width) of a box relative to an anchor or a region (Girshick
# 2015's code; C4).
ANCHOR_WEIGHTS = (1.0, 1.0, 1.0, 1.0)
REGION_WEIGHTS = (10.0, 10.0, 5.0, 5.0)
# Largest ratio of a box's side to its anchor's, so that exp() stays finite (C4).
MAX_RATIO = 1000 / 16
TILE = 512  # boxes that `non_max_suppression` compares at a time


def anchor_grid(
    rows: int, columns: int, stride: float, sizes: Sequence[float], ratios: Sequence[float]
) -> np.ndarray:
    """Returns boxes of several sizes and shapes around the centre of each cell of a feature map
    (Ren et al. 2015).

    Args:
      stride: side of a cell in pixels.
      sizes: square roots of the areas, in pixels.
      ratios: heights over widths.

    Returns:
      float32 [rows * columns * len(sizes) * len(ratios), 4], cell by cell; they may reach beyond
      the image.
    """
    size, root = np.meshgrid(sizes, np.sqrt(ratios), indexing="ij")
    half = 0.5 * np.stack([size * root, size / root], -1)
    half = half.reshape(-1, 2)  # [S*R, 2]: heights and widths
    centre_y = (np.arange(rows) + 0.5) * stride
    centre_x = (np.arange(columns) + 0.5) * stride
    y, x = np.meshgrid(centre_y, centre_x, indexing="ij")
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
    """Returns intersection over union [..., N, M] of boxes [..., N, 4] and [..., M, 4]; 0 if a box
    has no area.
    """
    one = one[..., :, None, :]
    other = other[..., None, :, :]
    top_left = tf.maximum(one[..., :2], other[..., :2])  # [..., N, M, 2]
    bottom_right = tf.minimum(one[..., 2:], other[..., 2:])
    shared = tf.reduce_prod(tf.nn.relu(bottom_right - top_left), -1)  # [..., N, M]
    return tf.math.divide_no_nan(shared, area(one) + area(other) - shared)


def clip(boxes: tf.Tensor, sizes: tf.Tensor) -> tf.Tensor:
    """Clips boxes [B, N, 4] to images of the heights and widths `sizes` [B, 2]."""
    sizes = tf.cast(sizes, boxes.dtype)
    return tf.clip_by_value(boxes, 0.0, tf.concat([sizes, sizes], -1)[:, None, :])


def encode(
    boxes: tf.Tensor, anchors: tf.Tensor, weights: Sequence[float] = REGION_WEIGHTS
) -> tf.Tensor:
    """Returns the codes [..., 4] of boxes [..., 4] relative to anchors [..., 4], multiplied by
    `weights`.

    A code is the shift of the centre in units of the anchor's sides, and the logarithms of the
    ratios of the sides. It is 0 if the box or the anchor has no area.
    """
    size = sides(boxes)
    unit = sides(anchors)
    proper = tf.reduce_all((size > 0) & (unit > 0), -1, keepdims=True)  # [..., 1]
    size = tf.where(proper, size, 1.0)
    unit = tf.where(proper, unit, 1.0)
    shift = (centres(boxes) - centres(anchors)) / unit
    return tf.where(
        proper, tf.concat([shift, tf.math.log(size / unit)], -1) * tf.constant(weights), 0.0
    )


def decode(
    deltas: tf.Tensor, anchors: tf.Tensor, weights: Sequence[float] = REGION_WEIGHTS
) -> tf.Tensor:
    """Returns boxes [..., 4] from their codes `deltas` [..., 4]; the inverse of `encode`."""
    deltas = deltas / tf.constant(weights)
    unit = sides(anchors)
    half = 0.5 * unit * tf.exp(tf.minimum(deltas[..., 2:], math.log(MAX_RATIO)))
    centre = centres(anchors) + deltas[..., :2] * unit
    return tf.concat([centre - half, centre + half], -1)


class Detections(NamedTuple):
    """N detections of each image, best first; slots beyond `count` hold boxes and scores of 0 and
    labels of -1.
    """

    boxes: tf.Tensor  # [B, N, 4], float32, in pixels
    scores: tf.Tensor  # [B, N], float32, probabilities
    labels: tf.Tensor  # [B, N], int32
    count: tf.Tensor  # [B], int32


def non_max_suppression(
    boxes: tf.Tensor, scores: tf.Tensor, candidates: int, count: int, iou_threshold: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """Selects boxes, best first, unless they overlap a selected one by `iou_threshold` or more; XLA
    can compile it.

    Args:
      boxes: [B, N, 4], no coordinate negative. Boxes without area are never selected.
      scores: float32 [B, N]; -inf for boxes not to be selected.
      candidates: how many boxes with the best scores are considered.
      count: largest number of boxes to select.

    Returns:
      Indices int32 [B, count], and which of them are valid, bool [B, count]: these come first. No
      gradient.
    """
    candidates = min(candidates, scores.shape[1])
    scores, order = tf.math.top_k(tf.stop_gradient(scores), candidates)
    boxes = tf.gather(tf.stop_gradient(boxes), order, batch_dims=1)  # [B, candidates, 4]
    proper = (scores > float("-inf")) & (area(boxes) > 0)
    boxes = tf.where(proper[..., None], boxes, 0.0)  # zeros are padding to the op
    taken, valid_count = tf.image.non_max_suppression_padded(
        boxes,
        scores,
        min(count, candidates),
        iou_threshold,
        pad_to_max_output_size=True,
        sorted_input=True,
        canonicalized_coordinates=True,
        tile_size=min(TILE, candidates),
    )
    taken = tf.pad(taken, [[0, 0], [0, count - min(count, candidates)]])  # [B, count]
    valid = tf.range(count)[None] < valid_count[:, None]
    return tf.gather(order, tf.where(valid, taken, 0), batch_dims=1), valid


def inside(anchors: tf.Tensor, sizes: tf.Tensor) -> tf.Tensor:
    """Returns whether the centres of anchors [N, 4] lie in the images of `sizes` [B, 2], not in the
    padding: [B, N].
    """
    return tf.reduce_all(centres(anchors)[None] < tf.cast(sizes, tf.float32)[:, None], -1)


def propose(
    objectness: tf.Tensor,
    deltas: tf.Tensor,
    anchors: tf.Tensor,
    sizes: tf.Tensor,
    candidates: int,
    count: int,
    iou_threshold: float,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Selects the boxes that may hold an object, from the outputs of the region proposal network.

    Args:
      objectness, deltas: [B, N] and [B, N, 4], of anchors [N, 4].
      sizes: heights and widths of the images, [B, 2].
      candidates, count, iou_threshold: see `non_max_suppression`.

    Returns:
      Boxes [B, count, 4], within their images, best first, 0 beyond the last; and which are valid,
      bool [B, count].
    """
    boxes = clip(decode(tf.stop_gradient(deltas), anchors, ANCHOR_WEIGHTS), sizes)
    scores = tf.where(inside(anchors, sizes), objectness, float("-inf"))
    taken, valid = non_max_suppression(boxes, scores, candidates, count, iou_threshold)
    return tf.where(valid[..., None], tf.gather(boxes, taken, batch_dims=1), 0.0), valid


def detect(
    logits: tf.Tensor,
    deltas: tf.Tensor,
    proposals: tf.Tensor,
    valid: tf.Tensor,
    sizes: tf.Tensor,
    config: InferenceConfig,
    least_score: tf.Tensor | None = None,
) -> Detections:
    """Suppresses within each class, then selects the best of all classes.

    Args:
      logits, deltas: outputs of the region head, [B, K, C + 1] and [B, K, C, 4].
      proposals, valid, sizes: as of `propose`.
      least_score: overrides `config.detection_score`.
    """
    count = proposals.shape[1]
    classes = deltas.shape[2]
    least_score = config.detection_score if least_score is None else least_score
    scores = tf.nn.softmax(logits)[..., :classes]  # [B, K, C]
    scores = tf.where(valid[..., None] & (scores > least_score), scores, float("-inf"))
    boxes = decode(deltas, proposals[:, :, None], REGION_WEIGHTS)
    boxes = clip(tf.reshape(boxes, [-1, count * classes, 4]), sizes)  # [B, K*C, 4]
    # Each class of each image on its own: [B*C, K, 4] and [B*C, K].
    boxes = tf.reshape(
        tf.transpose(tf.reshape(boxes, [-1, count, classes, 4]), [0, 2, 1, 3]), [-1, count, 4]
    )
    scores = tf.reshape(tf.transpose(scores, [0, 2, 1]), [-1, count])
    most = min(config.detections, count)  # of each class
    taken, valid = non_max_suppression(boxes, scores, count, most, config.detection_nms_iou)
    boxes = tf.gather(boxes, taken, batch_dims=1)
    boxes = tf.reshape(boxes, [-1, classes * most, 4])  # [B, C*most, 4]
    scores = tf.where(valid, tf.gather(scores, taken, batch_dims=1), 0.0)
    scores = tf.reshape(scores, [-1, classes * most])  # [B, C*most]; 0: not a detection
    missing = max(0, config.detections - classes * most)
    boxes = tf.pad(boxes, [[0, 0], [0, missing], [0, 0]])
    scores = tf.pad(scores, [[0, 0], [0, missing]])
    scores, order = tf.math.top_k(scores, config.detections)
    valid = scores > 0
    return Detections(
        tf.where(valid[..., None], tf.gather(boxes, order, batch_dims=1), 0.0),
        scores,
        tf.where(valid, order // most, -1),
        tf.reduce_sum(tf.cast(valid, tf.int32), 1),
    )
