"""Unsupervised data augmentation: an augmented picture is to have the prediction of the plain one (Xie et al. 2019).

Their training signal annealing is left out. The augmentation is that of --augment in place of RandAugment.
"""

from __future__ import annotations

import tensorflow as tf

from cpc_tf.data.views.views import PlainAndAugmented
from cpc_tf.efficient.propagation.base import Metrics, Unlabelled, divergence
from cpc_tf.efficient.propagation.config import PropagationConfig

VIEW = PlainAndAugmented()
METRICS = ("confident",)


def loss(pictures: Unlabelled, config: PropagationConfig) -> tuple[tf.Tensor, Metrics]:
    """Returns the weighted mean divergence, 0 where the prediction is not confident, and the share that is."""
    plain, augmented = pictures.views[:, 0], pictures.views[:, 1]
    target = tf.stop_gradient(pictures.logits(plain))
    confident = tf.cast(tf.reduce_max(tf.nn.softmax(target), 1) > config.uda_confidence, tf.float32)
    change = divergence(target / config.uda_temperature, pictures.logits(augmented))
    return config.uda_weight * tf.reduce_mean(confident * change), {"confident": tf.reduce_mean(confident)}
