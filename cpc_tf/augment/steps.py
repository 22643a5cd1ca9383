"""Steps beside AutoAugment's primitives: the early policies, De Fauw's two steps, colour.

Each step takes uint8 patches [N, P, P, 3] and its fields of a recipe, and returns uint8 patches.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from cpc_tf.augment.primitives import FILL, look_up

# Elastic deformation: control points per axis, and their distance as a fraction of the patch's side. From the
# multidim-image-augmentation colab, scaled: 101 px for a 241 px target become 33 px for 80 px.
CONTROL_POINTS = 6
CONTROL_SPACING = 33 / 80

CURVE_POINTS = 5  # of a channel's map of grey levels

# Inception's four orders of Brightness, Saturation, Hue and Contrast (slim's distort_color, not its fast mode).
# Brightness and contrast commute (both are affine, and contrast keeps the mean); so do saturation and hue. Each order
# is thus two rounds of (brightness and contrast, then saturation and hue), some of them without effect:
#     BSHC = B SH . C .       SBCH = . S . BC H       CHBS = C H . B S       HSCB = . HS . CB .
COLOR_ORDERS = ("BSHC", "SBCH", "CHBS", "HSCB")
# Where each of them applies B, S, H and C: in the first round or the second.
_FIRST_ROUND = ((1, 1, 1, 0), (0, 1, 0, 0), (0, 0, 1, 1), (0, 1, 1, 0))


def jitter(patches: tf.Tensor, offset: tf.Tensor) -> tf.Tensor:
    """CPC v1: pads a random part of the patch back to its size (60 of 64 px in the paper).

    `offset` [N, 3]: px cut off a side, and how many of them at the top and at the left.
    """
    size = tf.shape(patches)[1]
    margin, start = offset[:, :1, None], offset[:, 1:, None]  # [N, 1, 1], [N, 2, 1]
    index = tf.range(size) - margin // 2  # [N, 1, P], in the part
    inside = (index >= 0) & (index < size - margin)
    source = tf.clip_by_value(index + start, 0, size - 1)  # [N, 2, P]
    patches = tf.gather(patches, source[:, 0], axis=1, batch_dims=1)
    patches = tf.gather(patches, source[:, 1], axis=2, batch_dims=1)
    inside = inside[:, 0, :, None, None] & inside[:, 0, None, :, None]  # [N, P, P, 1]
    return tf.where(inside, patches, tf.constant(FILL, tf.uint8))


def keep_channel(patches: tf.Tensor, kept: tf.Tensor) -> tf.Tensor:
    """Doersch et al. 2015: replaces two of three channels by mid-grey; their noise about it is below one grey level."""
    mask = tf.one_hot(kept, 3, on_value=True, off_value=False)[:, None, None, :]  # [N, 1, 1, 3]
    return tf.where(mask, patches, tf.constant(FILL, tf.uint8))


def elastic(patches: tf.Tensor, displacement: tf.Tensor, shear: tf.Tensor) -> tf.Tensor:
    """De Fauw et al. 2018: a B-spline over control points, displaced by px [N, 6, 6, 2] and sheared by [N, 2]."""
    size = patches.shape[1]
    identity = (np.arange(CONTROL_POINTS) - (CONTROL_POINTS - 1) / 2) * CONTROL_SPACING * size
    grid = np.stack(np.meshgrid(identity, identity, indexing="ij"), axis=-1).astype(np.float32)
    y, x = tf.unstack(grid + displacement, axis=-1)  # [N, 6, 6]
    s01, s10 = shear[:, 0, None, None], shear[:, 1, None, None]
    points = tf.stack([y + s01 * x, s10 * y + x], axis=-1) + (size - 1) / 2
    spline = spline_matrix(size)
    position = tf.einsum("yi,xj,nijc->nyxc", spline, spline, points)  # [N, P, P, 2]: where each pixel comes from

    # The border is mirrored without repeating the edge.
    period = 2.0 * (size - 1)
    position = tf.math.floormod(tf.abs(position), period)
    position = tf.minimum(position, period - position)
    return tf.cast(warp(tf.cast(patches, tf.float32), position) + 0.5, tf.uint8)


def warp(images: tf.Tensor, position: tf.Tensor) -> tf.Tensor:
    """Takes each pixel from a place in the image, bilinear; `dense_image_warp` of tensorflow-addons.

    float32 [N, H, W, C] -> [N, H, W, C], H and W at least 2. `position`, float32 [N, H, W, 2], is row and column in px;
    places outside are moved to the border.
    """
    corner, weights = [], []
    for place, side in zip(tf.unstack(position, axis=-1), images.shape[1:3]):
        first = tf.clip_by_value(tf.floor(place), 0, side - 2)
        corner.append(tf.cast(first, tf.int32))
        weights.append(tf.clip_by_value(place - first, 0, 1)[..., None])

    def pixels(down: int, right: int) -> tf.Tensor:
        return tf.gather_nd(images, tf.stack([corner[0] + down, corner[1] + right], axis=-1), batch_dims=1)

    def between(a: tf.Tensor, b: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
        return weight * (b - a) + a

    top, bottom = (between(pixels(row, 0), pixels(row, 1), weights[1]) for row in (0, 1))
    return between(top, bottom, weights[0])


def map_levels(patches: tf.Tensor, curve: tf.Tensor) -> tf.Tensor:
    """De Fauw's colour histogram change: maps each channel's grey levels by a monotone B-spline, `curve` [N, 3, 5]."""
    table = 255 * tf.einsum("lk,nck->ncl", curve_matrix(), curve)
    return look_up(patches, table + 0.5)


def spline_matrix(size: int) -> np.ndarray:
    """Returns the weights of the control points at every pixel of a side, float32 [P, 6]."""
    position = (np.arange(size) - (size - 1) / 2) / (CONTROL_SPACING * size) + (CONTROL_POINTS - 1) / 2
    return cubic_b_spline(position, CONTROL_POINTS).astype(np.float32)


def curve_matrix() -> np.ndarray:
    """Returns the weights of the five points of a curve at every grey level, float32 [256, 5]."""
    last = CURVE_POINTS - 1
    # One point more at either end, on the straight line through the last two; positions are counted from it.
    points = np.eye(CURVE_POINTS)
    extended = np.vstack([2 * points[0] - points[1], points, 2 * points[last] - points[last - 1]])
    weights = cubic_b_spline(np.arange(256) / 255 * last + 1, CURVE_POINTS + 2)
    return (weights @ extended).astype(np.float32)


def cubic_b_spline(position: np.ndarray, points: int) -> np.ndarray:
    """Returns the weights of a uniform cubic B-spline, which approximates its points: [len(position), points]."""
    first = np.minimum(np.floor(position).astype(int), points - 3) - 1
    t = position - first - 1
    weights = np.stack([(1 - t) ** 3, 3 * t**3 - 6 * t**2 + 4, -3 * t**3 + 3 * t**2 + 3 * t + 1, t**3], axis=1) / 6
    matrix = np.zeros([len(position), points])
    np.put_along_axis(matrix, first[:, None] + np.arange(4), weights, axis=1)
    return matrix


def distort(patches: tf.Tensor, order: tf.Tensor, color: tf.Tensor) -> tf.Tensor:
    """Inception's colour distortion (Szegedy et al. 2014) of float32 grey levels 0..255, clipped at the end alone."""
    neutral = tf.constant([0.0, 1.0, 0.0, 1.0])
    first = tf.gather(tf.constant(_FIRST_ROUND) > 0, order)  # [N, 4]
    channels = tf.unstack(patches, axis=-1)  # planes of pixels run faster through the formulas than triples
    for now in (first, ~first):
        brightness, saturation, hue, contrast = tf.split(tf.where(now, color, neutral)[..., None], 4, axis=1)
        # tf.image.adjust_brightness and adjust_contrast, in either order.
        means = [tf.reduce_mean(x, axis=(1, 2), keepdims=True) for x in channels]
        channels = [x * contrast + (mean * (1 - contrast) + brightness) for x, mean in zip(channels, means)]
        channels = _adjust_saturation_hue(channels, saturation, hue)
    return tf.clip_by_value(tf.stack(channels, axis=-1), 0.0, 255.0)


