"""Kernels that grew under normalization, brought back to the norm that they were drawn with.

A norm takes the scale of its input away (batch norm where it normalizes with the batch): the loss does not depend on
the norm of the kernel before it, gradients are
perpendicular to that kernel, and each step of training makes it longer. A step of SGD then turns it less, by the
square of the growth, a step of Adam by the growth (van Laarhoven 2017, arXiv:1706.05350). Weight decay makes kernels
shorter and has them turned more; those stay, since longer ones were no better (docs/notebook).
"""

from __future__ import annotations

import tensorflow as tf

from cpc_tf.encoders.network import Network
from cpc_tf.encoders.norm import Identity
from cpc_tf.keras import keras


def restore_kernel_norms(network: Network) -> None:
    """Scales longer kernels to the norm that He's initialization draws them with; the network's outputs stay the same.

    Those of `Network.normalized` alone. The norms' epsilon is all that shows. The statistics that batch norm has
    averaged are scaled along. Shorter kernels stay as they are.
    """
    for layer, norm in network.normalized():
        if isinstance(norm, Identity):
            continue
        kernel = layer.kernel
        drawn = (2.0 * layer.filters) ** 0.5  # variance 2 / fan_in of fan_in * filters values
        factor = drawn / tf.maximum(tf.norm(kernel), drawn)
        kernel.assign(kernel * factor)
        if isinstance(norm, keras.layers.BatchNormalization):
            norm.moving_mean.assign(norm.moving_mean * factor)
            norm.moving_variance.assign(norm.moving_variance * tf.square(factor))
