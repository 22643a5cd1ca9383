"""The two networks on top of the feature map (Ren et al. 2015): region proposals, and the head of each region."""

from __future__ import annotations

import tensorflow as tf

from cpc_tf.detect.config import HeadConfig
from cpc_tf.detect.roi_align import roi_align
from cpc_tf.encoders.networks.resnet import Bottleneck, conv
from cpc_tf.encoders.norm import make_norm
from cpc_tf.keras import keras


def normal(deviation: float) -> keras.initializers.Initializer:
    """Draws the weights of new layers (Girshick 2015)."""
    return keras.initializers.RandomNormal(stddev=deviation)


class RegionProposalNetwork(keras.layers.Layer):
    """A 3x3 convolution, then a logit and four differences for each anchor.

    Args:
      width: channels of the convolution.
      anchors: per cell.
      dtype: of the convolution; the outputs are float32.
    """

    def __init__(self, width: int, anchors: int, dtype: str = "float32", name: str = "rpn"):
        super().__init__(dtype=dtype, name=name)

        def conv(channels: int, kernel: int, **kwargs) -> keras.layers.Layer:
            return keras.layers.Conv2D(channels, kernel, padding="same", kernel_initializer=normal(0.01), **kwargs)

        self.conv = conv(width, 3, activation="relu", dtype=dtype, name="conv")
        self.objectness = conv(anchors, 1, dtype="float32", name="objectness")
        self.deltas = conv(4 * anchors, 1, dtype="float32", name="deltas")

    def call(self, features: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Features [B, H, W, C] -> logits [B, N] and differences [B, N, 4], float32, in the order of `anchor_grid`."""
        x = tf.cast(self.conv(features), tf.float32)
        count = x.shape[1] * x.shape[2] * self.objectness.filters  # N = H*W*A
        objectness = tf.reshape(self.objectness(x), [-1, count])
        return objectness, tf.reshape(self.deltas(x), [-1, count, 4])


class RegionHead(keras.layers.Layer):
    """ROIAlign, a small network, class logits and a box per class.

    Args:
      num_classes: without the background.
      channels: of the features.
      config: pooling, network and widths.
      dtype: Keras policy of the network; the outputs are float32.
    """

    def __init__(self, num_classes: int, channels: int, config: HeadConfig, dtype: str = "float32", name: str = "head"):
        super().__init__(dtype=dtype, name=name)
        self.config, self.num_classes = config, num_classes
        wide = config.region_reduce and channels > config.region_reduce
        self.reduce = conv(config.region_reduce, 1, dtype=dtype, name="reduce") if wide else None
        self.residual = config.region_head == "residual"
        make = self._block if self.residual else self._linear
        channels = config.region_reduce if wide else channels
        self.layers = [make(index, channels, dtype) for index in range(config.region_blocks)]
        self.norm = make_norm(config.region_norm, dtype, "norm") if self.residual else None
        output = {"dtype": "float32"}
        self.classes = keras.layers.Dense(num_classes + 1, kernel_initializer=normal(0.01), name="classes", **output)
        self.deltas = keras.layers.Dense(num_classes * 4, kernel_initializer=normal(0.001), name="deltas", **output)

    def _block(self, index: int, channels: int, dtype: str) -> keras.layers.Layer:
        stride = self.config.region_stride if index == 0 else 1
        return Bottleneck(
            self.config.region_bottleneck,
            self.config.region_width,
            stride=stride,
            project=index == 0 and (stride > 1 or channels != self.config.region_width),
            norm=self.config.region_norm,
            order="pre",
            dtype=dtype,
            name=f"block{index + 1}",
        )

    def _linear(self, index: int, channels: int, dtype: str) -> keras.layers.Layer:
        initializer = keras.initializers.HeNormal()
        width, name = self.config.region_width, f"linear{index + 1}"
        return keras.layers.Dense(width, "relu", kernel_initializer=initializer, dtype=dtype, name=name)

    def call(
        self, features: tf.Tensor, boxes: tf.Tensor, stride: float, training: bool = False
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Classifies boxes and corrects them.

        Args:
          features: [B, H, W, C].
          boxes: [B, K, 4] in pixels.
          stride: pixels per cell of the features.
          training: affects only batch norm.

        Returns:
          Logits [B, K, num_classes + 1], the background last, and differences [B, K, num_classes, 4]; float32.
        """
        config, count = self.config, boxes.shape[1]
        features = self.reduce(features) if self.reduce else tf.cast(features, self.compute_dtype)
        x = roi_align(features, boxes, stride, config.region_pool, config.region_points, config.region_chunk)
        x = tf.reshape(x, [-1, *x.shape[2:]])  # [B*K, P, P, C]
        if self.residual:
            for block in self.layers:
                x = block(x, training=training)
            x = tf.nn.relu(self.norm(x, training=training))
            x = tf.reduce_mean(tf.cast(x, tf.float32), [1, 2])  # [B*K, D]
        else:
            x = tf.reshape(x, [-1, x.shape[1] * x.shape[2] * x.shape[3]])  # [B*K, P*P*C]
            for layer in self.layers:
                x = layer(x)
            x = tf.cast(x, tf.float32)
        logits, deltas = self.classes(x), self.deltas(x)
        return (
            tf.reshape(logits, [-1, count, self.num_classes + 1]),
            tf.reshape(deltas, [-1, count, self.num_classes, 4]),
        )
