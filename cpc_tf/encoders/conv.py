"""Convolutions as Keras has them, in the ways that are faster on CPUs."""

from __future__ import annotations

import tensorflow as tf

from cpc_tf.encoders.operations import is_usable, operations
from cpc_tf.keras import keras


class Conv(keras.layers.Conv2D):
    """Keras' convolution with the same answer, rounded in another order.

    At 1x1 without stride on small maps it is the matrix product that it is, whose gradient is faster on CPUs. In
    training steps on CPUs the gradient of some other kernels is a matrix product, too: see `convolve_by_rows`.
    """

    def convolution_op(self, inputs: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        dense = self.groups == 1 and self.dilation_rate == (1, 1) and self.data_format == "channels_last"
        if not dense or self.strides[0] != self.strides[1]:
            return super().convolution_op(inputs, kernel)
        kernel = tf.convert_to_tensor(kernel)
        places = _places(inputs)
        # Of unknown size are the maps in exported modules, mostly of patches.
        if (*self.kernel_size, *self.strides) == (1, 1, 1, 1) and (places is None or places <= 64):
            sizes = tf.shape(inputs)
            flat = tf.reshape(inputs, [-1, inputs.shape[-1]])  # [N*H*W, C]
            product = tf.matmul(flat, tf.reshape(kernel, kernel.shape[2:]))
            return tf.reshape(product, [sizes[0], sizes[1], sizes[2], self.filters])
        if is_usable(inputs) and _pays(inputs, self.strides[0]):
            return convolve_by_rows(inputs, kernel, self.strides[0], self.padding.upper())
        return super().convolution_op(inputs, kernel)


def _pays(x: tf.Tensor, stride: int) -> bool:
    """Whether `convolve_by_rows` is faster: measured, docs/speed.md. oneDNN is slow at strides and few places."""
    places = _places(x)
    few = places is not None and places <= 32
    return (stride > 1 or few) and (x.dtype == tf.bfloat16 or x.shape[3] >= 64)


def _places(x: tf.Tensor) -> int | None:
    """H * W of a map [N, H, W, C]; None if unknown."""
    return x.shape[1:3].num_elements()


def convolve_by_rows(x: tf.Tensor, kernel: tf.Tensor, stride: int, padding: str) -> tf.Tensor:
    """A convolution whose gradient with respect to the kernel is one matrix product; where `is_usable` holds.

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
