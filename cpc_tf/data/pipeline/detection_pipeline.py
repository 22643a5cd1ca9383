"""The input pipeline of a detector: a source with boxes in, batches of canvases with boxes out."""

from __future__ import annotations

import tensorflow as tf

from cpc_tf.data.boxes import geometry
from cpc_tf.data.config import CanvasConfig
from cpc_tf.data.decoding.decode import image_size
from cpc_tf.data.pipeline import pipeline
from cpc_tf.data.source import NO_LABEL, DetectionSource, Select
from cpc_tf.data.views import canvas

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
    """Returns endless batches of augmented images with boxes; steps, hosts and arguments as in `pipeline.batches`.

    Returns:
      Static shapes, with B = per_batch, M = config.max_boxes:
        image: uint8 [B, canvas_height, canvas_width, 3], the image at the top left of a grey canvas.
        size: int32 [B, 2], (height, width) of the image on the canvas.
        boxes: float32 [B, M, 4], (ymin, xmin, ymax, xmax) in pixels of the canvas, half-open; padded with zeros.
        labels: int64 [B, M]; padded with -1.
        left_out: int32 [B], number of objects that are too small on the canvas or beyond the M largest.

    Raises:
      ValueError: global_batch is not divisible by the hosts and per_batch.
    """

    def prepare(example):
        view = canvas.draw(config, seed, example["counter"])
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

    `decoded` picks, by their positions, the images whose pixels are needed; the others are black. None: all images.

    Returns:
      With n the largest number of objects of an image of the batch; the last batch may be smaller:
        image, size: as in `batches`.
        scale: float32 [B, 2], canvas pixels per pixel of the image, (vertical, horizontal); boxes on the canvas divided
          by it are boxes in the image.
        name: string [B], the image's name in VOC's result files.
        boxes: float32 [B, n, 4], in pixels of the image, not of the canvas; padded with zeros.
        labels: int64 [B, n]; padded with -1.
        difficult: bool [B, n].
    """
    view = canvas.plain(config)

    def prepare(example):
        shown, scale = _shown(source, example, view, config, decoded)
        return {**shown, "scale": scale, **{name: example[name] for name in ("name", "boxes", "labels", "difficult")}}

    examples = source.ordered().map(prepare, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    fill = {**dict.fromkeys(examples.element_spec), "labels": tf.constant(NO_LABEL, tf.int64)}
    # A bound that does not depend on tf.data's autotuning: a canvas has 2 MB.
    return examples.padded_batch(batch_size, padding_values=fill).prefetch(_PREFETCH)


def _shown(source, example, view, config, decoded=None):
    """Returns {'image', 'size'} of an example on the canvas, and its scale, float32 [2]."""
    full = image_size(example["encoded"])
    size = canvas.fitted(full, view.area, config)

    def show():
        image = source.decode(example["encoded"], canvas.min_decode_side(config))
        return canvas.show(image, size, view, config)

    shape = [config.canvas_height, config.canvas_width, 3]
    image = pipeline.black_unless(decoded, example["counter"], show, shape)
    return {"image": image, "size": size}, tf.cast(size, tf.float32) / tf.cast(full, tf.float32)


def _padded(values, length, fill):
    """Pads [n, ...] to [length, ...]."""
    rest = [[0, 0]] * (values.shape.rank - 1)
    padded = tf.pad(values, [[0, length - tf.shape(values)[0]], *rest], constant_values=fill)
    return tf.ensure_shape(padded, [length, *values.shape[1:]])
