"""Layers of encoders: convolutions, max-pooling and norms, which the C++ operations make faster in
training on CPUs.

Layer norm over (H, W, C) is the default, as batch norm lets patches see each other. Section 4.1:
batch norm "introduces a dependency between patches (through the batch statistics) that can be
exploited to bypass the constraints on the receptive field".
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import pathlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import tensorflow as tf
from absl import logging

from cpc_tf.core import native
from cpc_tf.core.keras import keras

EPSILON = 1e-5  # of the norms
LIBRARY = native.Library("encoders", pathlib.Path(__file__).parent)


@functools.cache  # builds, or warns, once
def operations():
    """The module of the operations, or None where they cannot be built."""
    try:
        return LIBRARY.load()
    except native.BuildError as error:
        logging.warning(
            "No native operations of the encoder, training on CPUs is slower: %s", error
        )
        return None


def is_usable(x: tf.Tensor) -> bool:
    """Whether our operations are allowed here and x is on a CPU."""
    if not native.is_allowed() or x.dtype not in (tf.bfloat16, tf.float32):
        return False
    # A tensor of a graph may name no device: it will be on an accelerator if there is one.
    here = tf.DeviceSpec.from_string(x.device).device_type if x.device else None
    on_cpu = here == "CPU" if here else native.runs_on_cpu()
    return on_cpu and operations() is not None


class Conv(keras.layers.Conv2D):
    """Keras' convolution; the result differs in rounding alone.

    1x1 kernels without stride on small maps are computed as a matmul, whose gradient is faster on
    CPUs. In training steps on CPUs the gradient of some other kernels is computed as a matmul, too:
    see `convolve_by_rows`.
    """

    def convolution_op(self, inputs: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        dense = (
            self.groups == 1
            and self.dilation_rate == (1, 1)
            and self.data_format == "channels_last"
        )
        if not dense or self.strides[0] != self.strides[1]:
            return super().convolution_op(inputs, kernel)
        kernel = tf.convert_to_tensor(kernel)
        stride = self.strides[0]
        if self.kernel_size == (1, 1) and stride > 1 and inputs.shape[3] < 16:
            # With AVX-512, oneDNN writes past its memory in this convolution's gradient (TensorFlow
            # 2.15 and 2.21).
            inputs = inputs[:, ::stride, ::stride]
            stride = 1
        places = inputs.shape[1:3].num_elements()  # None if unknown
        # Maps of unknown size occur in exported modules, mostly for patches.
        if (*self.kernel_size, stride) == (1, 1, 1) and (places is None or places <= 64):
            height, width = (inputs.shape[axis] or tf.shape(inputs)[axis] for axis in (1, 2))
            flat = tf.reshape(inputs, [-1, inputs.shape[-1]])  # [N*H*W, C]
            product = tf.matmul(flat, tf.reshape(kernel, kernel.shape[2:]))
            return tf.reshape(product, [-1, height, width, self.filters])
        # Where that is faster, measured in docs/scale.md: oneDNN is slow with strides and small
        # maps.
        is_slow = stride > 1 or (places is not None and places <= 32)
        if is_slow and (inputs.dtype == tf.bfloat16 or inputs.shape[3] >= 64) and is_usable(inputs):
            return convolve_by_rows(inputs, kernel, stride, self.padding.upper())
        return tf.nn.conv2d(inputs, kernel, stride, self.padding.upper())


def convolve_by_rows(x: tf.Tensor, kernel: tf.Tensor, stride: int, padding: str) -> tf.Tensor:
    """A convolution whose gradient with respect to the kernel is one matmul. Needs `is_usable`.

    Args:
      x: [N, H, W, C], float32 or bfloat16.
      kernel: [kh, kw, C, C'] of the same dtype.
      stride: of both sides.
      padding: "SAME" or "VALID".

    Returns:
      [N, h, w, C'].
    """

    @tf.custom_gradient
    def run(x: tf.Tensor, kernel: tf.Tensor):
        def gradient(upstream: tf.Tensor):
            size = kernel.shape[:2].as_list()
            rows = operations().cpc_im2col(
                x, kernel=size, stride=stride, padding=padding
            )  # [N*h*w, kh*kw*C]
            flat = tf.reshape(upstream, [-1, upstream.shape[-1]])  # [N*h*w, C']
            d_kernel = tf.matmul(rows, flat, transpose_a=True)  # [kh*kw*C, C']
            d_x = tf.compat.v1.nn.conv2d_backprop_input(
                tf.shape(x), kernel, upstream, [1, stride, stride, 1], padding
            )
            return d_x, tf.reshape(d_kernel, kernel.shape)

        return tf.nn.conv2d(x, kernel, stride, padding), gradient

    return run(x, kernel)


def max_pool(x: tf.Tensor) -> tf.Tensor:
    """3x3 max-pool of stride 2, padding 'SAME': the values and the gradients of
    `tf.nn.max_pool2d(x, 3, 2, "SAME")`.

    TensorFlow has no deterministic XLA kernel of that gradient (2.15: "GPU MaxPool gradient ops do
    not yet have a deterministic XLA implementation"). The maximum of shifted slices needs none: of
    equal values the first one gets the gradient, in the order of rows, then columns.

    Args:
      x: [N, H, W, C], float; H and W need not be known.

    Returns:
      [N, ceil(H / 2), ceil(W / 2), C].
    """
    for axis in (2, 1):  # columns first, so that the first of equal values is the first in its row
        size = tf.shape(x)[axis] if x.shape[axis] is None else x.shape[axis]
        padding = [[0, 0], [0, 0], [0, 0], [0, 0]]
        padding[axis] = [size % 2, 1]
        # 2 * ceil(size / 2) + 1 along the axis
        padded = tf.pad(x, padding, constant_values=x.dtype.min)
        end = 2 * ((size + 1) // 2)
        starts = [slice(start, end + start - 1, 2) for start in range(3)]
        first, second, third = (
            padded[:, each] if axis == 1 else padded[:, :, each] for each in starts
        )
        x = tf.maximum(tf.maximum(first, second), third)
    return x


def normalize(x: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor, relu: bool = False) -> tf.Tensor:
    """Layer norm over the last two axes, then ReLU if asked for.

    Uses our operation where `is_usable`, else TensorFlow's own; both give the same.

    Args:
      x: [N, M, C], float32 or bfloat16; an example has M positions.
      scale, offset: [C], float32.
      relu: whether ReLU follows.

    Returns:
      [N, M, C] of x's dtype; statistics over (M, C) are float32.
    """
    if is_usable(x):
        return _normalize_native(x, scale, offset, relu)
    y = _normalize_plain(x, scale, offset)
    return tf.nn.relu(y) if relu else y


def _normalize_native(x: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor, relu: bool) -> tf.Tensor:
    """Layer norm, and ReLU if asked for, as one operation for CPUs (norm_relu.cc). Needs
    `is_usable`.
    """

    @tf.custom_gradient
    def run(x: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor):
        y, mean, inverse = operations().cpc_norm_relu(x, scale, offset, relu=relu, epsilon=EPSILON)

        def gradient(upstream: tf.Tensor):
            return tuple(
                operations().cpc_norm_relu_grad(
                    x, scale, offset, mean, inverse, upstream, relu=relu
                )
            )

        return y, gradient

    return run(x, scale, offset)


@tf.custom_gradient
def _normalize_plain(x: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor):
    """Layer norm in one pass over x forward and one backward, once compiled.

    Layer norm is bound by memory traffic, so both sums are taken in one read of x (tf.nn.moments
    and its gradient read x several times more). The variance is E[d^2] - E[d]^2 of distances d from
    the first position's mean: E[d]^2 is at most M - 1 times the variance, so the difference stays
    precise. For x itself it would not, where the mean is far from zero.
    """
    first = tf.reduce_mean(tf.cast(x[:, :1], tf.float32), [1, 2], keepdims=True)  # [N, 1, 1]
    distance = tf.cast(x, tf.float32) - first
    mean = tf.reduce_mean(distance, [1, 2], keepdims=True)  # [N, 1, 1], from `first` on
    variance = tf.nn.relu(
        tf.reduce_mean(tf.square(distance), [1, 2], keepdims=True) - tf.square(mean)
    )
    inverse = tf.math.rsqrt(variance + EPSILON)
    a = inverse * scale  # [N, 1, C]

    def gradient(upstream: tf.Tensor):
        # With y = (distance - mean) * inverse and g = upstream * scale:
        # dx = inverse * (g - mean(g) - y * mean(g * y)).
        distance = tf.cast(x, tf.float32) - first  # again, rather than kept in memory
        u = tf.cast(upstream, tf.float32)
        sum_u = tf.reduce_sum(u, 1)  # [N, C]
        sum_uy = (tf.reduce_sum(u * distance, 1) - sum_u * mean[:, 0]) * inverse[:, 0]  # [N, C]
        count = tf.cast(tf.shape(x)[1] * tf.shape(x)[2], tf.float32)
        # Sums rather than products, which GPUs and TPUs would not compute in full float32.
        mean_g = tf.reduce_sum(sum_u * scale, 1)[:, None, None] / count
        mean_gy = tf.reduce_sum(sum_uy * scale, 1)[:, None, None] / count
        k = tf.square(inverse) * mean_gy
        d_x = u * a - distance * k + (mean * k - inverse * mean_g)
        return tf.cast(d_x, x.dtype), tf.reduce_sum(sum_uy, 0), tf.reduce_sum(sum_u, 0)

    return tf.cast(distance * a + (offset - mean * a), x.dtype), gradient


class LayerNorm(keras.layers.Layer):
    """Layer norm of a feature map [N, H, W, C] with a scale and an offset per channel, whatever H
    and W are.

    Args:
      over_space: statistics over (H, W, C) of an example if true, over C at each position if false.
    """

    def __init__(self, over_space: bool = True, **kwargs):
        super().__init__(**kwargs)
        self.over_space = over_space

    def build(self, input_shape):
        shared = {"shape": [input_shape[-1]], "dtype": tf.float32, "experimental_autocast": False}
        self.scale = self.add_weight(name="scale", initializer="ones", **shared)
        self.offset = self.add_weight(name="offset", initializer="zeros", **shared)
        super().build(input_shape)

    def call(self, x: tf.Tensor, training: bool = False, relu: bool = False) -> tf.Tensor:
        """Feature map [N, H, W, C] -> [N, H, W, C], normalized; then ReLU if `relu`."""
        # Known sizes are numbers: a network has many of these layers, and each operation less is
        # traced sooner.
        height, width = (x.shape[axis] or tf.shape(x)[axis] for axis in (1, 2))
        # [N, H*W, C] or [N*H*W, 1, C]
        flat = tf.reshape(x, [-1, height * width if self.over_space else 1, x.shape[-1]])
        y = normalize(
            flat, tf.convert_to_tensor(self.scale), tf.convert_to_tensor(self.offset), relu
        )
        # Not tf.ensure_shape: XLA would take the sizes for ones that may change.
        return tf.reshape(y, [x.shape[0] or -1, height, width, x.shape[-1]])


class BatchStatistics(NamedTuple):
    """How batch norm takes its statistics in training; see `batch_statistics`."""

    updated: bool = True  # whether the running ones follow those of the batch
    groups: int = 1  # of what a replica is given, each with statistics of its own
    replicas: int = 0  # over which a group extends; 0: all

    @staticmethod
    def now() -> BatchStatistics:
        """Returns what holds here."""
        return _STATISTICS.get(BatchStatistics())


_STATISTICS: contextvars.ContextVar[BatchStatistics] = contextvars.ContextVar("statistics")


@contextlib.contextmanager
def batch_statistics(**changes: Any) -> Iterator[None]:
    """Changes some fields of `BatchStatistics` for what this thread computes inside the context."""
    token = _STATISTICS.set(BatchStatistics.now()._replace(**changes))
    try:
        yield
    finally:
        _STATISTICS.reset(token)


# Lets batch norm use the statistics of a batch in training, and leave its running ones as they are.
running_statistics_kept = functools.partial(batch_statistics, updated=False)


class BatchNorm(keras.layers.BatchNormalization):
    """Keras' batch norm with the statistics of all replicas or of groups, so that the answer is
    that of one device.
    """

    def call(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Normalizes [N, H, W, C]; the images of a group follow each other."""
        how = BatchStatistics.now()
        # What no gradient trains, as a momentum copy, has the batch's statistics, too; Keras takes
        # the running ones.
        if not training or (how == BatchStatistics() and replicas() == 1 and self.trainable):
            return super().call(inputs, training=training)
        x = tf.cast(inputs, tf.float32)
        grouped = tf.reshape(x, [how.groups, -1, x.shape[-1]])  # [G, N*H*W/G, C]
        mean, variance = moments(grouped, 1, how.replicas)  # [G, 1, C] each
        if how.updated:
            # The running variance is that of a sample, as on one device.
            count = tf.cast(tf.shape(grouped)[1] * (how.replicas or replicas()), tf.float32)
            running_values = (
                (self.moving_mean, mean),
                (self.moving_variance, variance * count / (count - 1.0)),
            )
            for running, value in running_values:
                value = tf.reduce_mean(value, [0, 1])  # [C], of the groups
                if how.replicas:
                    value = _mean_of_replicas(value)
                running.assign(running * self.momentum + value * (1.0 - self.momentum))
        scale = self.gamma if self.scale else None
        y = tf.nn.batch_normalization(grouped, mean, variance, self.beta, scale, self.epsilon)
        return tf.cast(tf.reshape(y, tf.shape(x)), inputs.dtype)


def has_batch_norm(module: tf.Module, exchanging: bool = True) -> bool:
    """Returns whether a layer or model has batch norm that takes statistics of batches;
    `exchanging`: also ours, whose statistics are all replicas'.
    """
    norms = [
        each
        for each in (module, *module.submodules)
        if isinstance(each, keras.layers.BatchNormalization)
        and not getattr(each, "keeps_statistics", False)
    ]
    return any(exchanging or not isinstance(each, BatchNorm) for each in norms)


def replicas() -> int:
    """Returns the number of replicas that train together where we are in one of them, else 1."""
    replica = tf.distribute.get_replica_context()
    return replica.num_replicas_in_sync if replica else 1


def moments(x: tf.Tensor, kept: int = 0, extent: int = 0) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns mean and variance of float32 [..., D] over all axes but the first `kept` and the
    last, and over replicas.

    Args:
      x: of this replica.
      kept: the number of axes in front that stay.
      extent: as in `BatchStatistics.replicas`.

    Returns:
      Two tensors of x's shape with 1 in place of the other axes.
    """

    def mean_of(values: tf.Tensor) -> tf.Tensor:
        return _mean_of_replicas(
            tf.reduce_mean(values, list(range(kept, x.shape.rank - 1)), keepdims=True), extent
        )

    mean = mean_of(x)
    return mean, mean_of(tf.square(x - mean))


def _mean_of_replicas(values: tf.Tensor, extent: int = 0) -> tf.Tensor:
    """Returns the mean of [...] over the `extent` replicas of this one's group, 0: over all; in
    replica context.
    """
    if extent == 1 or replicas() == 1:
        return values
    replica = tf.distribute.get_replica_context()
    if extent in (0, replicas()):
        return replica.all_reduce(tf.distribute.ReduceOp.MEAN, values)
    everything = tf.reshape(replica.all_gather(values[None], axis=0), [-1, extent, *values.shape])
    return tf.reduce_mean(tf.gather(everything, replica.replica_id_in_sync_group // extent), 0)


class NoNorm(keras.layers.Layer):
    """No normalization."""

    def call(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        return x


def make_norm(kind: str, dtype: str, name: str) -> keras.layers.Layer:
    """The normalization layer called 'layer', 'channel', 'batch' or 'none'; `dtype` is a Keras
    dtype policy.
    """
    if kind == "batch":
        return BatchNorm(momentum=0.9, epsilon=EPSILON, dtype=dtype, name=name)
    if kind == "none":
        return NoNorm(dtype=dtype, name=name)
    if kind in ("layer", "channel"):
        return LayerNorm(over_space=kind == "layer", dtype=dtype, name=name)
    raise ValueError(f"norm={kind}: must be one of layer, channel, batch, none")


def norm_relu(norm: keras.layers.Layer, x: tf.Tensor, training: bool = False) -> tf.Tensor:
    """ReLU of any of these layers of x, [N, H, W, C]."""
    if isinstance(norm, LayerNorm):
        return norm(x, training=training, relu=True)
    return tf.nn.relu(norm(x, training=training))
