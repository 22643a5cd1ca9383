"""The reference engine: applies a recipe step by step with TensorFlow, to be read beside appendix A.

Each step takes the patches that the recipe chose for it and puts them back changed, as uint8: a step never sees more
precision than the image file had.
"""

from __future__ import annotations

import warnings
from typing import Callable

import numpy as np
import tensorflow as tf

from cpc_tf.augment import color, primitives
from cpc_tf.augment.primitives import FILL
from cpc_tf.augment.recipe import CONTROL_POINTS, CONTROL_SPACING, CURVE_POINTS, Recipe

with warnings.catch_warnings():
    # It announces the end of its own development at every import.
    warnings.simplefilter("ignore")
    import tensorflow_addons as tfa


def apply(patches: tf.Tensor, recipe: Recipe) -> tf.Tensor:
    """uint8 [N, P, P, 3] -> uint8 [N, P, P, 3]."""
    # The early policies: CPC v1's jitter and Doersch's colour dropping.
    patches = _where(recipe.jitter[:, 0] > 0, jitter, patches, recipe.jitter)
    patches = _where(recipe.kept >= 0, keep_channel, patches, recipe.kept)
    # Appendix A, step 1: "Randomly choose two transformations from Cubuk et al. (2018)".
    for slot in range(recipe.op.shape[1]):
        for number, primitive in enumerate(primitives.FUNCTIONS):
            patches = _where(recipe.op[:, slot] == number, primitive, patches, recipe.magnitude[:, slot])
    # Step 2: "elastic deformation and shearing" and the "color-histogram augmentations" of De Fauw et al. (2018).
    patches = _where(recipe.elastic, elastic, patches, recipe.displacement, recipe.shear)
    patches = _where(recipe.histogram, map_levels, patches, recipe.curve)
    # Step 3: "the color augmentations from Szegedy et al. (2014)".
    patches = _where(recipe.distort, _in_float(color.distort), patches, recipe.order, recipe.color)
    # Step 4: "project the image to grey-scale".
    return _where(recipe.grey, _in_float(color.grey), patches)


def jitter(patches: tf.Tensor, offset: tf.Tensor) -> tf.Tensor:
    """CPC v1: a random part of the patch, padded back to its size (60 of 64 px in the paper).

    Args:
      patches: [N, P, P, 3].
      offset: [N, 3], px cut off a side, and how many of them at the top and at the left.
    """
    size = tf.shape(patches)[1]
    margin, start = offset[:, :1, None], offset[:, 1:, None]  # [N, 1, 1], [N, 2, 1]
    place = tf.range(size) - margin // 2  # [N, 1, P], in the part
    inside = (place >= 0) & (place < size - margin)
    source = tf.clip_by_value(place + start, 0, size - 1)  # [N, 2, P]
    patches = tf.gather(patches, source[:, 0], axis=1, batch_dims=1)
    patches = tf.gather(patches, source[:, 1], axis=2, batch_dims=1)
    inside = inside[:, 0, :, None, None] & inside[:, 0, None, :, None]  # [N, P, P, 1]
    return tf.where(inside, patches, tf.constant(FILL, tf.uint8))


def keep_channel(patches: tf.Tensor, kept: tf.Tensor) -> tf.Tensor:
    """Doersch et al. 2015: two of three channels are dropped.

    They replaced them by noise of a hundredth of the kept channel's deviation about the mean: below one grey level, so
    here the mean grey stands alone.
    """
    mask = tf.one_hot(kept, 3, on_value=True, off_value=False)[:, None, None, :]  # [N, 1, 1, 3]
    return tf.where(mask, patches, tf.constant(FILL, tf.uint8))


