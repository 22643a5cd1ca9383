"""The four losses of Faster R-CNN (Ren et al. 2015, eq. 1), float32 scalars.

Each is a sum over the samples of the batch, divided by their number: the boxes' losses as well, of which only positive
samples have any. So an image with few objects moves boxes little (C4). The distance of boxes is L1, as in C4.
"""

from __future__ import annotations

import tensorflow as tf

from cpc_tf.detect.targets import Samples


def rpn_losses(objectness: tf.Tensor, deltas: tf.Tensor, samples: Samples) -> dict[str, tf.Tensor]:
    """'rpn_class' and 'rpn_box' of all logits [B, N] and differences [B, N, 4]."""
    logits = tf.gather(objectness, samples.indices, batch_dims=1)  # [B, S]
    wanted = tf.cast(samples.positive, tf.float32)
    cross_entropy = tf.nn.sigmoid_cross_entropy_with_logits(wanted, logits)
    deltas = tf.gather(deltas, samples.indices, batch_dims=1)  # [B, S, 4]
    return {"rpn_class": _mean(cross_entropy, samples), "rpn_box": _box_loss(deltas, samples)}


def region_losses(logits: tf.Tensor, deltas: tf.Tensor, samples: Samples) -> dict[str, tf.Tensor]:
    """'region_class' and 'region_box' of the samples' logits [B, S, C + 1] and differences [B, S, C, 4]."""
    background = logits.shape[-1] - 1
    labels = tf.where(samples.positive, samples.labels, background)
    cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)  # [B, S]
    deltas = tf.gather(deltas, samples.labels, batch_dims=2)  # [B, S, 4]
    return {"region_class": _mean(cross_entropy, samples), "region_box": _box_loss(deltas, samples)}


def _box_loss(deltas: tf.Tensor, samples: Samples) -> tf.Tensor:
    distance = tf.reduce_sum(tf.abs(deltas - samples.deltas), -1)  # [B, S]
    return _mean(tf.where(samples.positive, distance, 0.0), samples)


def _mean(values: tf.Tensor, samples: Samples) -> tf.Tensor:
    """Sum of the valid samples' values [B, S] over their number; 0 if there are none."""
    count = tf.reduce_sum(tf.cast(samples.valid, tf.float32))
    return tf.reduce_sum(tf.where(samples.valid, values, 0.0)) / tf.maximum(count, 1.0)