def _adjust_saturation_hue(channels: list[tf.Tensor], saturation: tf.Tensor, hue: tf.Tensor) -> list[tf.Tensor]:
    """tf.image.adjust_saturation and adjust_hue, in either order, in one formula.

    With value V and chroma C, channel = V - C' * clip(min(k, 4 - k), 0, 1), k = (6 (h + hue) + n) mod 6 and
    n = 5, 3, 1 for red, green, blue. Saturation makes C' = min(saturation * C, V), as no colour is darker than black.

    `channels` are red, green and blue, each [N, P, P]; the factor and the shift in turns are [N, 1, 1].
    """
    red, green, blue = channels
    value = tf.maximum(tf.maximum(red, green), blue)
    chroma = value - tf.minimum(tf.minimum(red, green), blue)
    difference = tf.where(value == red, green - blue, tf.where(value == green, blue - red, red - green))
    offset = tf.where(value == red, 0.0, tf.where(value == green, 2.0, 4.0))
    sextant = difference / tf.maximum(chroma, 1e-20) + offset
    # An earlier step can leave values below black. A change of saturation raises them to black, a factor of 1 does not.
    saturated = tf.where(saturation == 1.0, chroma, tf.maximum(tf.minimum(saturation * chroma, value), 0.0))
    sextant += 6 * hue
    shifted = []
    for n in (5.0, 3.0, 1.0):
        k = sextant + n
        k -= 6 * tf.floor(k * (1 / 6))
        shifted.append(value - saturated * tf.clip_by_value(tf.minimum(k, 4 - k), 0.0, 1.0))
    return shifted


def grey(patches: tf.Tensor) -> tf.Tensor:
    """tf.image.rgb_to_grayscale, in three channels; float32 [N, P, P, 3]."""
    red, green, blue = tf.unstack(patches, axis=-1)
    luma = 0.2989 * red + 0.587 * green + 0.114 * blue
    return tf.stack([luma, luma, luma], axis=-1)


def on_levels(step: Callable) -> Callable:
    """Turns a step on float32 grey levels into one on uint8; halves are rounded up."""
    return lambda patches, *fields: tf.cast(step(tf.cast(patches, tf.float32), *fields) + 0.5, tf.uint8)


distort_uint8, grey_uint8 = on_levels(distort), on_levels(grey)
