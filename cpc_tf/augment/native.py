"""The native engine: our C++ op (op.cc, patch.h), what reference.py does, on one cache-resident patch at a time."""

from __future__ import annotations

import functools

import tensorflow as tf

from cpc_tf.augment import build
from cpc_tf.augment.recipe import Recipe


@functools.cache
def library():
    """The loaded op library, built first if need be; raises build.BuildError."""
    path = build.build()
    try:
        return tf.load_op_library(str(path))
    except (tf.errors.OpError, OSError) as error:
        raise build.BuildError(f"cannot load {path}: {error}") from error


def apply(patches: tf.Tensor, recipe: Recipe) -> tf.Tensor:
    """uint8 [N, P, P, 3] -> uint8 [N, P, P, 3]."""
    return library().cpc_augment_patches(patches, *recipe)
