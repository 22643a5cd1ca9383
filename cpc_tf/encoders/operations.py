"""The encoder's operations in C++ (norm_relu.cc, im2col.cc), which are used in training steps on CPUs."""

from __future__ import annotations

import functools
import pathlib

import tensorflow as tf
from absl import logging

from cpc_tf import native

LIBRARY = native.Library("encoders", pathlib.Path(__file__).parent)


@functools.cache  # builds, or warns, once
def operations():
    """The module of the operations, or None where they cannot be built."""
    try:
        return LIBRARY.load()
    except native.BuildError as error:
        logging.warning("No native operations of the encoder, training on CPUs is slower: %s", error)
        return None


def is_usable(x: tf.Tensor) -> bool:
    """Whether our operations are allowed here and x is on a CPU."""
    if not native.is_allowed() or x.dtype not in (tf.bfloat16, tf.float32):
        return False
    # A tensor of a graph may name no device: it will be on an accelerator if there is one.
    here = tf.DeviceSpec.from_string(x.device).device_type if x.device else None
    on_cpu = here == "CPU" if here else native.runs_on_cpu()
    return on_cpu and operations() is not None