def elastic(patches: tf.Tensor, displacement: tf.Tensor, shear: tf.Tensor) -> tf.Tensor:
    """De Fauw et al. 2018: a grid of displaced control points, sheared about the centre, B-spline in between.

    Args:
      patches: uint8 [N, P, P, 3].
      displacement: float32 [N, 6, 6, 2], px.
      shear: float32 [N, 2].
    """
    size = patches.shape[1]
    identity = (np.arange(CONTROL_POINTS) - (CONTROL_POINTS - 1) / 2) * CONTROL_SPACING * size
    grid = np.stack(np.meshgrid(identity, identity, indexing="ij"), axis=-1).astype(np.float32)
    y, x = tf.unstack(grid + displacement, axis=-1)  # [N, 6, 6]
    s01, s10 = shear[:, 0, None, None], shear[:, 1, None, None]
    points = tf.stack([y + s01 * x, s10 * y + x], axis=-1) + (size - 1) / 2
    spline = spline_matrix(size)
    place = tf.einsum("yi,xj,nijc->nyxc", spline, spline, points)  # [N, P, P, 2]: where each pixel comes from

    # The border is mirrored without repeating the edge.
    period = 2.0 * (size - 1)
    place = tf.math.floormod(tf.abs(place), period)
    place = tf.minimum(place, period - place)
    # dense_image_warp takes pixel - flow.
    pixel = np.stack(np.meshgrid(np.arange(size), np.arange(size), indexing="ij"), axis=-1).astype(np.float32)
    warped = tfa.image.dense_image_warp(tf.cast(patches, tf.float32), pixel - place)
    return tf.cast(warped + 0.5, tf.uint8)


def map_levels(patches: tf.Tensor, curve: tf.Tensor) -> tf.Tensor:
    """De Fauw's colour histogram change: grey levels of each channel through a monotone B-spline, [N, 3, 5]."""
    table = 255 * tf.einsum("lk,nck->ncl", curve_matrix(), curve)
    return primitives.look_up(patches, table + 0.5)


def spline_matrix(size: int) -> np.ndarray:
    """Weights of the control points at every pixel of a side, float32 [P, 6]."""
    place = (np.arange(size) - (size - 1) / 2) / (CONTROL_SPACING * size) + (CONTROL_POINTS - 1) / 2
    return _cubic_b_spline(place, CONTROL_POINTS).astype(np.float32)


def curve_matrix() -> np.ndarray:
    """Weights of the five points of a curve at every grey level, float32 [256, 5]."""
    last = CURVE_POINTS - 1
    # One point more at either end, on the straight line through the last two; places are counted from it.
    extended = np.vstack([2 * np.eye(CURVE_POINTS)[0] - np.eye(CURVE_POINTS)[1], np.eye(CURVE_POINTS),
                          2 * np.eye(CURVE_POINTS)[last] - np.eye(CURVE_POINTS)[last - 1]])  # fmt: skip
    weights = _cubic_b_spline(np.arange(256) / 255 * last + 1, CURVE_POINTS + 2)
    return (weights @ extended).astype(np.float32)


def _cubic_b_spline(place: np.ndarray, points: int) -> np.ndarray:
    """Uniform cubic B-spline, which does not interpolate its points: weights [len(place), points]."""
    first = np.minimum(np.floor(place).astype(int), points - 3) - 1
    t = place - first - 1
    weights = np.stack([(1 - t) ** 3, 3 * t**3 - 6 * t**2 + 4, -3 * t**3 + 3 * t**2 + 3 * t + 1, t**3], axis=1) / 6
    matrix = np.zeros([len(place), points])
    np.put_along_axis(matrix, first[:, None] + np.arange(4), weights, axis=1)
    return matrix


def _where(chosen: tf.Tensor, step: Callable, patches: tf.Tensor, *parameters: tf.Tensor) -> tf.Tensor:
    """Replaces the chosen patches by step(those patches, *their parameters)."""
    index = tf.where(chosen)  # [M, 1]
    changed = step(tf.gather_nd(patches, index), *(tf.gather_nd(x, index) for x in parameters))
    return tf.tensor_scatter_nd_update(patches, index, changed)


def _in_float(step: Callable) -> Callable:
    """A step on float32 grey levels as a step on uint8; halves are rounded up."""

    def rounded(patches: tf.Tensor, *parameters: tf.Tensor) -> tf.Tensor:
        return tf.cast(step(tf.cast(patches, tf.float32), *parameters) + 0.5, tf.uint8)

    return rounded
