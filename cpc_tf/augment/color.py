"""Inception's colour distortion (Szegedy et al. 2014; slim's distort_color, not its fast mode), and grey.

A patch's distortion takes one of four orders of Brightness, Saturation, Hue and Contrast. Brightness and contrast
commute, for both are affine and contrast turns about the mean; so do saturation and hue. All four orders are thus two
rounds of (brightness and contrast, then saturation and hue), each with the identity where the order has nothing:

    BSHC = B SH . C .       SBCH = . S . BC H       CHBS = C H . B S       HSCB = . HS . CB .
"""

from __future__ import annotations

from typing import Callable

import tensorflow as tf

# Inception's four orders of Brightness, Saturation, Hue and Contrast (slim's distort_color).
COLOR_ORDERS = ("BSHC", "SBCH", "CHBS", "HSCB")
# Where each of them applies B, S, H and C: in the first round or the second.
FIRST_ROUND = ((1, 1, 1, 0), (0, 1, 0, 0), (0, 0, 1, 1), (0, 1, 1, 0))


def distort(patches: tf.Tensor, order: tf.Tensor, color: tf.Tensor) -> tf.Tensor:
    """Inception's distortion; the intermediate values are not clipped, the result is.

    Args:
      patches: float32 [N, P, P, 3], grey levels 0..255.
      order: int32 [N], index in COLOR_ORDERS.
      color: float32 [N, 4], brightness shift in grey levels, saturation, hue shift in turns, contrast.
    """
    neutral = tf.constant([0.0, 1.0, 0.0, 1.0])
    first = tf.gather(tf.constant(FIRST_ROUND) > 0, order)  # [N, 4]
    channels = tf.unstack(patches, axis=-1)  # planes of pixels run faster through the formulas than triples
    for now in (first, ~first):
        brightness, saturation, hue, contrast = tf.split(tf.where(now, color, neutral)[..., None], 4, axis=1)
        channels = [_brightness_contrast(x, brightness, contrast) for x in channels]
        channels = adjust_saturation_hue(channels, saturation, hue)
    return tf.clip_by_value(tf.stack(channels, axis=-1), 0.0, 255.0)


def _brightness_contrast(x: tf.Tensor, brightness: tf.Tensor, contrast: tf.Tensor) -> tf.Tensor:
    """tf.image.adjust_brightness and adjust_contrast, in either order; x is one channel, [N, P, P]."""
    mean = tf.reduce_mean(x, axis=(1, 2), keepdims=True)
    return x * contrast + (mean * (1 - contrast) + brightness)


def adjust_saturation_hue(channels: list[tf.Tensor], saturation: tf.Tensor, hue: tf.Tensor) -> list[tf.Tensor]:
    """tf.image.adjust_saturation and adjust_hue, in either order, in one formula.

    With value V and chroma C, channel = V - C' * clip(min(k, 4 - k), 0, 1), k = (6 (h + hue) + n) mod 6 and
    n = 5, 3, 1 for red, green, blue. Saturation makes C' = min(saturation * C, V), as no colour is darker than black.

    `channels` are red, green and blue, each [N, P, P]; the factor and the shift in turns are [N, 1, 1].
    """
    red, green, blue = channels
    value = tf.maximum(tf.maximum(red, green), blue)
    chroma = value - tf.minimum(tf.minimum(red, green), blue)
    sextant = tf.where(value == red, green - blue, tf.where(value == green, blue - red, red - green)) / tf.maximum(
        chroma, 1e-20
    ) + tf.where(value == red, 0.0, tf.where(value == green, 2.0, 4.0))
    # Values below black come from an earlier step. Only saturation pulls them up, so a factor of 1 must not.
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
    """A step on float32 grey levels as a step on uint8; halves are rounded up."""

    def rounded(patches: tf.Tensor, *parameters: tf.Tensor) -> tf.Tensor:
        return tf.cast(step(tf.cast(patches, tf.float32), *parameters) + 0.5, tf.uint8)

    return rounded
