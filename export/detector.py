"""A detection run -> its detector, a TF2 SavedModel for images of any size."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from cpc_tf.boxes import canvas
from cpc_tf.boxes.config import CanvasConfig
from cpc_tf.detect.faster_rcnn import FasterRCNN
from cpc_tf.export.shared import (
    BYTES,
    of_images,
    or_black,
)
from cpc_tf.export.verify import Reference

LEAST_SCORE = tf.TensorSpec([], tf.float32, name="least_score")


class HubDetector(tf.Module):
    """Images [N, H, W, 3], any N, H and W -> detections, K rows an image; detector.md.jinja
    describes them.

    Images are uint8, or floats in [0, 1]; they are put on a canvas as in the run's test. Behind the
    last detection 'labels' are -1, and the rest zero or empty.

    Args:
      model: computes in float32. It is not kept: TensorFlow would save a Keras model layer by
        layer.
      config: how it sees images.
      class_names: of its labels.
    """

    # tf.Module has this as a property, and properties are not saved.
    variables = None

    def __init__(self, model: FasterRCNN, config: CanvasConfig, class_names: list[str]):
        super().__init__(name="detector")
        self.variables = model.variables
        # -1: the last one
        least_score = model.config.inference.detection_score
        names = [*class_names, ""]

        @tf.function(input_signature=[BYTES, LEAST_SCORE], autograph=False)
        def detect(images: tf.Tensor, least_score: tf.Tensor) -> dict[str, tf.Tensor]:
            shape = tf.shape(images)
            view = canvas.plain(config)
            size = canvas.fitted(shape[1:3], view.area, config)
            canvases = tf.map_fn(
                lambda image: canvas.show(image, size, view, config),
                or_black(images),
                fn_output_signature=tf.TensorSpec(
                    [config.canvas_height, config.canvas_width, 3], tf.uint8
                ),
            )
            sizes = tf.tile(size[None], [tf.shape(canvases)[0], 1])
            detections = model(
                tf.image.convert_image_dtype(canvases, tf.float32), sizes, least_score=least_score
            )
            labels = detections.labels
            scale = tf.cast(size, tf.float32) / tf.cast(shape[1:3], tf.float32)
            outputs = {
                "boxes": detections.boxes / tf.tile(scale, [2]),
                "scores": detections.scores,
                "labels": labels,
                "names": tf.gather(
                    tf.constant(names), tf.where(labels < 0, len(names) - 1, labels)
                ),
                "count": detections.count,
            }
            return {name: x[: shape[0]] for name, x in outputs.items()}

        def call(images: tf.Tensor) -> dict[str, tf.Tensor]:
            return detect(images, tf.constant(least_score, tf.float32))

        @tf.function(input_signature=[], autograph=False)
        def all_names() -> tf.Tensor:
            return tf.constant(class_names)

        self.detect, self.__call__, self.class_names = (
            of_images(detect, LEAST_SCORE),
            of_images(call),
            all_names,
        )


def detector_reference(
    model: FasterRCNN, config: CanvasConfig, class_names: list[str]
) -> Reference:
    """Random images and what the detector, as a Keras model, finds on them at any score."""
    draw = np.random.default_rng(0)
    view = canvas.plain(config)
    least_score = np.float32(model.config.inference.detection_score)
    inputs = {}
    outputs = {"names/classes": np.array(class_names), "least_score": least_score}
    for i, (count, *shape) in enumerate([(2, 90, 120), (1, 113, 57)]):
        # Squares of 10 px: noise would be grey on the canvas.
        images = draw.integers(0, 256, [count, *(-(-side // 10) for side in shape), 3], np.uint8)
        images = images.repeat(10, 1).repeat(10, 2)[:, : shape[0], : shape[1]]
        size = canvas.fitted(tf.constant(shape), view.area, config)
        canvases = tf.stack(
            [canvas.show(tf.constant(image), size, view, config) for image in images]
        )
        sizes = tf.stack([size] * count)
        detections = model(
            tf.cast(canvases, tf.float32) / 255.0, sizes, least_score=tf.constant(0.0)
        )
        inputs[f"case{i}"] = images
        outputs[f"case{i}/boxes"] = detections.boxes.numpy() * np.tile(shape / size.numpy(), 2)
        for name in ("scores", "labels", "count"):
            outputs[f"case{i}/{name}"] = getattr(detections, name).numpy()
    return Reference(inputs, outputs)
