"""What looks at each region: ROIAlign, a small network, class logits and a box per class."""

from __future__ import annotations

import tensorflow as tf

from cpc_tf.detect.config import HeadConfig
from cpc_tf.detect.roi_align import roi_align
from cpc_tf.encoders.networks.resnet import Bottleneck, conv
from cpc_tf.encoders.norm import make_norm
from cpc_tf.keras import keras


class RegionHead(keras.layers.Layer):
    """Features and boxes -> class logits and differences.

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
        residual = config.region_head == "residual"
        channels = config.region_reduce if wide else channels
        self.layers = [
            self._block(i, channels, dtype) if residual else self._linear(i, dtype) for i in range(config.region_blocks)
        ]
        self.norm = make_norm(config.region_norm, dtype, "norm") if residual else None
        # Girshick 2015: 0.01 for the classes, 0.001 for the boxes.
        self.classes = _output(num_classes + 1, 0.01, "classes")
        self.deltas = _output(num_classes * 4, 0.001, "deltas")

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

    def _linear(self, index: int, dtype: str) -> keras.layers.Layer:
        return keras.layers.Dense(
            self.config.region_width,
            "relu",
            kernel_initializer=keras.initializers.HeNormal(),
            dtype=dtype,
            name=f"linear{index + 1}",
        )

    def call(
        self, features: tf.Tensor, boxes: tf.Tensor, stride: float, training: bool = False
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Looks at boxes.

        Args:
          features: [B, H, W, C].
          boxes: [B, K, 4] in pixels.
          stride: pixels per cell of the features.
          training: only batch norm minds.

        Returns:
          Logits [B, K, num_classes + 1], the background last, and differences [B, K, num_classes, 4]; float32.
        """
        config, count = self.config, boxes.shape[1]
        features = self.reduce(features) if self.reduce else tf.cast(features, self.compute_dtype)
        x = roi_align(features, boxes, stride, config.region_pool, config.region_points, config.region_chunk)
        x = tf.reshape(x, [-1, *x.shape[2:]])  # [B*K, P, P, C]
        x = self._residual(x, training) if config.region_head == "residual" else self._mlp(x)
        logits, deltas = self.classes(x), self.deltas(x)
        return (
            tf.reshape(logits, [-1, count, self.num_classes + 1]),
            tf.reshape(deltas, [-1, count, self.num_classes, 4]),
        )

    def _residual(self, x: tf.Tensor, training: bool) -> tf.Tensor:
        for block in self.layers:
            x = block(x, training=training)
        x = tf.nn.relu(self.norm(x, training=training))
        return tf.reduce_mean(tf.cast(x, tf.float32), [1, 2])  # [B*K, D]

    def _mlp(self, x: tf.Tensor) -> tf.Tensor:
        x = tf.reshape(x, [-1, x.shape[1] * x.shape[2] * x.shape[3]])  # [B*K, P*P*C]
        for layer in self.layers:
            x = layer(x)
        return tf.cast(x, tf.float32)


def _output(width: int, deviation: float, name: str) -> keras.layers.Layer:
    initializer = keras.initializers.RandomNormal(stddev=deviation)
    return keras.layers.Dense(width, kernel_initializer=initializer, dtype="float32", name=name)
