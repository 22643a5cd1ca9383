"""Patch-based augmentation of appendix A: `draw` a recipe, then `apply` it."""

from __future__ import annotations

import functools

import tensorflow as tf
from absl import logging

from cpc_tf.augment.recipe import Recipe, draw, idle

__all__ = ["Recipe", "apply", "draw", "idle"]


@tf.autograph.experimental.do_not_convert  # plain operations: nothing in here branches on a tensor
def apply(patches: tf.Tensor, recipe: Recipe, engine: str = "auto") -> tf.Tensor:
    """Applies a recipe: uint8 [N, P, P, 3] -> uint8 [N, P, P, 3], a pure function.

    Args:
      patches: the patches of one image, of several, or whole images.
      recipe: what `draw` gave for as many patches of this size.
      engine: 'reference', 'native' or 'auto'; both do the same.
    """
    return _engine(engine)(patches, recipe)


@functools.cache  # 'auto' decides, and says so, once
def _engine(name: str):
    # Imported when needed: the native engine wants a compiler, which the other can do without.
    if name in ("auto", "native"):
        from cpc_tf.augment import build

        try:
            op = build.library().cpc_augment_patches
            return lambda patches, recipe: op(patches, *recipe)
        except build.BuildError as error:
            if name == "native":
                raise
            logging.warning("No native augmentation, the reference engine is several times slower: %s", error)
    elif name != "reference":
        raise ValueError(f"engine={name!r}: must be 'auto', 'reference' or 'native'")
    from cpc_tf.augment import reference

    return reference.apply
