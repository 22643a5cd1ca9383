"""Draws all random numbers of a set of patches at once, and applies them: a pure function of
tensors.

The numbers come from `tf.random.stateless_*`, keyed by (seed, example counter): an example gets the
same patches in any thread or batch and after a restart, and a tf.data iterator that draws them can
be checkpointed. They are applied by the native engine, the C++ operation, or by the reference
engine in TensorFlow.
"""

from __future__ import annotations

import functools
import itertools
import pathlib
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

from cpc_tf.augment.config import AugmentConfig
from cpc_tf.augment.operations import OPERATIONS, Policy, all_primitives
from cpc_tf.augment.reference import COLOR_ORDERS, CONTROL_POINTS, CURVE_POINTS
from cpc_tf.core.native import BuildError, Library

# Added to the seed, so that these numbers differ from others of the same (seed, counter), such as
# the crop's.
_UNIFORM = 1 << 40
_NORMAL = 2 << 40


class Recipe(NamedTuple):
    """All random numbers of N patches, in the order of application."""

    # int32 [N, 3]: px cut off a side (0: no jitter), rows cut at the top, columns cut at the left
    jitter: tf.Tensor
    kept: tf.Tensor  # int32 [N]: the one channel that is kept, -1 for all
    op: tf.Tensor  # int32 [N, T]: numbers of primitives
    magnitude: tf.Tensor  # float32 [N, T]: in the primitive's own unit
    elastic: tf.Tensor  # bool [N]: whether the patch is deformed
    displacement: tf.Tensor  # float32 [N, 6, 6, 2]: of the control points, (row, column) in px
    shear: tf.Tensor  # float32 [N, 2]: rows by column, columns by row
    histogram: tf.Tensor  # bool [N]: whether its grey levels are mapped
    curve: tf.Tensor  # float32 [N, 3, 5]: each channel's map at inputs 0, 1/4, .. 1
    distort: tf.Tensor  # bool [N]: whether its colours are distorted
    order: tf.Tensor  # int32 [N]: index in COLOR_ORDERS
    # float32 [N, 4]: brightness shift in grey levels, saturation, hue shift in turns, contrast
    color: tf.Tensor
    grey: tf.Tensor  # bool [N]: whether it becomes grey


@tf.autograph.experimental.do_not_convert
def draw(config: AugmentConfig, seed, counter, num_patches: int, patch_size: int) -> Recipe:
    """Draws the recipe of one image's patches of `patch_size` px from the run's seed and the
    example's counter.
    """
    policy = config.policy
    margin = 0
    if policy.entries["jitter"]:
        margin = int(patch_size * policy.entries["jitter.margin"] + 0.5)
    seed = tf.cast(seed, tf.int64)
    counter = tf.cast(counter, tf.int64)

    # One block of numbers between these bounds, a row per patch: few operations on many numbers are
    # fast. A new layout would change every recipe, so new numbers belong in a block of their own.
    coins = {
        name: policy.entries[name]
        for name in ("drop_channels", "elastic", "histogram", "distort", "grey")
    }
    columns = {
        **{name: [(0, 1)] for name in coins},
        "jitter": [(0, margin + 1)] * 2,
        "kept": [(0, 3)],
        "order": [(0, len(COLOR_ORDERS))],
        "choice": [(0, len(policy.among))] * policy.chosen,
        "shear": policy.bounds("elastic", patch_size),
        "curve": [(-1, 1)] * (3 * CURVE_POINTS),
        "color": policy.bounds("distort", patch_size),
        "strength": [(0, 1)] * policy.chosen,
    }
    low, high = np.float32([*itertools.chain(*columns.values())]).T  # [columns] each
    block = tf.random.stateless_uniform(
        [num_patches, len(low)], [seed + _UNIFORM, counter], alg="philox"
    )
    drawn = tf.split(
        low + block * (high - low), [len(column) for column in columns.values()], axis=1
    )
    drawn = dict(zip(columns, drawn))  # [N, number of columns] each
    coin = {}  # [N] each
    for name, probability in coins.items():
        coin[name] = drawn[name][:, 0] < probability
    integer = {}
    for name in ("jitter", "kept", "order", "choice"):
        integer[name] = tf.cast(drawn[name], tf.int32)

    # The displacements of the elastic deformation.
    grid = [num_patches, CONTROL_POINTS, CONTROL_POINTS, 2]
    if policy.entries["elastic"]:
        normal = tf.random.stateless_normal(grid, [seed + _NORMAL, counter], alg="philox")
    else:
        normal = tf.zeros(grid)

    # The primitives that are chosen, and their magnitudes.
    op = integer["choice"]  # [N, T], place in the policy's list
    magnitude = drawn["strength"]  # [N, T], 0..1 from low to high
    if policy.chosen:
        bounds = [policy.bounds(primitive.name, patch_size)[0] for primitive in policy.among]
        low, high = np.float32(bounds).T
        magnitude = tf.gather(low, op) + magnitude * tf.gather(high - low, op)
        op = tf.gather(np.int32([primitive.number for primitive in policy.among]), op)

    return Recipe(
        jitter=tf.pad(integer["jitter"], [[0, 0], [1, 0]], constant_values=margin),
        kept=tf.where(coin["drop_channels"], integer["kept"][:, 0], -1),
        op=op,
        magnitude=magnitude,
        elastic=coin["elastic"],
        displacement=normal * (policy.entries["elastic.sigma"] * patch_size),
        shear=drawn["shear"],
        histogram=coin["histogram"],
        curve=_monotone_curve(
            tf.reshape(drawn["curve"], [-1, 3, CURVE_POINTS]), **policy.ranges("histogram")
        ),
        distort=coin["distort"],
        order=integer["order"][:, 0],
        color=drawn["color"],
        grey=coin["grey"],
    )


