"""Targets of the detector: matches candidates with objects, samples them, and computes the four
losses.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from cpc_tf.detect.boxes import ANCHOR_WEIGHTS, REGION_WEIGHTS, area, encode, iou
from cpc_tf.detect.config import HeadConfig, RpnConfig

POSITIVE = 1
NEGATIVE = 0
IGNORED = -1


class PaddedObjects(NamedTuple):
    """The objects of a batch of images, padded to M places an image (at least one)."""

    boxes: tf.Tensor  # float32 [B, M, 4], within the image; 0 for padding
    labels: tf.Tensor  # int32 [B, M], the class; -1 for padding


class Samples(NamedTuple):
    """Candidates drawn for a loss, and their targets."""

    indices: tf.Tensor  # int32 [B, S], among the candidates
    valid: tf.Tensor  # bool [B, S], false for padding
    positive: tf.Tensor  # bool [B, S], matched with an object
    labels: tf.Tensor  # int32 [B, S], class of that object; 0 if there is none
    # float32 [B, S, 4], code of that object's box relative to the candidate; 0 if there is none
    deltas: tf.Tensor


class Draws(NamedTuple):
    """Random numbers for some images of a batch, the same for any number of devices."""

    seed: tf.Tensor  # int32 [2]
    batch_size: int  # of the whole batch
    first: tf.Tensor | int = 0  # the index of the first of these images in it

    def split(self) -> tuple[Draws, Draws]:
        """Returns two that are independent."""
        one, other = tf.unstack(tf.random.experimental.stateless_split(self._seed(), 2))
        return self._replace(seed=one), self._replace(seed=other)

    def integers(self, images: int, count: int) -> tf.Tensor:
        """Returns `count` integers from 0 on for each of these images, int32 [images, count]."""
        # Integers are drawn, since XLA makes other fractions than TensorFlow from the same random
        # bits.
        drawn = tf.random.stateless_uniform(
            [self.batch_size, count], self._seed(), None, None, tf.int32
        )
        return tf.bitwise.bitwise_and(
            tf.slice(drawn, [self.first, 0], [images, count]), tf.int32.max
        )

    def _seed(self) -> tf.Tensor:
        # XLA treats negative seeds differently.
        return tf.bitwise.bitwise_and(self.seed, tf.int32.max)


def make_objects(boxes: tf.Tensor, labels: tf.Tensor) -> PaddedObjects:
    """Returns the objects of boxes [B, M, 4] and labels [B, M] (-1: padding); those without area
    become padding.
    """
    real = (labels >= 0) & (area(boxes) > 0)
    return PaddedObjects(
        tf.where(real[..., None], boxes, 0.0), tf.where(real, tf.cast(labels, tf.int32), -1)
    )


def match(
    overlaps: tf.Tensor,
    objects: PaddedObjects,
    positive: float,
    negative: float,
    keep_best: bool = False,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Matches each candidate with the object that it overlaps most, and labels it.

    Args:
      overlaps: [B, M, N] of M objects with N candidates.
      positive: least overlap of a positive candidate.
      negative: candidates below this overlap are negative; between the two they are ignored.
      keep_best: the candidates that overlap an object most are positive, however little that is
        (Ren et al. 2015, Sec. 3.1.2), but keep the match above. An object without any overlap makes
        no candidate positive.

    Returns:
      Indices of objects, int32 [B, N] (0 if there is none), and labels, int32 [B, N]: POSITIVE,
      NEGATIVE or IGNORED.
    """
    quality = tf.where(objects.labels[..., None] >= 0, overlaps, -1.0)  # [B, M, N]
    matches = tf.argmax(quality, 1, tf.int32)  # [B, N]
    best = tf.reduce_max(quality, 1)
    labels = tf.where(best >= positive, POSITIVE, tf.where(best < negative, NEGATIVE, IGNORED))
    if keep_best:
        best_of_object = tf.reduce_max(quality, 2, keepdims=True)  # [B, M, 1]
        # Not a test for equality: a compiler may compute the overlaps twice and round them
        # differently.
        is_best = (best_of_object > 0) & (quality >= best_of_object * (1 - 1e-6))
        labels = tf.where(tf.reduce_any(is_best, 1), POSITIVE, labels)
    return matches, labels


def sample(
    labels: tf.Tensor, count: int, positive_fraction: float, draws: Draws
) -> tuple[tf.Tensor, tf.Tensor]:
    """Draws `count` candidates of each image at random, without replacement.

    Args:
      labels: [B, N], POSITIVE, NEGATIVE or IGNORED.
      count: how many; all N if N is less.
      positive_fraction: largest part of `count` that is positive; the rest is negative.
      draws: random numbers for these images.

    Returns:
      Indices, int32 [B, count], and their labels [B, count]: the positive ones, then the negative
      ones, then IGNORED if an image has too few of both.
    """
    most_positive = min(int(count * positive_fraction), labels.shape[1])
    count = min(count, labels.shape[1])
    noise = draws.integers(*labels.shape)
    positive = tf.math.top_k(tf.where(labels == POSITIVE, noise, -1), most_positive)
    negative = tf.math.top_k(tf.where(labels == NEGATIVE, noise, -1), count)
    drawn = tf.reduce_sum(tf.cast(positive.values >= 0, tf.int32), 1, keepdims=True)  # [B, 1]
    slots = tf.range(count)[None]  # [1, count]
    # The positive ones, then the negative ones.
    source = tf.where(slots < drawn, slots, most_positive + slots - drawn)  # [B, count]
    indices = tf.gather(tf.concat([positive.indices, negative.indices], 1), source, batch_dims=1)
    scores = tf.gather(tf.concat([positive.values, negative.values], 1), source, batch_dims=1)
    return indices, tf.where(scores < 0, IGNORED, tf.where(slots < drawn, POSITIVE, NEGATIVE))


