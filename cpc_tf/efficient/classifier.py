"""The residual classifier of appendix C."""

from __future__ import annotations

import tensorflow as tf

from cpc_tf.efficient.config import ClassifierConfig
from cpc_tf.encoders.networks.resnet import Bottleneck
from cpc_tf.encoders.norm import make_norm
from cpc_tf.keras import keras


class ResNetClassifier(keras.Model):
    """Appendix C: residual blocks on feature maps, mean-pool, dropout, a linear layer.

    The paper's has 11 blocks of 4096 maps with 1024 inside ("ResNet-33"), 196 M parameters in them. Without blocks the
    maps are only normalized: a linear classifier, or, with norm 'none', the end of a supervised ResNet.

    Args:
      num_classes: how many.
      config: blocks, widths and dropout.
      norm: 'batch' or 'none'.
      precision: of the blocks, 'float32' or 'bfloat16'; statistics, logits and parameters are float32.
    """

    def __init__(self, num_classes: int, config: ClassifierConfig, norm: str = "batch", precision: str = "float32"):
        dtype = "mixed_bfloat16" if precision == "bfloat16" else precision
        super().__init__(name="classifier", dtype=dtype)
        self.blocks = [
            Bottleneck(
                config.head_bottleneck,
                config.head_width,
                stride=1,
                project=i == 0,
                norm=norm,
                order="pre",
                dtype=dtype,
                name=f"block{i + 1}",
            )
            for i in range(config.head_blocks)
        ]
        self.norm = make_norm(norm, dtype, "norm")
        self.rate = config.dropout
        self.logits = keras.layers.Dense(num_classes, dtype="float32", name="logits")

    def call(self, maps: tf.Tensor, training: bool = False, noise: tf.Tensor | None = None) -> tf.Tensor:
        """Feature maps [B, H, W, D] -> logits [B, num_classes], float32.

        Args:
          training: batch statistics, and dropout.
          noise: int64 [2], key of the dropout's random numbers, needed in training.
        """
        x = maps
        for block in self.blocks:
            x = block(x, training=training)
        x = self.norm(x, training=training)
        if self.blocks:
            x = tf.nn.relu(x)
        features = tf.reduce_mean(tf.cast(x, tf.float32), [1, 2])  # [B, D]
        if training and self.rate:
            features = tf.nn.experimental.stateless_dropout(features, self.rate, noise, rng_alg="philox")
        return self.logits(features)
