"""What a method of label propagation is given: pictures without labels and the classifier as a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

Metrics = dict[str, tf.Tensor]  # float32 scalars


class Unlabelled(NamedTuple):
    """The pictures without labels of a step, or some of them."""

    views: tf.Tensor  # float32 in [0, 1]: pictures [n, S, S, 3], or two views of each [n, 2, S, S, 3]
    # Pictures float32 [n, S, S, 3] -> logits float32 [n, classes] in training, with the same dropout at each call.
    logits: Callable[[tf.Tensor], tf.Tensor]
    noise: Callable[[], tf.Tensor]  # normal numbers, float32 [n, S, S, 3], the same at each call
    progress: tf.Tensor  # float32 scalar, 0 to 1: which part of the training is done


def divergence(target: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """The Kullback-Leibler divergence of predictions from targets, both logits float32 [n, classes]: float32 [n]."""
    odds, wanted = tf.nn.log_softmax(logits), tf.nn.log_softmax(target)
    return tf.reduce_sum(tf.exp(wanted) * (wanted - odds), 1)
