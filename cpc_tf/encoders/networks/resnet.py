"""The encoder f_theta: a bottleneck ResNet that serves patches (mean-pooled) and whole images (feature map) alike."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import ClassVar

import tensorflow as tf

from cpc_tf.encoders.conv import Conv, max_pool
from cpc_tf.encoders.network import Network
from cpc_tf.encoders.norm import make_norm, norm_relu
from cpc_tf.keras import keras
from cpc_tf.settings import ConfigError, Settings


@dataclasses.dataclass(frozen=True)
class Stack:
    """Bottleneck blocks of one width; the first one has the stride."""

    blocks: int
    bottleneck: int
    width: int
    stride: int


@dataclasses.dataclass(frozen=True)
class Architecture:
    """A stem (convolution, maybe a 3x3/2 max-pool) and stacks."""

    stacks: tuple[Stack, ...]
    stem_kernel: int = 7
    stem_width: int = 64
    stem_stride: int = 2
    stem_pool: bool = True


def _resnet(*blocks: int) -> Architecture:
    """The first len(blocks) stacks of a bottleneck ResNet (He et al. 2016)."""
    sizes = ((64, 256, 1), (128, 512, 2), (256, 1024, 2), (512, 2048, 2))
    return Architecture(tuple(Stack(count, *size) for count, size in zip(blocks, sizes)))


def _base(width: int = 1024, stem_stride: int = 4, blocks: int = 2, widening: int = 1) -> Architecture:
    sizes = ((16, 64, 1), (32, 128, 2), (128, width, 2))
    stacks = (Stack(blocks, widening * bottleneck, *size) for bottleneck, *size in sizes)
    return Architecture(tuple(stacks), stem_stride=stem_stride, stem_pool=False)


ARCHITECTURES = {
    # Sec. 4.1: ResNet-101's third stack (23 x (256 -> 1024)) becomes 46 x (512 -> 4096).
    "resnet161": Architecture((Stack(3, 64, 256, 1), Stack(4, 128, 512, 2), Stack(46, 512, 4096, 2))),
    "resnet50": _resnet(3, 4, 6, 3),
    # 'v1' is of CPC, not of ResNet: CPC v1 used "only the first 3 stacks of a ResNet-101".
    "resnet101_v1": _resnet(3, 4, 23),
    # App. C.1: the supervised baselines, 'v2' (pre-activation, as --block_order=pre) of ResNet.
    "resnet101_v2": _resnet(3, 4, 23, 3),
    "resnet152_v2": _resnet(3, 8, 36, 3),
    "resnet200_v2": _resnet(3, 24, 36, 3),
    # Ours, for patches of 12 to 32 px: 0.02 M parameters where the ladder of flags/ablation starts, 0.22 M, and 3.4 M.
    "tiny": Architecture(
        (Stack(1, 8, 32, 1), Stack(1, 16, 64, 2), Stack(2, 32, 128, 2)), stem_kernel=3, stem_pool=False
    ),
    "small": Architecture(
        (Stack(2, 16, 64, 1), Stack(2, 32, 128, 2), Stack(2, 64, 256, 2)), stem_kernel=3, stem_pool=False
    ),
    "medium": Architecture(
        (Stack(2, 64, 256, 1), Stack(2, 128, 512, 2), Stack(2, 256, 1024, 2)), stem_kernel=3, stem_pool=False
    ),
    # 0.9 M, for patches of 32 px: its stem of stride 4 leaves a patch the 8x8 places that 'small' has of 16 px. The
    # others are for smaller patches, or narrower: studies/causes compares them.
    "base": _base(),
    "base_24px": _base(stem_stride=3),
    "base_16px": _base(stem_stride=2),
    "base_512": _base(width=512),
    "base_256": _base(width=256),
    # Supervised baselines at 128 px: twice the blocks, or twice as wide inside, as Wide ResNet-50-2 (Zagoruyko and
    # Komodakis 2016). studies/choices compares them.
    "base_deep": _base(blocks=4),
    "base_wide": _base(widening=2),
}
# An alias: App. C.1's name of the same network.
ARCHITECTURES["resnet50_v2"] = ARCHITECTURES["resnet50"]


# Arguments: channels, kernel, stride. Without bias, He-initialized (He et al. 2015).
conv = functools.partial(Conv, padding="same", use_bias=False, kernel_initializer="he_normal")


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

    def normalized(self) -> list[tuple[Conv, keras.layers.Layer]]:
        """See `Network.normalized`; in order 'pre' what is added to the shortcut goes to no norm of its own."""
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

    OPTIONS = ("norm", "block_order", "output_stack", "recompute")
    FROM_LABELS: ClassVar = {"norm": "batch"}  # what supervised ResNets are made for

    def __init__(self, config: Settings, precision: str = "float32", name: str = "encoder"):
        super().__init__(config, precision, name)
        architecture, dtype = ARCHITECTURES[config.encoder], self.dtype_policy.name
        count = config.output_stack or len(architecture.stacks)
        self.pool = architecture.stem_pool
        stem = architecture.stem_width, architecture.stem_kernel, architecture.stem_stride
        self.stem = conv(*stem, dtype=dtype, name="stem")
        # A norm after the stem where the blocks do not begin with one, and at the end where they do not end with one.
        self.stem_norm = make_norm(config.norm, dtype, "stem_norm") if config.block_order == "post" else None
        self.stacks = [
            self._stack(stack, architecture.stem_width if i == 0 else architecture.stacks[i - 1].width, dtype, i + 1)
            for i, stack in enumerate(architecture.stacks[:count])
        ]
        self.final_norm = make_norm(config.norm, dtype, "final_norm") if config.block_order == "pre" else None
        self.feature_dim = architecture.stacks[count - 1].width

    @classmethod
    def check(cls, config: Settings) -> None:
        super().check(config)
        stacks = len(ARCHITECTURES[config.encoder].stacks)
        if config.output_stack > stacks:
            raise ConfigError(f"--output_stack={config.output_stack}: --encoder={config.encoder} has {stacks} stacks")

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
        stem = [(self.stem, self.stem_norm)] if self.stem_norm else []
        return [*stem, *(pair for blocks in self.stacks for block in blocks for pair in block.normalized())]

    def endpoints(self, images: tf.Tensor, training: bool = False) -> dict[str, tf.Tensor]:
        """See `Network`; also 'stack1', 'stack2', ..., [N, h, w, width]. 'feature_map' is the last one, normalized."""
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
        return lambda x, training=False: self._from_stack(first, tf.cast(x, self.compute_dtype), training)[
            "feature_map"
        ]

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
        # Not where batch norm averages its statistics, which it would do a second time.
        if self.recompute and block.built and not (training and self.config.norm == "batch"):
            return tf.recompute_grad(lambda x: block(x, training=training))(x)
        return block(x, training=training)


NETWORKS = dict.fromkeys(ARCHITECTURES, ResNet)
