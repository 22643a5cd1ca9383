"""An image and its boxes on a canvas of fixed size: random scale, mirroring, colour dropping.

Doersch et al. 2015 resize an image to a random total area, its aspect ratio kept; a batch wants one size. So the image
stands at the top left of a canvas, the rest of which is grey.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import tensorflow as tf

from cpc_tf.data import keys
from cpc_tf.settings import ConfigError, Settings, setting

_GREY = 128  # beside the image, and in dropped channels as under --augment=colour_drop


@dataclasses.dataclass(frozen=True)
class CanvasConfig(Settings):
    """How images with objects are shown to a detector."""

    canvas_height: int = setting(
        800, "of the canvas; what does not fit onto it is shrunk further", unit="px", minimum=1
    )
    canvas_width: int = setting(800, "of the canvas", unit="px", minimum=1)
    smallest_area: int = setting(
        150_000, "least area a training image is resized to", unit="px", source="Doersch 2015", minimum=1
    )
    largest_area: int = setting(450_000, "largest area, alike", unit="px", source="Doersch 2015", minimum=1)
    test_area: int = setting(300_000, "area a test image is resized to", unit="px", minimum=1)
    area_scale: float = setting(1.0, "factor on these three areas, for data sets of small images", above=0)
    canvas_mirror: bool = setting(True, "mirror half of the training images left to right, with their boxes")
    canvas_colour_drop: float = setting(
        0.5,
        "probability of keeping one channel of three of a training image",
        source="Doersch 2015",
        minimum=0,
        maximum=1,
    )
    smallest_box: float = setting(
        2.0, "boxes with a shorter side, after resizing, are not learned", unit="px", minimum=0
    )
    max_boxes: int = setting(100, "boxes of a training image; of more, the largest", minimum=1)

    def check(self):
        if self.smallest_area > self.largest_area:
            raise ConfigError(f"--smallest_area={self.smallest_area}: above --largest_area={self.largest_area}")
        for name in ("largest_area", "test_area"):
            area = getattr(self, name) * self.area_scale
            if area > self.canvas_height * self.canvas_width:
                raise ConfigError(
                    f"--{name}={getattr(self, name)}: times --area_scale={self.area_scale:g} it is more than the "
                    f"{self.canvas_height} x {self.canvas_width} px of --canvas_height and --canvas_width"
                )


class View(NamedTuple):
    """How one image is shown."""

    area: tf.Tensor  # float32 scalar: px it is resized to
    mirrored: tf.Tensor  # bool scalar
    kept: tf.Tensor  # int32 scalar: the one channel that is kept, -1 for all


def draw(config: CanvasConfig, seed: int, counter: tf.Tensor) -> View:
    """The random view of an example in training. Areas are uniform, as Doersch's."""
    # The scale takes the place of a crop here.
    numbers = tf.random.stateless_uniform([4], keys.key(seed, keys.CROP, counter))
    area = config.smallest_area + numbers[0] * (config.largest_area - config.smallest_area)
    dropped = numbers[2] < config.canvas_colour_drop
    return View(
        area=area * config.area_scale,
        mirrored=(numbers[1] < 0.5) & config.canvas_mirror,
        kept=tf.where(dropped, tf.cast(numbers[3] * 3, tf.int32), -1),
    )


def plain(config: CanvasConfig) -> View:
    """The view of an image in evaluation."""
    return View(tf.constant(config.test_area * config.area_scale, tf.float32), tf.constant(False), tf.constant(-1))


def enough(config: CanvasConfig) -> int:
    """No image need be decoded at a shorter side than this, for no view shows it larger."""
    largest = max(config.largest_area, config.test_area) * config.area_scale
    return min(int(largest**0.5) + 1, config.canvas_height, config.canvas_width)


def fitted(size: tf.Tensor, area: tf.Tensor, config: CanvasConfig) -> tf.Tensor:
    """Sides of an image of this size, resized to an area or to the canvas if that is less. int32 [2] -> int32 [2]."""
    size = tf.cast(size, tf.float32)
    canvas = tf.constant([config.canvas_height, config.canvas_width])
    factor = tf.minimum(tf.sqrt(area / tf.reduce_prod(size)), tf.reduce_min(tf.cast(canvas, tf.float32) / size))
    # Of a strip, one pixel stays.
    return tf.clip_by_value(tf.cast(tf.round(size * factor), tf.int32), 1, canvas)


def show(image: tf.Tensor, size: tf.Tensor, view: View, config: CanvasConfig) -> tf.Tensor:
    """The image resized, mirrored, with colours dropped, at the top left of a grey canvas.

    Args:
      image: uint8 [H, W, 3].
      size: int32 [2], (height, width) on the canvas.
      view: mirroring and colours.

    Returns:
      uint8 [canvas_height, canvas_width, 3].
    """
    image = _resize(image, size)
    image = tf.cond(view.mirrored, lambda: tf.reverse(image, axis=[1]), lambda: image)
    shown = (view.kept < 0) | tf.one_hot(view.kept, 3, on_value=True, off_value=False)
    image = tf.where(shown, image, tf.constant(_GREY, tf.uint8))
    below, right = config.canvas_height - size[0], config.canvas_width - size[1]
    image = tf.pad(image, [[0, below], [0, right], [0, 0]], constant_values=_GREY)
    return tf.ensure_shape(image, [config.canvas_height, config.canvas_width, 3])


def _resize(image, size):
    """uint8 [H, W, 3] -> uint8 [size[0], size[1], 3]: the mean of each footprint if smaller, else bilinear."""
    smaller = tf.reduce_all(tf.shape(image)[:2] >= size)
    resized = tf.cond(
        smaller,
        lambda: tf.image.resize(image, size, method="area"),
        lambda: tf.image.resize(image, size, method="bilinear"),
    )
    return tf.cast(tf.round(resized), tf.uint8)
