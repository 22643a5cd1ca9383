"""Virtual adversarial training with entropy minimization (Miyato et al. 2018, "VAT + EntMin").

The prediction for a picture is to stay the same where a small disturbance changes it most, and to be a certain one.
"""

from __future__ import annotations

import tensorflow as tf

from cpc_tf.data.views.views import RandomSizedCrop
from cpc_tf.efficient.propagation.base import Metrics, Unlabelled, divergence
from cpc_tf.efficient.propagation.config import PropagationConfig

VIEW = RandomSizedCrop()
METRICS = ("divergence", "entropy")


def loss(pictures: Unlabelled, config: PropagationConfig) -> tuple[tf.Tensor, Metrics]:
    """Returns the weighted sum of the mean divergence and the mean entropy, and these."""
    logits = pictures.logits(pictures.views)
    disturbed = pictures.views + adversarial(pictures, tf.stop_gradient(logits), config)
    parts = {
        "divergence": tf.reduce_mean(divergence(tf.stop_gradient(logits), pictures.logits(disturbed))),
        "entropy": tf.reduce_mean(-tf.reduce_sum(tf.nn.softmax(logits) * tf.nn.log_softmax(logits), 1)),
    }
    return config.vat_weight * parts["divergence"] + config.entropy_weight * parts["entropy"], parts


def adversarial(pictures: Unlabelled, target: tf.Tensor, config: PropagationConfig) -> tf.Tensor:
    """Returns the disturbances that change predictions most, float32 [n, S, S, 3], by one power iteration.

    Args:
      pictures: undisturbed.
      target: their logits, [n, classes].
      config: the sizes.
    """
    probe = config.vat_probe * _direction(pictures.noise())
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(probe)
        change = tf.reduce_sum(divergence(target, pictures.logits(pictures.views + probe)))
    return tf.stop_gradient(config.vat_radius * _direction(tape.gradient(change, probe)))


def _direction(x: tf.Tensor) -> tf.Tensor:
    """Scales each picture of [n, S, S, 3] to a root mean square of 1; zeros stay zeros."""
    x = tf.math.divide_no_nan(x, tf.reduce_max(tf.abs(x), [1, 2, 3], keepdims=True))  # squares of gradients underflow
    return tf.math.divide_no_nan(x, tf.sqrt(tf.reduce_mean(tf.square(x), [1, 2, 3], keepdims=True)))
