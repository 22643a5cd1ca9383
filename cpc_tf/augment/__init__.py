"""Patch-based augmentation of appendix A: `draw` a recipe, then `apply` it."""

from __future__ import annotations

import functools
import pathlib

import tensorflow as tf
from absl import logging

from cpc_tf.augment import reference
from cpc_tf.augment.recipe import Recipe, draw, idle
from cpc_tf.native import BuildError, Library

__all__ = ["Recipe", "apply", "draw", "idle"]

LIBRARY = Library("augment", pathlib.Path(__file__).parent)  # the native engine: op.cc, patch.h


@tf.autograph.experimental.do_not_convert  # nothing here branches on a tensor
def apply(patches: tf.Tensor, recipe: Recipe, engine: str = "auto") -> tf.Tensor:
    """Applies a recipe, uint8 [N, P, P, 3] -> uint8 [N, P, P, 3].

    Args:
      patches: patches of one image or several, or whole images.
      recipe: from `draw`, for as many patches of this size.
      engine: 'reference', 'native' or 'auto'; the result is the same.
    """
    return _engine(engine)(patches, recipe)


@functools.cache  # 'auto' decides, and says so, once
def _engine(name: str):
    if name in ("auto", "native"):
        try:
            op = LIBRARY.load().cpc_augment_patches
            return lambda patches, recipe: op(patches, *recipe)
        except BuildError as error:
            if name == "native":
                raise
            logging.warning("No native augmentation, the reference engine is several times slower: %s", error)
    elif name != "reference":
        raise ValueError(f"engine={name!r}: must be 'auto', 'reference' or 'native'")
    return reference.apply
