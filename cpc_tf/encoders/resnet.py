"""The encoder f_theta: a bottleneck ResNet that serves patches (mean-pooled) and whole images (feature map) alike."""

from __future__ import annotations

import tensorflow as tf

from cpc_tf.encoders.architectures import ARCHITECTURES, EncoderConfig, Stack
from cpc_tf.encoders.norm import make_norm
from cpc_tf.encoders.pooling import max_pool
from cpc_tf.keras import keras
from cpc_tf.settings import ConfigError


def conv(width: int, kernel: int, stride: int = 1, *, dtype: str, name: str) -> keras.layers.Layer:
    """A convolution without bias, He-initialized (He et al. 2015)."""
    return keras.layers.Conv2D(
        width,
        kernel,
        stride,
        padding="same",
        use_bias=False,
        kernel_initializer=keras.initializers.HeNormal(),
        dtype=dtype,
        name=name,
    )


class Bottleneck(keras.layers.Layer):
    """1x1, 3x3 (strided) and 1x1 convolution beside a shortcut.

    Order 'pre' is ResNet v2 (He et al. 2016b), which CPC v1 used; 'post' is ResNet v1.
    """

    def __init__(
        self, bottleneck: int, width: int, stride: int, project: bool, norm: str, order: str, dtype: str, name
    ):
        super().__init__(dtype=dtype, name=name)
        self.order = order
        self.norms = [make_norm(norm, dtype, f"norm{i}") for i in (1, 2, 3)]
        self.convs = [
            conv(bottleneck, 1, dtype=dtype, name="conv1"),
            conv(bottleneck, 3, stride, dtype=dtype, name="conv2"),
            conv(width, 1, dtype=dtype, name="conv3"),
        ]
        self.shortcut = conv(width, 1, stride, dtype=dtype, name="shortcut") if project else None
        self.shortcut_norm = make_norm(norm, dtype, "shortcut_norm") if project and order == "post" else None

    def call(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        return self._pre(x, training) if self.order == "pre" else self._post(x, training)

    def _pre(self, x: tf.Tensor, training: bool) -> tf.Tensor:
        y = tf.nn.relu(self.norms[0](x, training=training))
        shortcut = self.shortcut(y) if self.shortcut else x
        y = self.convs[0](y)
        y = self.convs[1](tf.nn.relu(self.norms[1](y, training=training)))
        y = self.convs[2](tf.nn.relu(self.norms[2](y, training=training)))
        return shortcut + y

    def _post(self, x: tf.Tensor, training: bool) -> tf.Tensor:
        shortcut = self.shortcut_norm(self.shortcut(x), training=training) if self.shortcut else x
        y = tf.nn.relu(self.norms[0](self.convs[0](x), training=training))
        y = tf.nn.relu(self.norms[1](self.convs[1](y), training=training))
        return tf.nn.relu(shortcut + self.norms[2](self.convs[2](y), training=training))


class Encoder(keras.Model):
    """Images of any size -> feature maps -> features.

    Args:
      config: which architecture, norm, block order and output stack.
      precision: of convolutions and activations, 'float32' or 'bfloat16'; parameters, statistics and features are
        float32.

    Raises:
      ConfigError: if the architecture has no such output stack.
    """

    def __init__(self, config: EncoderConfig, precision: str = "float32", name: str = "encoder"):
        dtype = "mixed_bfloat16" if precision == "bfloat16" else precision
        super().__init__(name=name, dtype=dtype)
        architecture = ARCHITECTURES[config.encoder]
        count = config.output_stack or len(architecture.stacks)
        if count > len(architecture.stacks):
            raise ConfigError(
                f"--output_stack={count}: --encoder={config.encoder} has {len(architecture.stacks)} stacks"
            )
        self.config, self.pool = config, architecture.stem_pool
        self.stem = conv(architecture.stem_width, architecture.stem_kernel, 2, dtype=dtype, name="stem")
        # A norm after the stem where the blocks do not begin with one, and at the end where they do not end with one.
        self.stem_norm = make_norm(config.norm, dtype, "stem_norm") if config.block_order == "post" else None
        self.stacks = [
            self._stack(stack, architecture.stem_width if i == 0 else architecture.stacks[i - 1].width, dtype, i + 1)
            for i, stack in enumerate(architecture.stacks[:count])
        ]
        self.final_norm = make_norm(config.norm, dtype, "final_norm") if config.block_order == "pre" else None
        self.feature_dim = architecture.stacks[count - 1].width

    def _stack(self, stack: Stack, width_before: int, dtype: str, index: int) -> list[Bottleneck]:
        return [
            Bottleneck(
                stack.bottleneck,
                stack.width,
                stride=stack.stride if i == 0 else 1,
                project=i == 0 and (stack.stride > 1 or stack.width != width_before),
                norm=self.config.norm,
                order=self.config.block_order,
                dtype=dtype,
                name=f"stack{index}_block{i + 1}",
            )
            for i in range(stack.blocks)
        ]

    def endpoints(self, images: tf.Tensor, training: bool = False) -> dict[str, tf.Tensor]:
        """The feature map of each stack, and the pooled features.

        Args:
          images: [N, H, W, 3], float, in [0, 1].
          training: only batch norm minds.

        Returns:
          'stack1', 'stack2', ...: [N, h, w, width]; 'feature_map': the last one, normalized; 'features': its mean,
          [N, feature_dim]. All float32.
        """
        x = self.stem(2.0 * images - 1.0)
        if self.stem_norm:
            x = tf.nn.relu(self.stem_norm(x, training=training))
        if self.pool:
            x = max_pool(x)
        maps = {}
        for i, blocks in enumerate(self.stacks):
            for block in blocks:
                x = self._run(block, x, training)
            maps[f"stack{i + 1}"] = tf.cast(x, tf.float32)
        if self.final_norm:
            x = tf.nn.relu(self.final_norm(x, training=training))
        maps["feature_map"] = tf.cast(x, tf.float32)
        maps["features"] = tf.reduce_mean(maps["feature_map"], [1, 2])
        return maps

    def _run(self, block: Bottleneck, x: tf.Tensor, training: bool) -> tf.Tensor:
        if self.config.recompute and training and block.built:
            return tf.recompute_grad(lambda x: block(x, training=training))(x)
        return block(x, training=training)

    def call(self, images: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Images [N, H, W, 3] in [0, 1] -> features [N, feature_dim], float32."""
        return self.endpoints(images, training)["features"]
