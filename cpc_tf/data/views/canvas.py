"""An image and its boxes on a canvas of fixed size: random scale, mirroring, colour dropping.

Doersch et al. 2015 resize an image to a random total area and keep its aspect ratio. A batch needs images of one size,
so the image is put at the top left of a grey canvas.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from cpc_tf.data import keys
from cpc_tf.data.config import CanvasConfig
from cpc_tf.data.views import geometry

_GREY = geometry.GREY  # of the canvas, and of dropped channels as under --augment=colour_drop


class CanvasView(NamedTuple):
    """How an image is put on the canvas."""

    area: tf.Tensor  # float32 scalar: px it is resized to
    mirrored: tf.Tensor  # bool scalar
    kept: tf.Tensor  # int32 scalar: the one channel that is kept, -1 for all


def draw(config: CanvasConfig, seed: int, counter: tf.Tensor) -> CanvasView:
    """Draws the view of a training example. Areas are uniform, as in Doersch et al."""
    numbers = tf.random.stateless_uniform([4], keys.key(seed, keys.VIEW, counter))
    area = config.smallest_area + numbers[0] * (config.largest_area - config.smallest_area)
    dropped = numbers[2] < config.canvas_colour_drop
    return CanvasView(
        area=area * config.area_scale,
        mirrored=(numbers[1] < 0.5) & config.canvas_mirror,
        kept=tf.where(dropped, tf.cast(numbers[3] * 3, tf.int32), -1),
    )


def plain(config: CanvasConfig) -> CanvasView:
    """Returns the view of an image in evaluation."""
    return CanvasView(
        tf.constant(config.test_area * config.area_scale, tf.float32), tf.constant(False), tf.constant(-1)
    )


def min_decode_side(config: CanvasConfig) -> int:
    """Returns the `least_side` for `decode`: no view shows the shorter side of an image larger."""
    largest = max(config.largest_area, config.test_area) * config.area_scale
    return min(int(largest**0.5) + 1, config.canvas_height, config.canvas_width)


def fitted(size: tf.Tensor, area: tf.Tensor, config: CanvasConfig) -> tf.Tensor:
    """Returns the size of an image resized to an area, or to the canvas if that is smaller: int32 [2] -> int32 [2]."""
    size = tf.cast(size, tf.float32)
    canvas = tf.constant([config.canvas_height, config.canvas_width])
    factor = tf.minimum(tf.sqrt(area / tf.reduce_prod(size)), tf.reduce_min(tf.cast(canvas, tf.float32) / size))
    # A narrow strip keeps at least one pixel.
    return tf.clip_by_value(tf.cast(tf.round(size * factor), tf.int32), 1, canvas)


def show(image: tf.Tensor, size: tf.Tensor, view: CanvasView, config: CanvasConfig) -> tf.Tensor:
    """Resizes and mirrors an image, drops its colours, and puts it at the top left of a grey canvas.

    uint8 [H, W, 3] -> uint8 [canvas_height, canvas_width, 3]; `size`, int32 [2], is (height, width) on the canvas.
    """
    image = geometry.resize(image, size[0], size[1])
    image = tf.cond(view.mirrored, lambda: tf.reverse(image, axis=[1]), lambda: image)
    shown = (view.kept < 0) | tf.one_hot(view.kept, 3, on_value=True, off_value=False)
    image = tf.where(shown, image, tf.constant(_GREY, tf.uint8))
    below, right = config.canvas_height - size[0], config.canvas_width - size[1]
    image = tf.pad(image, [[0, below], [0, right], [0, 0]], constant_values=_GREY)
    return tf.ensure_shape(image, [config.canvas_height, config.canvas_width, 3])
