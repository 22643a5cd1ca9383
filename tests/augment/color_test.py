"""Inception's colour distortion against tf.image, op by op in float."""

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.augment import color
from cpc_tf.augment.color import COLOR_ORDERS

RNG = np.random.default_rng(0)


def _with_tf_image(image, order, brightness, saturation, hue, contrast):
    """slim's distort_color on [0, 1]; the brightness shift is in grey levels."""
    ops = {
        "B": lambda x: tf.image.adjust_brightness(x, brightness / 255),
        "S": lambda x: tf.image.adjust_saturation(x, saturation),
        "H": lambda x: tf.image.adjust_hue(x, hue),
        "C": lambda x: tf.image.adjust_contrast(x, contrast),
    }
    image = tf.constant(image, tf.float32) / 255
    for op in order:
        image = ops[op](image)
    return tf.clip_by_value(image, 0, 1) * 255


@pytest.mark.parametrize("order", range(4))
def test_each_order_is_slims(order):
    n = 32
    patches = RNG.integers(0, 256, (n, 12, 12, 3)).astype(np.float32)
    # Dark and light patches too: there the steps leave the range, and only the end is clipped.
    patches[8:16] *= 0.1
    patches[16:24] = 255 - 0.1 * patches[16:24]
    numbers = RNG.uniform([-32, 0.5, -0.2, 0.5], [32, 1.5, 0.2, 1.5], (n, 4)).astype(np.float32)
    ours = color.distort(patches, np.full(n, order, np.int32), numbers)
    theirs = [_with_tf_image(x, COLOR_ORDERS[order], *row) for x, row in zip(patches, numbers)]
    np.testing.assert_allclose(ours, theirs, atol=0.02)


@pytest.mark.parametrize("order", range(4))
def test_neutral_numbers_change_nothing(order):
    patches = RNG.integers(0, 256, (4, 9, 9, 3)).astype(np.float32)
    ours = color.distort(patches, np.full(4, order, np.int32), np.tile(np.float32([0, 1, 0, 1]), (4, 1)))
    np.testing.assert_allclose(ours, patches, atol=1e-3)


def test_hue_of_a_third_turn_rotates_the_channels():
    patches = RNG.integers(0, 256, (2, 5, 5, 3)).astype(np.float32)
    turned = color.adjust_saturation_hue(tf.unstack(patches, axis=-1), tf.ones([2, 1, 1]), tf.fill([2, 1, 1], 1 / 3))
    np.testing.assert_allclose(tf.stack(turned, -1), np.roll(patches, 1, axis=-1), atol=1e-3)


def test_grey_is_tf_images():
    patches = RNG.integers(0, 256, (4, 9, 9, 3)).astype(np.float32)
    np.testing.assert_allclose(color.grey(patches)[..., :1], tf.image.rgb_to_grayscale(patches), atol=1e-3)
