"""Layer norm and ReLU as one operation of ours for CPUs (norm_relu.cc and its headers)."""

from __future__ import annotations

import tensorflow as tf

from cpc_tf.encoders.operations import operations


def normalize_native(x: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor, relu: bool, epsilon: float) -> tf.Tensor:
    """`cpc_tf.encoders.norm.normalize` by our operation; call it only where `operations.is_usable`."""

    @tf.custom_gradient
    def run(x: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor):
        y, mean, inverse = operations().cpc_norm_relu(x, scale, offset, relu=relu, epsilon=epsilon)

        def gradient(upstream: tf.Tensor):
            return tuple(operations().cpc_norm_relu_grad(x, scale, offset, mean, inverse, upstream, relu=relu))

        return y, gradient

    return run(x, scale, offset)