def idle(num_patches: int, patch_size: int) -> Recipe:
    """Returns a recipe that changes nothing, to be filled in by `_replace`."""
    return draw(AugmentConfig(augment="none"), 0, 0, num_patches, patch_size)


def _monotone_curve(v: tf.Tensor, shift: float, slope: float) -> tf.Tensor:
    """Returns random curves with bounded slopes from `v`, float32 [N, 3, 5], uniform on -1..1.

    Black and white come first, shifted by at most `shift`, then twice the points midway. A point
    midway changes the slope s before it to s + r and the slope behind it to s - r. Both stay within
    bounds if
    |r| <= min(s - flattest, steepest - s).
    """
    steepest = slope
    flattest = 1 / slope

    def halved(slope: tf.Tensor, v: tf.Tensor) -> tf.Tensor:  # [N, 3, k] -> [N, 3, k, 2]
        turn = tf.minimum(slope - flattest, steepest - slope) * v
        return tf.stack([slope + turn, slope - turn], axis=-1)

    black, white, middle, quarters = tf.split(v, [1, 1, 1, 2], axis=-1)
    black = black * shift
    white = white * shift + 1
    slopes = halved(halved(white - black, middle)[:, :, 0], quarters)  # [N, 3, 2, 2]
    steps = tf.reshape(slopes / (CURVE_POINTS - 1), [-1, 3, CURVE_POINTS - 1])
    return tf.cumsum(tf.concat([black, steps], axis=-1), axis=-1)  # [N, 3, 5]


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

    "None at test time" (Sec. 4.1) is about random operations. A policy that makes all images grey
    keeps them grey.
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
            logging.warning(
                "No native augmentation, the reference engine is several times slower: %s", error
            )
    elif name != "reference":
        raise ValueError(f"engine={name!r}: must be 'auto', 'reference' or 'native'")
    return _reference


def _reference(patches: tf.Tensor, recipe: Recipe) -> tf.Tensor:
    """Applies a recipe operation by operation, in the order of appendix A; each one returns
    uint8.
    """

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
            patches = step(
                primitive.name, recipe.op[:, slot] == primitive.number, recipe.magnitude[:, slot]
            )
    # Step 2: "elastic deformation and shearing" and the "color-histogram augmentations" of De Fauw
    # et al. (2018).
    patches = step("elastic", recipe.elastic, recipe.displacement, recipe.shear)
    patches = step("histogram", recipe.histogram, recipe.curve)
    # Step 3: "the color augmentations from Szegedy et al. (2014)".
    patches = step("distort", recipe.distort, recipe.order, recipe.color)
    # Step 4: "project the image to grey-scale".
    return step("grey", recipe.grey)
