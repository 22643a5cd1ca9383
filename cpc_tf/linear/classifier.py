"""The linear classifier of appendix B."""

from __future__ import annotations

import tensorflow as tf

from cpc_tf.keras import keras


class LinearClassifier(keras.Model):
    """Appendix B: batch norm without scale, a 1x1 convolution to the logits, their mean over the grid.

    Args:
      num_classes: how many.
    """

    def __init__(self, num_classes: int):
        super().__init__(name="linear")
        self.norm = keras.layers.BatchNormalization(scale=False, momentum=0.9, name="norm")
        self.logits = keras.layers.Conv2D(num_classes, [1, 1], name="logits")

    def call(self, latents: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Latents [B, R, C, D] -> logits [B, num_classes], float32."""
        return tf.reduce_mean(self.logits(self.norm(latents, training=training)), [1, 2])
