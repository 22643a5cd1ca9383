"""The encoder f_theta: a bottleneck ResNet that serves patches (mean-pooled) and whole images
(feature map) alike.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable

import tensorflow as tf

from cpc_tf.core.keras import keras
from cpc_tf.core.settings import Settings
from cpc_tf.encoders.layers import (
    BatchStatistics,
    Conv,
    batch_statistics,
    make_norm,
    max_pool,
    norm_relu,
)
from cpc_tf.encoders.network import Network
from cpc_tf.encoders.networks import ARCHITECTURES, Stack

# Arguments: channels, kernel, stride. Without bias, He-initialized (He et al. 2015).
conv = functools.partial(Conv, padding="same", use_bias=False, kernel_initializer="he_normal")


class Bottleneck(keras.layers.Layer):
    """1x1, 3x3 (strided) and 1x1 convolution beside a shortcut.

    Order 'pre' is ResNet v2 (He et al. 2016b), which CPC v1 used; 'post' is ResNet v1.
    """

    def __init__(
        self,
        bottleneck: int,
        width: int,
        stride: int,
        project: bool,
        norm: str,
        order: str,
        dtype: str,
        name,
    ):
        super().__init__(dtype=dtype, name=name)
        self.order = order
        self.norms = [make_norm(norm, dtype, f"norm{i}") for i in (1, 2, 3)]
        # Without norms each branch would double the variance, 2^33-fold in 33 blocks: all begin as
        # the shortcut alone.
        start = {"kernel_initializer": "zeros"} if norm == "none" else {}
        self.convs = [
            conv(bottleneck, 1, dtype=dtype, name="conv1"),
            conv(bottleneck, 3, stride, dtype=dtype, name="conv2"),
            conv(width, 1, dtype=dtype, name="conv3", **start),
        ]
        self.shortcut = conv(width, 1, stride, dtype=dtype, name="shortcut") if project else None
        self.shortcut_norm = (
            make_norm(norm, dtype, "shortcut_norm") if project and order == "post" else None
        )

    def normalized(self) -> list[tuple[Conv, keras.layers.Layer]]:
        """See `Network.normalized`; in order 'pre' what is added to the shortcut goes to no norm of
        its own.
        """
        if self.order == "pre":
            return list(zip(self.convs[:2], self.norms[1:]))
        pairs = list(zip(self.convs, self.norms))
        return [*pairs, (self.shortcut, self.shortcut_norm)] if self.shortcut else pairs

    def call(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        return self._pre(x, training) if self.order == "pre" else self._post(x, training)

    def _pre(self, x: tf.Tensor, training: bool) -> tf.Tensor:
        y = norm_relu(self.norms[0], x, training)
        shortcut = self.shortcut(y) if self.shortcut else x
        y = self.convs[0](y)
        y = self.convs[1](norm_relu(self.norms[1], y, training))
        y = self.convs[2](norm_relu(self.norms[2], y, training))
        return shortcut + y

    def _post(self, x: tf.Tensor, training: bool) -> tf.Tensor:
        shortcut = self.shortcut_norm(self.shortcut(x), training=training) if self.shortcut else x
        y = norm_relu(self.norms[0], self.convs[0](x), training)
        y = norm_relu(self.norms[1], self.convs[1](y), training)
        return tf.nn.relu(shortcut + self.norms[2](self.convs[2](y), training=training))


class ResNet(Network):
    """A bottleneck ResNet of ARCHITECTURES; see `Network`."""

    def __init__(self, config: Settings, precision: str = "float32", name: str = "encoder"):
        super().__init__(config, precision, name)
        architecture = ARCHITECTURES[config.encoder]
        dtype = self.dtype_policy.name
        count = config.output_stack or len(architecture.stacks)
        self.pool = architecture.stem_pool
        stem = architecture.stem_width, architecture.stem_kernel, architecture.stem_stride
        self.stem = conv(*stem, dtype=dtype, name="stem")
        # A norm after the stem where the blocks do not begin with one, and at the end where they do
        # not end with one.
        self.stem_norm = (
            make_norm(config.norm, dtype, "stem_norm") if config.block_order == "post" else None
        )
        self.stacks = [
            self._stack(
                stack,
                architecture.stem_width if i == 0 else architecture.stacks[i - 1].width,
                dtype,
                i + 1,
            )
            for i, stack in enumerate(architecture.stacks[:count])
        ]
        self.final_norm = (
            make_norm(config.norm, dtype, "final_norm") if config.block_order == "pre" else None
        )
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

    def normalized(self) -> list[tuple[Conv, keras.layers.Layer]]:
        pairs = [(self.stem, self.stem_norm)] if self.stem_norm else []
        for blocks in self.stacks:
            for block in blocks:
                pairs += block.normalized()
        return pairs

    def endpoints(self, images: tf.Tensor, training: bool = False) -> dict[str, tf.Tensor]:
        """See `Network`; also 'stack1', 'stack2', ..., [N, h, w, width]. 'feature_map' is the last
        one, normalized.
        """
        x = self.stem(2.0 * images - 1.0)
        if self.stem_norm:
            x = norm_relu(self.stem_norm, x, training)
        if self.pool:
            x = max_pool(x)
        return self._from_stack(0, x, training)

    def after(self, endpoint: str) -> Callable[..., tf.Tensor] | None:
        """See `Network`; something follows 'stack1', 'stack2', ..., but the last one."""
        first = next((i for i in range(1, len(self.stacks)) if endpoint == f"stack{i}"), 0)
        if not first:
            return None
        return lambda x, training=False: self._from_stack(
            first, tf.cast(x, self.compute_dtype), training
        )["feature_map"]

    def _from_stack(self, first: int, x: tf.Tensor, training: bool) -> dict[str, tf.Tensor]:
        """Returns the endpoints of the stacks from index `first` on, whose input is x."""
        maps = {}
        for i, blocks in enumerate(self.stacks[first:], first):
            for block in blocks:
                x = self._run(block, x, training)
            maps[f"stack{i + 1}"] = tf.cast(x, tf.float32)
        if self.final_norm:
            x = norm_relu(self.final_norm, x, training)
        maps["feature_map"] = tf.cast(x, tf.float32)
        maps["features"] = tf.reduce_mean(maps["feature_map"], [1, 2])
        return maps

    def _run(self, block: Bottleneck, x: tf.Tensor, training: bool) -> tf.Tensor:
        if not (self.recompute and block.built):
            return block(x, training=training)
        statistics = BatchStatistics.now()
        passes = itertools.count()

        def run(x: tf.Tensor) -> tf.Tensor:
            # The second pass is outside of the context of the first, and must not average the
            # statistics once more.
            with batch_statistics(
                **statistics._replace(updated=statistics.updated and next(passes) == 0)._asdict()
            ):
                return block(x, training=training)

        return tf.recompute_grad(run)(x)
