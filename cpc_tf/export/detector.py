"""A detection run -> its detector, a TF2 SavedModel for images of any size, as what `export.run` writes."""

from __future__ import annotations

import functools
import os
from typing import Any

import tensorflow as tf

from cpc_tf.data.config import CanvasConfig
from cpc_tf.data.views import canvas
from cpc_tf.detect.config import DetectConfig
from cpc_tf.detect.faster_rcnn import FasterRCNN
from cpc_tf.detect.scoring import tested_on
from cpc_tf.detect.trainee import CATEGORY_IDS, CLASS_NAMES, FINE_TUNED, FROZEN, WHOLE, build_detector
from cpc_tf.encoders.card import module_name
from cpc_tf.export import readme
from cpc_tf.export.module import BYTES, Export, of_pictures, or_black
from cpc_tf.export.restore import needed, read_checkpoint, read_levels, restore, result_of, result_of_ended
from cpc_tf.export.verify import detector_reference
from cpc_tf.files import read_json
from cpc_tf.settings import ConfigError, flatten, replace

LEAST_SCORE = tf.TensorSpec([], tf.float32, name="least_score")


class HubDetector(tf.Module):
    """Images [N, H, W, 3], any N, H and W -> detections, K rows an image; detector.md describes them.

    Images are uint8, or floats in [0, 1]. It shows them to the detector as its test did. 'labels' are -1, and the rest
    zero or empty, behind the last detection.

    Args:
      model: computes in float32. It is not kept: TensorFlow would save a Keras model layer by layer.
      config: how it sees images.
      class_names: of its labels.
    """

    # tf.Module has this as a property, and properties are not saved.
    variables = None

    def __init__(self, model: FasterRCNN, config: CanvasConfig, class_names: list[str]):
        super().__init__(name="detector")
        self.variables = model.variables
        least_score, names = model.config.inference.detection_score, [*class_names, ""]  # -1: the last one

        @tf.function(input_signature=[BYTES, LEAST_SCORE], autograph=False)
        def detect(images: tf.Tensor, least_score: tf.Tensor) -> dict[str, tf.Tensor]:
            shape, view = tf.shape(images), canvas.plain(config)
            size = canvas.fitted(shape[1:3], view.area, config)
            canvases = tf.map_fn(
                lambda image: canvas.show(image, size, view, config),
                or_black(images),
                fn_output_signature=tf.TensorSpec([config.canvas_height, config.canvas_width, 3], tf.uint8),
            )
            sizes = tf.tile(size[None], [tf.shape(canvases)[0], 1])
            found = model(tf.image.convert_image_dtype(canvases, tf.float32), sizes, least_score=least_score)
            scale = tf.cast(size, tf.float32) / tf.cast(shape[1:3], tf.float32)
            outputs = {
                "boxes": found.boxes / tf.tile(scale, [2]),
                "scores": found.scores,
                "labels": found.labels,
                "names": tf.gather(tf.constant(names), tf.where(found.labels < 0, len(names) - 1, found.labels)),
                "count": found.count,
            }
            return {name: x[: shape[0]] for name, x in outputs.items()}

        def call(images: tf.Tensor) -> dict[str, tf.Tensor]:
            return detect(images, tf.constant(least_score, tf.float32))

        @tf.function(input_signature=[], autograph=False)
        def all_names() -> tf.Tensor:
            return tf.constant(class_names)

        self.detect, self.__call__, self.class_names = of_pictures(detect, LEAST_SCORE), of_pictures(call), all_names


def export_detector(run: DetectConfig, workdir: str, step: int, weights: str) -> Export:
    """Restores the detector of a run, which has no averages: `weights` is not used."""
    path = os.path.join(workdir, CLASS_NAMES)
    if not tf.io.gfile.exists(path):
        raise ConfigError(f"--workdir={workdir}: has no {CLASS_NAMES}, its training never began")
    names = read_json(path, list)
    phase, figures = _last_phase(run, workdir)
    with needed(workdir):
        model = build_detector(replace(run, precision="float32", recompute=False, xla="off"), len(names))
    step = read_checkpoint(os.path.join(workdir, phase), step, lambda path: restore(path, model=model))
    ids = os.path.join(workdir, CATEGORY_IDS)
    card = {
        "class_names": names,
        "category_ids": read_json(ids) if tf.io.gfile.exists(ids) else {},
        "levels": read_levels(workdir),
        "detector": {**flatten(run.detector), "encoder": module_name(run.detector.backbone.encoder)},
        "canvas": flatten(run.canvas),
        "split": run.data.split,
        "dataset": readme.dataset_name(run.data.origin),
        "run": os.path.basename(workdir.rstrip("/")),
        "step": step,
        "versions": readme.versions(),
    }
    known = {
        **card,
        **card["detector"],
        **card["canvas"],
        "count": len(names),
        "names": ", ".join(names),
        "slots": run.detector.inference.detections,
        "test_area": round(run.canvas.test_area * run.canvas.area_scale),
        "batch_size": run.training.batch_size,
        "versions": readme.software(card["versions"]),
        "figures": _figures(figures, step),
    }
    return Export(
        kind="detector",
        module=HubDetector(model, run.canvas, names),
        save=save,
        card=card,
        readme=readme.render("detector", **known),
        reference=functools.partial(detector_reference, model, run.canvas, names),
        summary=(
            f"{len(names)} classes, weights of step {step}; in a fresh process: "
            "{detections} detections, {same:.1%} of them the same"
        ),
    )


def _last_phase(run: DetectConfig, workdir: str) -> tuple[str, dict[str, Any]]:
    """Returns the phase that made the detector, and the result with its steps; of one phase it may not have ended.

    Raises:
      ConfigError: a run of two phases has not ended.
    """
    if not run.phases.frozen_epochs:
        return WHOLE, result_of(workdir)
    result = result_of_ended(workdir, "detect")
    phase = FINE_TUNED if result["phases"][FINE_TUNED]["steps"] else FROZEN
    return phase, {**result, "steps": result["phases"][phase]["steps"]}


def _figures(result: dict[str, Any], step: int) -> str:
    """A table of the mean average precision; `result` is empty if the run has not ended."""
    if "map11" not in result:
        return readme.NO_FIGURES
    where = f"on split `{result['test_split']}` at an overlap of {result['iou']:g}"
    about = tested_on(result)
    where += f", {about}" if about else ""
    rows = [
        (f"over {points} points", f"{100 * result[name]:.1f} %") for name, points in (("map11", 11), ("map_all", "all"))
    ]
    return readme.table(rows, "mean average precision, " + readme.measured_at(where, result["steps"], step))


def save(module: HubDetector, directory: str) -> None:
    """Writes the SavedModel; its signature 'serving_default' is the call."""
    # It is not trained any more: the gradients that its encoder brings are left out.
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    tf.saved_model.save(
        module, directory, signatures={"serving_default": module.__call__.get_concrete_function(BYTES)}, options=options
    )
