"""Applies recipes to patches: the native engine, our C++ operation, and the reference engine in TensorFlow."""

from __future__ import annotations

import functools
import pathlib

import tensorflow as tf
from absl import logging

from cpc_tf.augment.operations import OPERATIONS, all_primitives
from cpc_tf.augment.policies import Policy
from cpc_tf.augment.recipe import Recipe
from cpc_tf.native import BuildError, Library

LIBRARY = Library("augment", pathlib.Path(__file__).parent)  # the native engine: op.cc, patch.h


@tf.autograph.experimental.do_not_convert  # nothing here branches on a tensor
def apply(patches: tf.Tensor, recipe: Recipe, engine: str = "auto") -> tf.Tensor:
    """Applies a recipe, uint8 [N, P, P, 3] -> uint8 [N, P, P, 3].

    Args:
      patches: patches or whole images.
      recipe: from `draw`, for as many patches of this size.
      engine: 'reference', 'native' or 'auto'; the result is the same.
    """
    return _engine(engine)(patches, recipe)


def at_test(images: tf.Tensor, policy: Policy) -> tf.Tensor:
    """Shows images as a test of what learned with a policy does, uint8 [..., 3] -> uint8 [..., 3].

    "None at test time" (Sec. 4.1) is said of what is random. A policy that makes all images grey keeps them grey.
    """
    return grey(images) if policy.always_grey else images


def grey(images: tf.Tensor) -> tf.Tensor:
    """Returns grey images with three equal channels, uint8 [..., 3] -> uint8 [..., 3]."""
    return OPERATIONS["grey"].function(images)


@functools.cache  # 'auto' decides, and warns, once
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
    return _reference


def _reference(patches: tf.Tensor, recipe: Recipe) -> tf.Tensor:
    """Applies a recipe operation by operation, in the order of appendix A; each one returns uint8, as an image file."""

    def step(name: str, chosen: tf.Tensor, *fields: tf.Tensor) -> tf.Tensor:
        index = tf.where(chosen)  # [M, 1]
        changed = OPERATIONS[name].function(*(tf.gather_nd(x, index) for x in (patches, *fields)))
        return tf.tensor_scatter_nd_update(patches, index, changed)

    # The early policies: CPC v1's jitter and Doersch's colour dropping.
    patches = step("jitter", recipe.jitter[:, 0] > 0, recipe.jitter)
    patches = step("drop_channels", recipe.kept >= 0, recipe.kept)
    # Appendix A, step 1: "Randomly choose two transformations from Cubuk et al. (2018)".
    for slot in range(recipe.op.shape[1]):
        for primitive in all_primitives():
            patches = step(primitive.name, recipe.op[:, slot] == primitive.number, recipe.magnitude[:, slot])
    # Step 2: "elastic deformation and shearing" and the "color-histogram augmentations" of De Fauw et al. (2018).
    patches = step("elastic", recipe.elastic, recipe.displacement, recipe.shear)
    patches = step("histogram", recipe.histogram, recipe.curve)
    # Step 3: "the color augmentations from Szegedy et al. (2014)".
    patches = step("distort", recipe.distort, recipe.order, recipe.color)
    # Step 4: "project the image to grey-scale".
    return step("grey", recipe.grey)
