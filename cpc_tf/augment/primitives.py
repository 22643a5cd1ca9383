"""AutoAugment's primitives (Cubuk et al. 2018) on uint8 patches, equal to PIL's functions grey level by grey level.

Each takes patches uint8 [N, P, P, 3] and magnitudes float32 [N].
Warps take the nearest pixel, PIL's default and so AutoAugment's, and fill with grey. PIL's functions are those of the
same name in ImageOps, ImageEnhance and libImaging.
"""

from __future__ import annotations

import math

import tensorflow as tf

FILL = 128  # mid-grey, outside a patch, as in AutoAugment


def shear_x(patches: tf.Tensor, magnitude: tf.Tensor) -> tf.Tensor:
    return warp(patches, b=magnitude)


def shear_y(patches: tf.Tensor, magnitude: tf.Tensor) -> tf.Tensor:
    return warp(patches, d=magnitude)


def translate_x(patches: tf.Tensor, magnitude: tf.Tensor) -> tf.Tensor:
    return warp(patches, c=_whole(magnitude))


def translate_y(patches: tf.Tensor, magnitude: tf.Tensor) -> tf.Tensor:
    return warp(patches, f=_whole(magnitude))


def rotate(patches: tf.Tensor, magnitude: tf.Tensor) -> tf.Tensor:
    """Counter-clockwise about the centre, in degrees."""
    angle = tf.cast(magnitude, tf.float64) * (-math.pi / 180)
    cosine, sine = tf.cos(angle), tf.sin(angle)
    centre = tf.cast(tf.shape(patches)[1], tf.float64) / 2
    column, row = centre - centre * (cosine + sine), centre - centre * (cosine - sine)
    return warp(patches, a=cosine, b=sine, c=column, d=-sine, e=cosine, f=row)


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
    n, pixels = tf.shape(patches)[0], tf.shape(patches)[1] * tf.shape(patches)[2]
    values = tf.cast(tf.transpose(patches, [0, 3, 1, 2]), tf.int32)
    counts = tf.math.bincount(tf.reshape(values, [n * 3, pixels]), minlength=256, maxlength=256, axis=-1)
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
    """PIL's Image.blend: `start` at factor 0, the patch at 1, and beyond; the result is truncated, not rounded."""
    start = tf.cast(start, tf.float32)
    mixed = start + _per_patch(factor) * (tf.cast(patches, tf.float32) - start)
    return tf.cast(tf.clip_by_value(mixed, 0.0, 255.0), tf.uint8)


def look_up(patches: tf.Tensor, table: tf.Tensor) -> tf.Tensor:
    """Looks levels up in tables [N, 3, 256] of any number type, which are clipped to uint8."""
    table = tf.cast(tf.clip_by_value(table, 0, 255), tf.uint8)
    planes = tf.transpose(patches, [0, 3, 1, 2])  # [N, 3, P, P]
    return tf.transpose(tf.gather(table, tf.cast(planes, tf.int32), batch_dims=2), [0, 2, 3, 1])


def warp(patches: tf.Tensor, a=1.0, b=0.0, c=0.0, d=0.0, e=1.0, f=0.0) -> tf.Tensor:
    """PIL's affine transformation: output (x, y) shows input (a x + b y + c, d x + e y + f).

    The coefficients are numbers or [N]. Pixel centres lie at halves; the arithmetic is 16.16 fixed point, as in
    libImaging's affine_fixed.
    """
    n, size = tf.shape(patches)[0], tf.shape(patches)[1]
    a, b, c, d, e, f = (tf.broadcast_to(tf.cast(x, tf.float64), [n]) for x in (a, b, c, d, e, f))

    def fixed(x) -> tf.Tensor:
        return tf.cast(tf.floor(x * 65536 + 0.5), tf.int32)[:, None, None]

    x, y = tf.range(size)[None, None, :], tf.range(size)[None, :, None]
    column = (fixed(a) * x + fixed(b) * y + fixed(c + a * 0.5 + b * 0.5)) // 65536  # [N, P, P]
    row = (fixed(d) * x + fixed(e) * y + fixed(f + d * 0.5 + e * 0.5)) // 65536
    inside = (column >= 0) & (column < size) & (row >= 0) & (row < size)
    index = tf.reshape(tf.where(inside, row * size + column, 0), [n, -1])
    warped = tf.gather(tf.reshape(patches, [n, size * size, 3]), index, batch_dims=1)
    return tf.where(inside[..., None], tf.reshape(warped, tf.shape(patches)), tf.constant(FILL, tf.uint8))
