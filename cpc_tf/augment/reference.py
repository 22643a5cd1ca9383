"""The reference engine: applies a recipe operation by operation in TensorFlow, in the order of appendix A.

Each operation gets the patches that the recipe chose for it and returns them as uint8: none sees more precision than an
image file has.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from cpc_tf.augment.operations import OPERATIONS, all_primitives
from cpc_tf.augment.recipe import Recipe


def apply(patches: tf.Tensor, recipe: Recipe) -> tf.Tensor:
    """Applies a recipe, uint8 [N, P, P, 3] -> uint8 [N, P, P, 3]."""

    def step(name: str, chosen: tf.Tensor, *fields: tf.Tensor) -> tf.Tensor:
        return _where(chosen, OPERATIONS[name].function, patches, *fields)

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


def _where(chosen: tf.Tensor, step: Callable, patches: tf.Tensor, *parameters: tf.Tensor) -> tf.Tensor:
    """Replaces the chosen patches by step(chosen patches, *their parameters)."""
    index = tf.where(chosen)  # [M, 1]
    changed = step(tf.gather_nd(patches, index), *(tf.gather_nd(x, index) for x in parameters))
    return tf.tensor_scatter_nd_update(patches, index, changed)
