"""Layer norm and ReLU as one operation of ours for CPUs (norm_relu.cc and its headers)."""

from __future__ import annotations

import functools
import pathlib

import tensorflow as tf
from absl import logging

from cpc_tf import native

_HERE = pathlib.Path(__file__).parent
LIBRARY = native.Library("norm_relu", (_HERE / "norm_relu.cc", *sorted(_HERE.glob("norm_relu*.h"))))


@functools.cache  # decides, and says so, once
def operations():
    """The module of the operations, or None where they cannot be built."""
    try:
        return LIBRARY.load()
    except native.BuildError as error:
        logging.warning("No native layer norm, training on CPUs is slower: %s", error)
        return None


def is_usable(x: tf.Tensor) -> bool:
    """Whether `normalize_native` may take x: native operations are allowed here, and x is on a CPU."""
    if not native.is_allowed() or x.dtype not in (tf.bfloat16, tf.float32):
        return False
    # A tensor of a graph may name no device: it will be on an accelerator if there is one.
    here = tf.DeviceSpec.from_string(x.device).device_type if x.device else None
    on_cpu = here == "CPU" if here else native.runs_on_cpu()
    return on_cpu and operations() is not None


def normalize_native(x: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor, relu: bool, epsilon: float) -> tf.Tensor:
    """`cpc_tf.encoders.norm.normalize` by our operation; call it only where `is_usable`."""

    @tf.custom_gradient
    def run(x: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor):
        y, mean, inverse = operations().cpc_norm_relu(x, scale, offset, relu=relu, epsilon=epsilon)

        def gradient(upstream: tf.Tensor):
            return tuple(operations().cpc_norm_relu_grad(x, scale, offset, mean, inverse, upstream, relu=relu))

        return y, gradient

    return run(x, scale, offset)
