"""The head with batch norm that BYOL and VICReg have between the encoder and their loss."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from cpc_tf.core.keras import keras
from cpc_tf.objectives.base import standardize


class Head(keras.layers.Layer):
    """An MLP with batch norm and ReLU after its hidden layers: [N, D] -> [N, widths[-1]], float32.

    The statistics are those of all replicas. Since a head is not used after training, there are no
    running ones.
    """

    def __init__(self, widths: Sequence[int], dtype: str, name: str):
        super().__init__(name=name, dtype=dtype)
        self.hidden = [
            keras.layers.Dense(width, dtype=dtype, use_bias=False) for width in widths[:-1]
        ]
        self.scales = [Scale() for _ in self.hidden]
        self.last = keras.layers.Dense(widths[-1], dtype="float32")

    def call(self, x: tf.Tensor) -> tf.Tensor:
        for dense, scale in zip(self.hidden, self.scales):
            x = tf.nn.relu(scale(standardize(tf.cast(dense(x), tf.float32))))
        return self.last(x)


class Scale(keras.layers.Layer):
    """Scale and offset of each feature."""

    def __init__(self):
        super().__init__(dtype="float32")

    def build(self, input_shape):
        self.gamma = self.add_weight(name="gamma", shape=[input_shape[-1]], initializer="ones")
        self.beta = self.add_weight(name="beta", shape=[input_shape[-1]], initializer="zeros")
        super().build(input_shape)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return x * self.gamma + self.beta
