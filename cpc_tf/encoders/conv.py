"""Convolutions that are faster on CPUs than Keras' own, and max-pooling that XLA can compile."""

from __future__ import annotations

import tensorflow as tf

from cpc_tf.encoders.operations import is_usable, operations
from cpc_tf.keras import keras


class Conv(keras.layers.Conv2D):
    """Keras' convolution; the result differs in rounding alone.

    1x1 kernels without stride on small maps are computed as a matmul, whose gradient is faster on CPUs. In training
    steps on CPUs the gradient of some other kernels is computed as a matmul, too: see `convolve_by_rows`.
    """

    def convolution_op(self, inputs: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        dense = self.groups == 1 and self.dilation_rate == (1, 1) and self.data_format == "channels_last"
        if not dense or self.strides[0] != self.strides[1]:
            return super().convolution_op(inputs, kernel)
        kernel = tf.convert_to_tensor(kernel)
        places = _places(inputs)
        # Maps of unknown size occur in exported modules, mostly for patches.
        if (*self.kernel_size, *self.strides) == (1, 1, 1, 1) and (places is None or places <= 64):
            height, width = (inputs.shape[axis] or tf.shape(inputs)[axis] for axis in (1, 2))
            flat = tf.reshape(inputs, [-1, inputs.shape[-1]])  # [N*H*W, C]
            product = tf.matmul(flat, tf.reshape(kernel, kernel.shape[2:]))
            return tf.reshape(product, [-1, height, width, self.filters])
        if is_usable(inputs) and _pays(inputs, self.strides[0]):
            return convolve_by_rows(inputs, kernel, self.strides[0], self.padding.upper())
        return super().convolution_op(inputs, kernel)


def _pays(x: tf.Tensor, stride: int) -> bool:
    """Whether `convolve_by_rows` is faster, measured in docs/speed.md. oneDNN is slow with strides and small maps."""
    places = _places(x)
    few = places is not None and places <= 32
    return (stride > 1 or few) and (x.dtype == tf.bfloat16 or x.shape[3] >= 64)


def _places(x: tf.Tensor) -> int | None:
    """H * W of a map [N, H, W, C]; None if unknown."""
    return x.shape[1:3].num_elements()


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
            rows = operations().cpc_im2col(x, kernel=size, stride=stride, padding=padding)  # [N*h*w, kh*kw*C]
            flat = tf.reshape(upstream, [-1, upstream.shape[-1]])  # [N*h*w, C']
            d_kernel = tf.matmul(rows, flat, transpose_a=True)  # [kh*kw*C, C']
            d_x = tf.compat.v1.nn.conv2d_backprop_input(tf.shape(x), kernel, upstream, [1, stride, stride, 1], padding)
            return d_x, tf.reshape(d_kernel, kernel.shape)

        return tf.nn.conv2d(x, kernel, stride, padding), gradient

    return run(x, kernel)


def max_pool(x: tf.Tensor) -> tf.Tensor:
    """3x3 max-pool of stride 2, padding 'SAME': the values and the gradients of `tf.nn.max_pool2d(x, 3, 2, "SAME")`.

    TensorFlow has no deterministic XLA kernel of that gradient (2.15: "GPU MaxPool gradient ops do not yet have a
    deterministic XLA implementation"). The maximum of shifted slices needs none: of equal values the first one gets the
    gradient, in the order of rows, then columns.

    Args:
      x: [N, H, W, C], float; H and W need not be known.

    Returns:
      [N, ceil(H / 2), ceil(W / 2), C].
    """
    for axis in (2, 1):  # columns first, so that the first of equal values is the first in its row
        size = tf.shape(x)[axis] if x.shape[axis] is None else x.shape[axis]
        padding = [[0, 0], [0, 0], [0, 0], [0, 0]]
        padding[axis] = [size % 2, 1]
        padded = tf.pad(x, padding, constant_values=x.dtype.min)  # 2 * ceil(size / 2) + 1 along the axis
        end = 2 * ((size + 1) // 2)
        first, second, third = (_every_second(padded, axis, start, end + start - 1) for start in range(3))
        x = tf.maximum(tf.maximum(first, second), third)
    return x


def _every_second(x: tf.Tensor, axis: int, start: int, stop: int | tf.Tensor) -> tf.Tensor:
    """x[start:stop:2] along an axis."""
    return x[:, start:stop:2] if axis == 1 else x[:, :, start:stop:2]
