"""Batches of images with boxes on canvases of fixed size: random scale, mirroring, colour dropping.

Doersch et al. 2015 resize an image to a random total area and keep its aspect ratio. A batch needs
images of one size, so the image is put at the top left of a grey canvas.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from cpc_tf.boxes import geometry
from cpc_tf.boxes.config import CanvasConfig
from cpc_tf.boxes.source import DetectionSource
from cpc_tf.data import pipeline
from cpc_tf.data.decode import image_size
from cpc_tf.data.source import CANVAS, NO_LABEL, Select, random_key
from cpc_tf.data.views import GREY, resize


class CanvasView(NamedTuple):
    """How an image is put on the canvas."""

    area: tf.Tensor  # float32 scalar: px it is resized to
    mirrored: tf.Tensor  # bool scalar
    kept: tf.Tensor  # int32 scalar: the one channel that is kept, -1 for all


def draw(config: CanvasConfig, seed: int, counter: tf.Tensor) -> CanvasView:
    """Draws the view of a training example. Areas are uniform, as in Doersch et al."""
    numbers = tf.random.stateless_uniform([4], random_key(seed, CANVAS, counter))
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
        tf.constant(config.test_area * config.area_scale, tf.float32),
        tf.constant(False),
        tf.constant(-1),
    )


def min_decode_side(config: CanvasConfig) -> int:
    """Returns the `least_side` for `decode`: no view shows the shorter side of an image larger."""
    largest = max(config.largest_area, config.test_area) * config.area_scale
    return min(int(largest**0.5) + 1, config.canvas_height, config.canvas_width)


def fitted(size: tf.Tensor, area: tf.Tensor, config: CanvasConfig) -> tf.Tensor:
    """Returns the size of an image resized to an area, or to the canvas if that is smaller: int32
    [2] -> int32 [2].
    """
    size = tf.cast(size, tf.float32)
    canvas = tf.constant([config.canvas_height, config.canvas_width])
    factor = tf.minimum(
        tf.sqrt(area / tf.reduce_prod(size)), tf.reduce_min(tf.cast(canvas, tf.float32) / size)
    )
    # A narrow strip keeps at least one pixel.
    return tf.clip_by_value(tf.cast(tf.round(size * factor), tf.int32), 1, canvas)


def show(image: tf.Tensor, size: tf.Tensor, view: CanvasView, config: CanvasConfig) -> tf.Tensor:
    """Resizes and mirrors an image, drops its colours, and puts it at the top left of a grey
    canvas.

    uint8 [H, W, 3] -> uint8 [canvas_height, canvas_width, 3]; `size`, int32 [2], is (height, width)
    on the canvas.
    """
    image = resize(image, size[0], size[1])
    image = tf.cond(view.mirrored, lambda: tf.reverse(image, axis=[1]), lambda: image)
    visible = (view.kept < 0) | tf.one_hot(view.kept, 3, on_value=True, off_value=False)
    image = tf.where(visible, image, tf.constant(GREY, tf.uint8))
    below = config.canvas_height - size[0]
    right = config.canvas_width - size[1]
    image = tf.pad(image, [[0, below], [0, right], [0, 0]], constant_values=GREY)
    return tf.ensure_shape(image, [config.canvas_height, config.canvas_width, 3])


_PREFETCH = 2  # batches of a test


def batches(
    source: DetectionSource,
    config: CanvasConfig,
    *,
    global_batch: int,
    seed: int,
    start_step: int = 0,
    shard: tuple[int, int] = (0, 1),
    per_batch: int | None = None,
) -> tf.data.Dataset:
    """Returns endless batches of augmented images with boxes; steps, hosts and arguments as in
    `pipeline.batches`.

    Returns:
      Static shapes, with B = per_batch, M = config.max_boxes:
        image: uint8 [B, canvas_height, canvas_width, 3], the image at the top left of a grey
          canvas.
        size: int32 [B, 2], (height, width) of the image on the canvas.
        boxes: float32 [B, M, 4], (ymin, xmin, ymax, xmax) in pixels of the canvas, half-open;
          padded with zeros.
        labels: int64 [B, M]; padded with -1.
        left_out: int32 [B], number of objects that are too small on the canvas or beyond the M
          largest.

    Raises:
      ValueError: global_batch is not divisible by the hosts and per_batch.
    """

    def prepare(example):
        view = draw(config, seed, example["counter"])
        shown, scale = _shown(source, example, view, config)
        boxes = example["boxes"] * tf.tile(scale, [2])
        width = tf.cast(shown["size"][1], tf.float32)
        boxes = tf.cond(view.mirrored, lambda: geometry.mirror(boxes, width), lambda: boxes)
        places = geometry.choose(boxes, config.smallest_box, config.max_boxes)
        return {
            **shown,
            "boxes": _padded(tf.gather(boxes, places), config.max_boxes, 0.0),
            "labels": _padded(tf.gather(example["labels"], places), config.max_boxes, NO_LABEL),
            "left_out": tf.size(example["labels"]) - tf.size(places),
        }

    return pipeline.endless(source, prepare, global_batch, seed, start_step, shard, per_batch)


def plain_batches(
    source: DetectionSource, config: CanvasConfig, batch_size: int, decoded: Select = None
) -> tf.data.Dataset:
    """Returns each image, in order, at the test area, with all its objects.

    `decoded` picks, by their positions, the images whose pixels are needed; the others are black.
    None: all images.

    Returns:
      With n the largest number of objects of an image of the batch; the last batch may be smaller:
        image, size: as in `batches`.
        scale: float32 [B, 2], canvas pixels per pixel of the image, (vertical, horizontal); boxes
          on the canvas divided by it are boxes in the image.
        name: string [B], the image's name in VOC's result files.
        boxes: float32 [B, n, 4], in pixels of the image, not of the canvas; padded with zeros.
        labels: int64 [B, n]; padded with -1.
        difficult: bool [B, n].
    """
    view = plain(config)

    def prepare(example):
        shown, scale = _shown(source, example, view, config, decoded)
        return {
            **shown,
            "scale": scale,
            **{name: example[name] for name in ("name", "boxes", "labels", "difficult")},
        }

    examples = source.ordered().map(
        prepare, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
    )
    fill = {**dict.fromkeys(examples.element_spec), "labels": tf.constant(NO_LABEL, tf.int64)}
    # A bound that does not depend on tf.data's autotuning: a canvas has 2 MB.
    return examples.padded_batch(batch_size, padding_values=fill).prefetch(_PREFETCH)


def _shown(source, example, view, config, decoded=None):
    """Returns {'image', 'size'} of an example on the canvas, and its scale, float32 [2]."""
    full = image_size(example["encoded"])
    size = fitted(full, view.area, config)

    def on_canvas():
        image = source.decode(example["encoded"], min_decode_side(config))
        return {"image": show(image, size, view, config)}

    shapes = {"image": [config.canvas_height, config.canvas_width, 3]}
    image = pipeline.black_unless(decoded, example["counter"], on_canvas, shapes)
    return {**image, "size": size}, tf.cast(size, tf.float32) / tf.cast(full, tf.float32)


def _padded(values, length, fill):
    """Pads [n, ...] to [length, ...]."""
    rest = [[0, 0]] * (values.shape.rank - 1)
    padded = tf.pad(values, [[0, length - tf.shape(values)[0]], *rest], constant_values=fill)
    return tf.ensure_shape(padded, [length, *values.shape[1:]])
