"""The reference engine: applies a recipe operation by operation with TensorFlow, to be read beside appendix A.

Each operation takes the patches that the recipe chose for it and puts them back changed, as uint8: none ever sees more
precision than the image file had.
"""

from __future__ import annotations

from typing import Callable

import tensorflow as tf

from cpc_tf.augment.operations import OPERATIONS, all_primitives
from cpc_tf.augment.recipe import Recipe


def apply(patches: tf.Tensor, recipe: Recipe) -> tf.Tensor:
    """uint8 [N, P, P, 3] -> uint8 [N, P, P, 3]."""

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
    """Replaces the chosen patches by step(those patches, *their parameters)."""
    index = tf.where(chosen)  # [M, 1]
    changed = step(tf.gather_nd(patches, index), *(tf.gather_nd(x, index) for x in parameters))
    return tf.tensor_scatter_nd_update(patches, index, changed)
