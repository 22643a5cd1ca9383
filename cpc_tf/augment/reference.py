"""Every operation in TensorFlow: the reference that the native engine equals bit by bit.

AutoAugment's primitives (Cubuk et al. 2018) equal PIL's functions of the same name in ImageOps,
ImageEnhance and libImaging grey level by grey level. Warps take the nearest pixel, PIL's default
and so AutoAugment's, and fill with grey. A primitive takes patches uint8 [N, P, P, 3] and
magnitudes float32 [N]; a step takes patches and its fields of a recipe. Both return uint8 patches.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import tensorflow as tf

FILL = 128  # mid-grey, outside a patch, as in AutoAugment


def shear_x(patches: tf.Tensor, magnitude: tf.Tensor) -> tf.Tensor:
    return affine(patches, b=magnitude)


def shear_y(patches: tf.Tensor, magnitude: tf.Tensor) -> tf.Tensor:
    return affine(patches, d=magnitude)


def translate_x(patches: tf.Tensor, magnitude: tf.Tensor) -> tf.Tensor:
    return affine(patches, c=_whole(magnitude))


def translate_y(patches: tf.Tensor, magnitude: tf.Tensor) -> tf.Tensor:
    return affine(patches, f=_whole(magnitude))


def rotate(patches: tf.Tensor, magnitude: tf.Tensor) -> tf.Tensor:
    """Counter-clockwise about the centre, in degrees."""
    angle = tf.cast(magnitude, tf.float64) * (-math.pi / 180)
    cosine = tf.cos(angle)
    sine = tf.sin(angle)
    centre = tf.cast(tf.shape(patches)[1], tf.float64) / 2
    column = centre - centre * (cosine + sine)
    row = centre - centre * (cosine - sine)
    return affine(patches, a=cosine, b=sine, c=column, d=-sine, e=cosine, f=row)


def auto_contrast(patches: tf.Tensor, magnitude: tf.Tensor) -> tf.Tensor:
    """Stretches each channel to the whole range."""
    low = tf.cast(tf.reduce_min(patches, axis=(1, 2)), tf.float64)[..., None]  # [N, 3, 1]
    high = tf.cast(tf.reduce_max(patches, axis=(1, 2)), tf.float64)[..., None]
    scale = tf.where(high > low, 255 / tf.maximum(high - low, 1), 1)
    offset = tf.where(high > low, -low * scale, 0)
    # Truncated, not rounded, and in double precision like Python.
    return look_up(patches, tf.cast(tf.range(256), tf.float64) * scale + offset)


def invert(patches: tf.Tensor, magnitude: tf.Tensor) -> tf.Tensor:
    return 255 - patches


def equalize(patches: tf.Tensor, magnitude: tf.Tensor) -> tf.Tensor:
    """Makes each channel's grey levels equally frequent."""
    n = tf.shape(patches)[0]
    pixels = tf.shape(patches)[1] * tf.shape(patches)[2]
    values = tf.cast(tf.transpose(patches, [0, 3, 1, 2]), tf.int32)
    counts = tf.math.bincount(
        tf.reshape(values, [n * 3, pixels]), minlength=256, maxlength=256, axis=-1
    )
    counts = tf.reshape(counts, [n, 3, 256])
    # How often the lightest level occurs.
    last = tf.gather(counts, tf.reduce_max(values, axis=(2, 3)), batch_dims=2)  # [N, 3]
    step = ((pixels - last) // 255)[..., None]
    below = tf.cumsum(counts, axis=-1, exclusive=True)
    table = (step // 2 + below) // tf.maximum(step, 1)
    return look_up(patches, tf.where(step > 0, table, tf.range(256)))


def solarize(patches: tf.Tensor, magnitude: tf.Tensor) -> tf.Tensor:
    """Inverts levels from the threshold on."""
    return tf.where(tf.cast(patches, tf.float32) < _per_patch(magnitude), patches, 255 - patches)


def posterize(patches: tf.Tensor, magnitude: tf.Tensor) -> tf.Tensor:
    """Keeps the highest bits: the magnitude, rounded down, is their number."""
    dropped = 8 - tf.cast(tf.clip_by_value(magnitude, 0.0, 8.0), tf.int32)
    mask = tf.cast(256 - tf.bitwise.left_shift(1, dropped), tf.uint8)
    return tf.bitwise.bitwise_and(patches, _per_patch(mask))


def contrast(patches: tf.Tensor, magnitude: tf.Tensor) -> tf.Tensor:
    mean = tf.reduce_mean(tf.cast(luma(patches), tf.float64), axis=(1, 2, 3))
    return blend(_per_patch(tf.floor(mean + 0.5)), patches, magnitude)


def color(patches: tf.Tensor, magnitude: tf.Tensor) -> tf.Tensor:
    return blend(luma(patches), patches, magnitude)


def brightness(patches: tf.Tensor, magnitude: tf.Tensor) -> tf.Tensor:
    return blend(tf.zeros_like(patches), patches, magnitude)


def sharpness(patches: tf.Tensor, magnitude: tf.Tensor) -> tf.Tensor:
    """Blends with the smoothed patch; PIL does not smooth the border."""
    values = tf.cast(patches, tf.int32)
    # The sum over 3x3 pixels, the middle one five times.
    rows = values[:, :-2] + values[:, 1:-1] + values[:, 2:]
    total = rows[:, :, :-2] + rows[:, :, 1:-1] + rows[:, :, 2:] + 4 * values[:, 1:-1, 1:-1]
    smooth = (2 * total + 13) // 26  # total / 13, rounded
    inside = tf.pad(tf.ones_like(smooth, tf.bool), [[0, 0], [1, 1], [1, 1], [0, 0]])
    smooth = tf.where(inside, tf.pad(smooth, [[0, 0], [1, 1], [1, 1], [0, 0]]), values)
    return blend(smooth, patches, magnitude)


def _whole(magnitude: tf.Tensor) -> tf.Tensor:
    """Rounds shifts in px: [N] -> float64 [N]."""
    return tf.floor(tf.cast(magnitude, tf.float64) + 0.5)


def _per_patch(x: tf.Tensor) -> tf.Tensor:
    return x[:, None, None, None]


def luma(patches: tf.Tensor) -> tf.Tensor:
    """PIL's convert("L"): int32 [N, P, P, 1]."""
    weighted = tf.cast(patches, tf.int32) * [19595, 38470, 7471]
    return (tf.reduce_sum(weighted, axis=-1, keepdims=True) + 0x8000) // 0x10000


def blend(start: tf.Tensor, patches: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
    """PIL's Image.blend: `start` at factor 0, the patch at 1, and beyond; the result is truncated,
    not rounded.
    """
    start = tf.cast(start, tf.float32)
    mixed = start + _per_patch(factor) * (tf.cast(patches, tf.float32) - start)
    return tf.cast(tf.clip_by_value(mixed, 0.0, 255.0), tf.uint8)


def look_up(patches: tf.Tensor, table: tf.Tensor) -> tf.Tensor:
    """Looks levels up in tables [N, 3, 256] of any number type, which are clipped to uint8."""
    table = tf.cast(tf.clip_by_value(table, 0, 255), tf.uint8)
    planes = tf.transpose(patches, [0, 3, 1, 2])  # [N, 3, P, P]
    return tf.transpose(tf.gather(table, tf.cast(planes, tf.int32), batch_dims=2), [0, 2, 3, 1])


def affine(patches: tf.Tensor, a=1.0, b=0.0, c=0.0, d=0.0, e=1.0, f=0.0) -> tf.Tensor:
    """PIL's affine transformation: output (x, y) shows input (a x + b y + c, d x + e y + f).

    The coefficients are numbers or [N]. Pixel centres lie at halves; the arithmetic is 16.16 fixed
    point, as in libImaging's affine_fixed.
    """
    n = tf.shape(patches)[0]
    size = tf.shape(patches)[1]
    a, b, c, d, e, f = (tf.broadcast_to(tf.cast(x, tf.float64), [n]) for x in (a, b, c, d, e, f))

    def fixed(x) -> tf.Tensor:
        return tf.cast(tf.floor(x * 65536 + 0.5), tf.int32)[:, None, None]

    x = tf.range(size)[None, None, :]
    y = tf.range(size)[None, :, None]
    column = (fixed(a) * x + fixed(b) * y + fixed(c + a * 0.5 + b * 0.5)) // 65536  # [N, P, P]
    row = (fixed(d) * x + fixed(e) * y + fixed(f + d * 0.5 + e * 0.5)) // 65536
    inside = (column >= 0) & (column < size) & (row >= 0) & (row < size)
    index = tf.reshape(tf.where(inside, row * size + column, 0), [n, -1])
    warped = tf.gather(tf.reshape(patches, [n, size * size, 3]), index, batch_dims=1)
    return tf.where(
        inside[..., None], tf.reshape(warped, tf.shape(patches)), tf.constant(FILL, tf.uint8)
    )


# Elastic deformation: control points per axis, and their distance as a fraction of the patch's
# side. From the multidim-image-augmentation colab, scaled: 101 px for a 241 px target become 33 px
# for 80 px.
CONTROL_POINTS = 6
CONTROL_SPACING = 33 / 80

CURVE_POINTS = 5  # of a channel's map of grey levels

# Inception's four orders of Brightness, Saturation, Hue and Contrast (slim's distort_color, not its
# fast mode). Brightness and contrast commute (both are affine, and contrast keeps the mean); so do
# saturation and hue. Each order is thus two rounds of (brightness and contrast, then saturation and
# hue), some of them without effect:
#     BSHC = B SH . C .       SBCH = . S . BC H       CHBS = C H . B S       HSCB = . HS . CB .
COLOR_ORDERS = ("BSHC", "SBCH", "CHBS", "HSCB")
# Where each of them applies B, S, H and C: in the first round or the second.
_FIRST_ROUND = ((1, 1, 1, 0), (0, 1, 0, 0), (0, 0, 1, 1), (0, 1, 1, 0))


def jitter(patches: tf.Tensor, offset: tf.Tensor) -> tf.Tensor:
    """CPC v1: pads a random part of the patch back to its size (60 of 64 px in the paper).

    `offset` [N, 3]: px cut off a side, and how many of them at the top and at the left.
    """
    size = tf.shape(patches)[1]
    # [N, 1, 1], [N, 2, 1]
    margin = offset[:, :1, None]
    start = offset[:, 1:, None]
    index = tf.range(size) - margin // 2  # [N, 1, P], in the part
    inside = (index >= 0) & (index < size - margin)
    source = tf.clip_by_value(index + start, 0, size - 1)  # [N, 2, P]
    patches = tf.gather(patches, source[:, 0], axis=1, batch_dims=1)
    patches = tf.gather(patches, source[:, 1], axis=2, batch_dims=1)
    inside = inside[:, 0, :, None, None] & inside[:, 0, None, :, None]  # [N, P, P, 1]
    return tf.where(inside, patches, tf.constant(FILL, tf.uint8))


def keep_channel(patches: tf.Tensor, kept: tf.Tensor) -> tf.Tensor:
    """Doersch et al. 2015: replaces two of three channels by mid-grey; their noise about it is
    below one grey level.
    """
    mask = tf.one_hot(kept, 3, on_value=True, off_value=False)[:, None, None, :]  # [N, 1, 1, 3]
    return tf.where(mask, patches, tf.constant(FILL, tf.uint8))


def elastic(patches: tf.Tensor, displacement: tf.Tensor, shear: tf.Tensor) -> tf.Tensor:
    """De Fauw et al. 2018: a B-spline over control points, displaced by px [N, 6, 6, 2] and sheared
    by [N, 2].
    """
    size = patches.shape[1]
    identity = (np.arange(CONTROL_POINTS) - (CONTROL_POINTS - 1) / 2) * CONTROL_SPACING * size
    grid = np.stack(np.meshgrid(identity, identity, indexing="ij"), axis=-1).astype(np.float32)
    y, x = tf.unstack(grid + displacement, axis=-1)  # [N, 6, 6]
    s01 = shear[:, 0, None, None]
    s10 = shear[:, 1, None, None]
    points = tf.stack([y + s01 * x, s10 * y + x], axis=-1) + (size - 1) / 2
    spline = spline_matrix(size)
    # [N, P, P, 2]: where each pixel comes from
    position = tf.einsum("yi,xj,nijc->nyxc", spline, spline, points)

    # The border is mirrored without repeating the edge.
    period = 2.0 * (size - 1)
    position = tf.math.floormod(tf.abs(position), period)
    position = tf.minimum(position, period - position)
    return tf.cast(warp(tf.cast(patches, tf.float32), position) + 0.5, tf.uint8)


def warp(images: tf.Tensor, position: tf.Tensor) -> tf.Tensor:
    """Takes each pixel from a place in the image, bilinear; `dense_image_warp` of
    tensorflow-addons.

    float32 [N, H, W, C] -> [N, H, W, C], H and W at least 2. `position`, float32 [N, H, W, 2], is
    row and column in px; places outside are moved to the border.
    """
    corner = []
    weights = []
    for place, side in zip(tf.unstack(position, axis=-1), images.shape[1:3]):
        first = tf.clip_by_value(tf.floor(place), 0, side - 2)
        corner.append(tf.cast(first, tf.int32))
        weights.append(tf.clip_by_value(place - first, 0, 1)[..., None])

    def pixels(down: int, right: int) -> tf.Tensor:
        return tf.gather_nd(
            images, tf.stack([corner[0] + down, corner[1] + right], axis=-1), batch_dims=1
        )

    def between(a: tf.Tensor, b: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
        return weight * (b - a) + a

    top, bottom = (between(pixels(row, 0), pixels(row, 1), weights[1]) for row in (0, 1))
    return between(top, bottom, weights[0])


def map_levels(patches: tf.Tensor, curve: tf.Tensor) -> tf.Tensor:
    """De Fauw's colour histogram change: maps each channel's grey levels by a monotone B-spline,
    `curve` [N, 3, 5].
    """
    table = 255 * tf.einsum("lk,nck->ncl", curve_matrix(), curve)
    return look_up(patches, table + 0.5)


def spline_matrix(size: int) -> np.ndarray:
    """Returns the weights of the control points at every pixel of a side, float32 [P, 6]."""
    from_centre = (np.arange(size) - (size - 1) / 2) / (CONTROL_SPACING * size)
    position = from_centre + (CONTROL_POINTS - 1) / 2
    return cubic_b_spline(position, CONTROL_POINTS).astype(np.float32)


def curve_matrix() -> np.ndarray:
    """Returns the weights of the five points of a curve at every grey level, float32 [256, 5]."""
    last = CURVE_POINTS - 1
    # One point more at either end, on the straight line through the last two; positions are counted
    # from it.
    points = np.eye(CURVE_POINTS)
    extended = np.vstack([2 * points[0] - points[1], points, 2 * points[last] - points[last - 1]])
    weights = cubic_b_spline(np.arange(256) / 255 * last + 1, CURVE_POINTS + 2)
    return (weights @ extended).astype(np.float32)


def cubic_b_spline(position: np.ndarray, points: int) -> np.ndarray:
    """Returns the weights of a uniform cubic B-spline, which approximates its points:
    [len(position), points].
    """
    first = np.minimum(np.floor(position).astype(int), points - 3) - 1
    t = position - first - 1
    sixths = [(1 - t) ** 3, 3 * t**3 - 6 * t**2 + 4, -3 * t**3 + 3 * t**2 + 3 * t + 1, t**3]
    weights = np.stack(sixths, axis=1) / 6  # [len(position), 4]
    matrix = np.zeros([len(position), points])
    np.put_along_axis(matrix, first[:, None] + np.arange(4), weights, axis=1)
    return matrix


def distort(patches: tf.Tensor, order: tf.Tensor, color: tf.Tensor) -> tf.Tensor:
    """Inception's colour distortion (Szegedy et al. 2014) of float32 grey levels 0..255, clipped at
    the end alone.
    """
    neutral = tf.constant([0.0, 1.0, 0.0, 1.0])
    first = tf.gather(tf.constant(_FIRST_ROUND) > 0, order)  # [N, 4]
    # Planes of pixels run faster through the formulas than triples.
    channels = tf.unstack(patches, axis=-1)
    for now in (first, ~first):
        brightness, saturation, hue, contrast = tf.split(
            tf.where(now, color, neutral)[..., None], 4, axis=1
        )
        # tf.image.adjust_brightness and adjust_contrast, in either order.
        means = [tf.reduce_mean(x, axis=(1, 2), keepdims=True) for x in channels]
        channels = [
            x * contrast + (mean * (1 - contrast) + brightness) for x, mean in zip(channels, means)
        ]
        channels = _adjust_saturation_hue(channels, saturation, hue)
    return tf.clip_by_value(tf.stack(channels, axis=-1), 0.0, 255.0)


def _adjust_saturation_hue(
    channels: list[tf.Tensor], saturation: tf.Tensor, hue: tf.Tensor
) -> list[tf.Tensor]:
    """tf.image.adjust_saturation and adjust_hue, in either order, in one formula.

    With value V and chroma C, channel = V - C' * clip(min(k, 4 - k), 0, 1), k = (6 (h + hue) + n)
    mod 6 and n = 5, 3, 1 for red, green, blue. Saturation makes C' = min(saturation * C, V), as no
    colour is darker than black.

    `channels` are red, green and blue, each [N, P, P]; the factor and the shift in turns are [N, 1,
    1].
    """
    red, green, blue = channels
    value = tf.maximum(tf.maximum(red, green), blue)
    chroma = value - tf.minimum(tf.minimum(red, green), blue)
    difference = tf.where(
        value == red, green - blue, tf.where(value == green, blue - red, red - green)
    )
    offset = tf.where(value == red, 0.0, tf.where(value == green, 2.0, 4.0))
    sextant = difference / tf.maximum(chroma, 1e-20) + offset
    # An earlier step can leave values below black. A change of saturation raises them to black, a
    # factor of 1 does not.
    saturated = tf.where(
        saturation == 1.0, chroma, tf.maximum(tf.minimum(saturation * chroma, value), 0.0)
    )
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
    return lambda patches, *fields: tf.cast(
        step(tf.cast(patches, tf.float32), *fields) + 0.5, tf.uint8
    )


distort_uint8 = on_levels(distort)
grey_uint8 = on_levels(grey)
