"""What the two networks are to say about their samples, given the objects of the images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from cpc_tf.detect import matching
from cpc_tf.detect.boxes import ANCHOR_WEIGHTS, REGION_WEIGHTS, area, encode, iou
from cpc_tf.detect.config import HeadConfig, RpnConfig


class Objects(NamedTuple):
    """The objects of a batch of images, M places each (at least one), those without an object filled up."""

    boxes: tf.Tensor  # [B, M, 4], within the image
    labels: tf.Tensor  # [B, M], int32: the class, -1 for padding
    learned: tf.Tensor  # [B, M], bool: an object to learn from
    ignored: tf.Tensor  # [B, M], bool: an object that is neither learned nor background


class Samples(NamedTuple):
    """Candidates drawn for a loss, and what they should be."""

    indices: tf.Tensor  # [B, S], int32: among the candidates
    valid: tf.Tensor  # [B, S], bool: all but padding
    positive: tf.Tensor  # [B, S], bool: stands for an object
    labels: tf.Tensor  # [B, S], int32: class of that object, 0 if there is none
    deltas: tf.Tensor  # [B, S, 4], float32: how that object's box differs from the candidate; 0 if there is none


def make_objects(
    boxes: tf.Tensor, labels: tf.Tensor, difficult: tf.Tensor | None = None, learn_difficult: bool = True
) -> Objects:
    """Objects [B, M, 4], [B, M] (-1: padding), [B, M], of which those without area are left out."""
    real = (labels >= 0) & (area(boxes) > 0)
    ignored = tf.zeros_like(real) if difficult is None or learn_difficult else real & tf.cast(difficult, tf.bool)
    return Objects(tf.where(real[..., None], boxes, 0.0), tf.cast(labels, tf.int32), real & ~ignored, ignored)


def anchor_samples(
    anchors: tf.Tensor, inside: tf.Tensor, objects: Objects, config: RpnConfig, seed: tf.Tensor
) -> Samples:
    """Anchors [N, 4] to learn objectness and boxes from; those not `inside` [B, N] the image are left out."""
    overlaps = iou(objects.boxes, anchors[None])  # [B, M, N]
    overlaps = tf.where(inside[:, None], overlaps, 0.0)
    matches, labels = matching.match(
        overlaps, objects.learned, objects.ignored, config.rpn_positive_iou, config.rpn_negative_iou, keep_best=True
    )
    labels = tf.where(inside, labels, matching.IGNORED)
    count = config.rpn_samples
    indices, labels = matching.sample(labels, count, int(count * config.rpn_positive_fraction), seed)
    return _samples(tf.gather(anchors, indices), indices, labels, matches, objects, ANCHOR_WEIGHTS)


def region_samples(
    proposals: tf.Tensor, valid: tf.Tensor, objects: Objects, config: HeadConfig, seed: tf.Tensor
) -> tuple[tf.Tensor, Samples]:
    """Regions to learn classes and boxes from.

    Args:
      proposals, valid: [B, K, 4] and [B, K]. The objects' own boxes are added, so that there are positive ones from the
        first step on.

    Returns:
      Their boxes [B, S, 4], 0 for padding, and what they should be.
    """
    candidates = tf.concat([proposals, objects.boxes], 1)  # [B, K + M, 4]
    valid = tf.concat([valid, objects.learned], 1)
    overlaps = iou(objects.boxes, candidates)  # [B, M, K + M]
    threshold = config.region_positive_iou
    matches, labels = matching.match(overlaps, objects.learned, objects.ignored, threshold, threshold)
    labels = tf.where(valid, labels, matching.IGNORED)
    count = config.region_samples
    indices, labels = matching.sample(labels, count, int(count * config.region_positive_fraction), seed)
    boxes = tf.gather(candidates, indices, batch_dims=1)  # [B, S, 4]
    samples = _samples(boxes, indices, labels, matches, objects, REGION_WEIGHTS)
    return tf.where(samples.valid[..., None], boxes, 0.0), samples


def _samples(
    candidates: tf.Tensor,
    indices: tf.Tensor,
    labels: tf.Tensor,
    matches: tf.Tensor,
    objects: Objects,
    weights: Sequence[float],
) -> Samples:
    """Samples from the boxes drawn [B, S, 4], their indices and labels, and the matches [B, N] of all candidates."""
    positive = labels == matching.POSITIVE
    matched = tf.gather(matches, indices, batch_dims=1)  # [B, S]
    classes = tf.gather(objects.labels, matched, batch_dims=1)
    deltas = encode(tf.gather(objects.boxes, matched, batch_dims=1), candidates, weights)
    return Samples(
        indices,
        labels != matching.IGNORED,
        positive,
        tf.where(positive, classes, 0),
        tf.where(positive[..., None], deltas, 0.0),
    )
