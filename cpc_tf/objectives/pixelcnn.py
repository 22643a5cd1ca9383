"""The context network g_phi: the `pixelCNN` listing of appendix A."""

from __future__ import annotations

import tensorflow as tf

from cpc_tf.encoders.conv import Conv
from cpc_tf.keras import keras


class ContextBlock(keras.layers.Layer):
    """One residual block: a position sees its own row (three columns more with each block) and the row above."""

    def __init__(self, width: int, output_width: int, dtype: str, name: str):
        super().__init__(dtype=dtype, name=name)
        self.conv1 = Conv(width, [1, 1], dtype=dtype, name="conv1")
        self.conv2 = Conv(width, [1, 3], padding="same", dtype=dtype, name="conv2")
        self.conv3 = Conv(width, [2, 1], padding="valid", dtype=dtype, name="conv3")
        self.conv4 = Conv(output_width, [1, 1], dtype=dtype, name="conv4")

    def call(self, latents: tf.Tensor) -> tf.Tensor:
        c = tf.nn.relu(self.conv1(latents))
        c = self.conv2(c)
        c = tf.pad(c, [[0, 0], [1, 0], [0, 0], [0, 0]])
        c = tf.nn.relu(self.conv3(c))
        return latents + self.conv4(c)


class PixelCNN(keras.Model):
    """Latents [B, R, C, D] -> context [B, R, C, D]: the context of row r sees latents of rows <= r only."""

    def __init__(self, blocks: int, width: int, output_width: int, dtype: str, name: str = "context"):
        super().__init__(name=name, dtype=dtype)
        self.blocks = [ContextBlock(width, output_width, dtype, f"block{i + 1}") for i in range(blocks)]

    def call(self, latents: tf.Tensor) -> tf.Tensor:
        for block in self.blocks:
            latents = block(latents)
        return tf.nn.relu(latents)
