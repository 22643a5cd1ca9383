"""Pseudo-labels: the class that the classifier predicts now counts as the label (Lee 2013).

Zhai et al. 2019, whose figures the paper quotes, train twice instead: on the labels, then on predictions for all.
"""

from __future__ import annotations

import tensorflow as tf

from cpc_tf.data.views.views import RandomSizedCrop
from cpc_tf.efficient.propagation.base import Metrics, Unlabelled
from cpc_tf.efficient.propagation.config import PropagationConfig

VIEW = RandomSizedCrop()
METRICS = ("pseudo_weight",)


def loss(pictures: Unlabelled, config: PropagationConfig) -> tuple[tf.Tensor, Metrics]:
    """Returns the weighted cross-entropy of the predicted classes, equation 15 there, and its weight, equation 16."""
    logits = pictures.logits(pictures.views)
    labels = tf.argmax(logits, 1)  # has no gradient
    share = (pictures.progress - config.pseudo_begin) / (config.pseudo_end - config.pseudo_begin)
    weight = config.pseudo_weight * tf.clip_by_value(share, 0.0, 1.0)
    mean = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
    return weight * mean, {"pseudo_weight": weight}