def anchor_samples(
    anchors: tf.Tensor, inside: tf.Tensor, objects: PaddedObjects, config: RpnConfig, draws: Draws
) -> Samples:
    """Samples anchors [N, 4] that are `inside` [B, N] the image, for the RPN's losses."""
    overlaps = tf.where(inside[:, None], iou(objects.boxes, anchors[None]), 0.0)  # [B, M, N]
    matches, labels = match(
        overlaps, objects, config.rpn_positive_iou, config.rpn_negative_iou, keep_best=True
    )
    labels = tf.where(inside, labels, IGNORED)
    indices, labels = sample(labels, config.rpn_samples, config.rpn_positive_fraction, draws)
    return _samples(tf.gather(anchors, indices), indices, labels, matches, objects, ANCHOR_WEIGHTS)


def region_samples(
    proposals: tf.Tensor, valid: tf.Tensor, objects: PaddedObjects, config: HeadConfig, draws: Draws
) -> tuple[tf.Tensor, Samples]:
    """Samples regions for the head's losses, from the `valid` [B, K] of the proposals [B, K, 4].

    The boxes of the objects are added, so that some regions are positive from the first step on.

    Returns:
      Boxes [B, S, 4], 0 for padding, and their targets.
    """
    candidates = tf.concat([proposals, objects.boxes], 1)  # [B, K + M, 4]
    valid = tf.concat([valid, objects.labels >= 0], 1)
    overlaps = iou(objects.boxes, candidates)  # [B, M, K + M]
    matches, labels = match(
        overlaps, objects, config.region_positive_iou, config.region_positive_iou
    )
    labels = tf.where(valid, labels, IGNORED)
    indices, labels = sample(labels, config.region_samples, config.region_positive_fraction, draws)
    boxes = tf.gather(candidates, indices, batch_dims=1)  # [B, S, 4]
    samples = _samples(boxes, indices, labels, matches, objects, REGION_WEIGHTS)
    return tf.where(samples.valid[..., None], boxes, 0.0), samples


def _samples(boxes, indices, labels, matches, objects, weights):
    """Returns the targets of sampled boxes [B, S, 4], from their indices and labels [B, S] and all
    matches [B, N].
    """
    positive = labels == POSITIVE
    matched = tf.gather(matches, indices, batch_dims=1)  # [B, S]
    classes = tf.where(positive, tf.gather(objects.labels, matched, batch_dims=1), 0)
    deltas = encode(tf.gather(objects.boxes, matched, batch_dims=1), boxes, weights)
    return Samples(
        indices, labels != IGNORED, positive, classes, tf.where(positive[..., None], deltas, 0.0)
    )


# The losses of Ren et al. 2015, eq. 1, float32 scalars, with L1 distances between codes as in C4.
# All are divided by the number of samples of an image, although only positive ones have a loss of
# boxes, and averaged over the images.


def rpn_losses(objectness: tf.Tensor, deltas: tf.Tensor, samples: Samples) -> dict[str, tf.Tensor]:
    """Returns 'rpn_class' and 'rpn_box', from logits [B, N] and codes [B, N, 4] of all anchors."""
    logits = tf.gather(objectness, samples.indices, batch_dims=1)  # [B, S]
    cross_entropy = tf.nn.sigmoid_cross_entropy_with_logits(
        tf.cast(samples.positive, tf.float32), logits
    )
    deltas = tf.gather(deltas, samples.indices, batch_dims=1)  # [B, S, 4]
    return {"rpn_class": _mean(cross_entropy, samples), "rpn_box": _box_loss(deltas, samples)}


def region_losses(logits: tf.Tensor, deltas: tf.Tensor, samples: Samples) -> dict[str, tf.Tensor]:
    """Returns 'region_class' and 'region_box', from logits [B, S, C + 1] and codes [B, S, C, 4] of
    the samples.
    """
    background = logits.shape[-1] - 1
    labels = tf.where(samples.positive, samples.labels, background)
    cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)  # [B, S]
    deltas = tf.gather(deltas, samples.labels, batch_dims=2)  # [B, S, 4]
    return {"region_class": _mean(cross_entropy, samples), "region_box": _box_loss(deltas, samples)}


def _box_loss(deltas: tf.Tensor, samples: Samples) -> tf.Tensor:
    distance = tf.reduce_sum(tf.abs(deltas - samples.deltas), -1)  # [B, S]
    return _mean(tf.where(samples.positive, distance, 0.0), samples)


def _mean(values: tf.Tensor, samples: Samples) -> tf.Tensor:
    """Returns the mean over the images of their means over valid samples of values [B, S]; 0 of an
    image without.
    """
    count = tf.reduce_sum(tf.cast(samples.valid, tf.float32), 1)  # [B]
    return tf.reduce_mean(
        tf.reduce_sum(tf.where(samples.valid, values, 0.0), 1) / tf.maximum(count, 1.0)
    )
