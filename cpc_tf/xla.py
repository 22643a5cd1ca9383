"""XLA: functions compiled by it, and products in full float32 on every device."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator

import tensorflow as tf

from cpc_tf import native

_COMPILED = contextvars.ContextVar("compiled", default=False)

# xla.PrecisionConfig: operand_precision HIGHEST of both operands.
_HIGHEST = bytes([0x0A, 2, 2, 2])


@contextlib.contextmanager
def tracing(compiled: bool) -> Iterator[None]:
    """Declares whether XLA compiles what this thread traces inside the context; `matmul` and `native` depend on it."""
    token = _COMPILED.set(compiled)
    try:
        with native.allowed(not compiled):
            yield
    finally:
        _COMPILED.reset(token)


def jit(function: Callable) -> Callable:
    """Returns the function, compiled by XLA."""

    def traced(*args):
        with tracing(compiled=True):
            return function(*args)

    return tf.function(traced, autograph=False, jit_compile=True)


def matmul(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """Computes a times b transposed, and its gradients, in full float32 on every device.

    XLA multiplies float32 in TF32 on NVIDIA's GPUs from Ampere on, and in a single bfloat16 pass on TPUs, unless a
    product asks for more: this one asks for the precision HIGHEST. Without XLA, GPUs compute it in float64, since
    TensorFlow can turn TF32 off only for all products and convolutions.

    Args:
      a: float32 [G, n, D].
      b: float32 [G, m, D].

    Returns:
      float32 [G, n, m].
    """
    if _COMPILED.get():
        product = _dot
    elif tf.config.list_logical_devices("GPU"):
        product = _in_float64
    else:
        return tf.matmul(a, b, transpose_b=True)

    @tf.custom_gradient
    def run(a: tf.Tensor, b: tf.Tensor):
        return product(a, b, 2, 2), lambda upstream: (product(upstream, b, 2, 1), product(upstream, a, 1, 1))

    return run(a, b)


def _dot(a: tf.Tensor, b: tf.Tensor, a_axis: int, b_axis: int) -> tf.Tensor:
    """The batched product that sums over these axes of a and b, [G, ..., ...] each."""
    from tensorflow.compiler.tf2xla.ops.gen_xla_ops import xla_dot  # no public operation takes a precision

    # xla.DotDimensionNumbers: contracting dimensions of a and b, batch dimensions of a and b.
    fields = enumerate((a_axis, b_axis, 0, 0), start=1)
    numbers = b"".join(bytes([field << 3 | 2, 1, axis]) for field, axis in fields)
    return xla_dot(a, b, dimension_numbers=numbers, precision_config=_HIGHEST)


def _in_float64(a: tf.Tensor, b: tf.Tensor, a_axis: int, b_axis: int) -> tf.Tensor:
    a, b = tf.cast(a, tf.float64), tf.cast(b, tf.float64)
    return tf.cast(tf.matmul(a, b, transpose_a=a_axis == 1, transpose_b=b_axis == 2), tf.float32)
