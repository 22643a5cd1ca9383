"""A classifier and the encoder below it, as one module."""

from __future__ import annotations

import dataclasses
import functools
import io
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from PIL import ExifTags, Image

from cpc_tf.core.settings import ConfigError, Settings, flatten
from cpc_tf.data import views
from cpc_tf.data.config import FULL, DataConfig, GeometryConfig
from cpc_tf.data.decode import UPPER_BITS, IntensityRange, decode
from cpc_tf.data.views import Decode, Geometry
from cpc_tf.encoders.card import Identity
from cpc_tf.encoders.side_by_side import Canvas
from cpc_tf.evaluation import counts, label_kinds
from cpc_tf.export import portable
from cpc_tf.export.shared import (
    BYTES,
    Export,
    dataset_name,
    of_images,
    or_black,
    render,
    run_name,
    save_frozen,
    versions,
)
from cpc_tf.export.verify import Reference
from cpc_tf.training.workdir import REFIT

# Of a result.json, what the card repeats for programs.
FIGURES = {
    *("top1", "top1_low", "top1_high", "top5", "right", "tested", "class_mean", "largest_class"),
    *("map", "map_chance", "micro_f1"),
}
ENCODED = tf.TensorSpec([None], tf.string, name="encoded")


@dataclasses.dataclass(frozen=True)
class Classifying:
    """The classifier that a run tested: how it prepares an image, and its logits.

    Attributes:
      logits: images uint8 [N, S, S, 3], with S = geometry.image_size -> logits float32 [N, C].
      held: the variables and tables that `logits` uses, which are saved with the module. No Keras
        model, which TensorFlow would save layer by layer.
      geometry: to what size images are resized and cropped; of several encoders their canvas.
      class_names: C names, in the order of the logits.
      temperature: what logits are divided by before they become probabilities.
      multi_label: whether the probabilities of the classes are independent of each other.
      intensity_range: of files of more than 8 bits, see `decode`. None: a single file does not tell
        it and is refused; `predict` takes that of all its images together.
    """

    logits: Callable[[tf.Tensor], tf.Tensor]
    held: Sequence[tf.Variable | tf.Module]
    geometry: Geometry | Canvas
    class_names: Sequence[str]
    temperature: float = 1.0
    multi_label: bool = False
    intensity_range: IntensityRange | None = None

    def prepared(self, image: tf.Tensor) -> tf.Tensor:
        """Resizes and crops an image as in the run's test: uint8 [H, W, 3] -> uint8 [S, S, 3]."""
        return self.seen(lambda least_side: image)

    def seen(self, decode: Decode) -> tf.Tensor:
        """Prepares an image that is decoded as large as is needed: uint8 [S, S, 3]."""
        if isinstance(self.geometry, Canvas):
            return self.geometry.drawn(decode)
        return views.plain_crop(decode(self.geometry.resize), self.geometry)

    def decoded(self, encoded: tf.Tensor) -> tf.Tensor:
        """Decodes a file and prepares it, by operations that can be saved: string scalar -> uint8
        [S, S, 3].
        """
        return self.seen(lambda side: decode(encoded, side, self.intensity_range, portable=True))

    def outputs(self, prepared: tf.Tensor) -> dict[str, tf.Tensor]:
        """Classifies prepared images, uint8 [N, S, S, 3]; classifier.md.jinja describes the
        outputs.
        """
        logits = self.logits(or_black(prepared))[: tf.shape(prepared)[0]]  # [N, C]
        activation = tf.nn.sigmoid if self.multi_label else tf.nn.softmax
        label = tf.argmax(logits, 1)
        return {
            "probabilities": activation(logits / self.temperature),
            "logits": logits,
            "label": label,
            "name": tf.gather(tf.constant(list(self.class_names)), label),
        }


class HubClassifier(tf.Module):
    """Images [N, H, W, 3], any N, H and W -> probabilities, logits, labels and names; see
    classifier.md.jinja.

    `prepared` and `classify` are its two halves, with images uint8 [N, S, S, 3] between them. All
    three take uint8, or floats in [0, 1].
    """

    def __init__(self, model: Classifying):
        super().__init__(name="classifier")
        self.held, side, names = (
            list(model.held),
            model.geometry.image_size,
            list(model.class_names),
        )
        one = tf.TensorSpec([side, side, 3], tf.uint8)

        def graph(function: Callable, *signature: tf.TensorSpec) -> Callable:
            return tf.function(function, input_signature=signature, autograph=False)

        def read(file: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            blank = tf.zeros(one.shape, tf.uint8)
            deep = bool(model.intensity_range)
            return portable.decoded(file, model.decoded, blank, DataConfig.max_megapixels, deep)

        def from_bytes(encoded: tf.Tensor) -> dict[str, tf.Tensor]:
            images, error = tf.map_fn(
                read, encoded, fn_output_signature=(one, tf.TensorSpec([], tf.string))
            )
            outputs = classify(images)
            broken = tf.not_equal(error, "")
            for name, blank in {"label": -1, "name": "", "probabilities": 0, "logits": 0}.items():
                values = outputs[name]
                mask = tf.reshape(broken, [-1, *[1] * (values.shape.rank - 1)])
                outputs[name] = tf.where(mask, tf.constant(blank, values.dtype), values)
            return {**outputs, "error": error}

        prepared = graph(
            lambda images: tf.map_fn(model.prepared, images, fn_output_signature=one), BYTES
        )
        classify = graph(model.outputs, tf.TensorSpec([None, *one.shape], tf.uint8, name="images"))
        self.__call__ = of_images(lambda images: classify(prepared(images)))
        self.prepared, self.classify = (
            of_images(prepared),
            of_images(classify, shape=[None, *one.shape]),
        )
        self.from_bytes, self.class_names = (
            graph(from_bytes, ENCODED),
            graph(lambda: tf.constant(names)),
        )

    def __call__(self, images: tf.Tensor) -> dict[str, tf.Tensor]:
        """Calls what is saved under this name."""
        return vars(self)["__call__"](images)


def classifier_reference(model: Classifying) -> Reference:
    """Random images, and files of them, and what the run's own network makes of them."""
    draw = np.random.default_rng(0)
    side = model.geometry.resize
    shapes = [(side + 27, side), (side // 2 + 1, 2 * side + 3), (side, side)]
    inputs = {}
    outputs = {
        "names/classes": np.array(model.class_names),
        "temperature": np.float32(model.temperature),
    }
    outputs["multi_label"] = np.array(model.multi_label)
    # noise would become grey
    squares = [draw.integers(0, 256, [count, 8, 6, 3], np.uint8) for count in (2, 1, 1)]
    for i, (batch, shape) in enumerate(zip(squares, shapes)):
        rows, columns = (
            np.arange(after) * before // after for before, after in zip(batch.shape[1:3], shape)
        )
        inputs[f"case{i}"] = batch[:, rows][:, :, columns]
        prepared = tf.stack([model.prepared(tf.constant(image)) for image in inputs[f"case{i}"]])
        outputs[f"case{i}/logits"] = model.logits(prepared).numpy()
    for i, (kind, orientation) in enumerate([("JPEG", 6), ("PNG", 3), ("BMP", 1)]):
        stream = io.BytesIO()
        exif = Image.Exif()
        exif[ExifTags.Base.Orientation] = orientation
        Image.fromarray(inputs["case0"][0]).save(
            stream, kind, **({} if orientation == 1 else {"exif": exif})
        )
        file = tf.constant(stream.getvalue())
        image = model.seen(lambda side, file=file: decode(file, side, model.intensity_range))
        inputs[f"file{i}"] = np.frombuffer(stream.getvalue(), np.uint8)
        outputs[f"file{i}/logits"] = model.logits(image[None]).numpy()
    return Reference(inputs, outputs)


def save(module: HubClassifier, directory: str) -> None:
    """Writes the SavedModel with its signatures 'serving_default' and 'bytes'."""
    save_frozen(module, directory, bytes=module.from_bytes)


def _sizes(geometry: Geometry | Canvas) -> dict[str, Any]:
    """How images are resized, for the card."""
    if not isinstance(geometry, Canvas):
        return {"resize": geometry.resize, "resize_mode": geometry.resize_mode}
    each = [{"image_size": part.image_size, **_sizes(part)} for part in geometry.geometries]
    return {"resize": geometry.resize, "encoders": each}


def refuse_another(now: Identity, name: str, result: dict[str, Any], workdir: str) -> None:
    """Raises ConfigError if the encoder is not the one that the run learned on, as far as its card
    tells.
    """
    then = Identity.from_json(result["identity"])
    if now != then:
        before, after = (
            f"of {x.steps} steps on {x.dataset}" if x.steps else x.trained_by for x in (then, now)
        )
        raise ConfigError(
            "workdir",
            workdir,
            f"learned on an encoder {before}, but --encoder={name} is now one {after}; restore"
            " the first",
        )


def measured(result: dict[str, Any], run: Settings) -> dict[str, Any]:
    """The fields of `Classifying` that a run measured."""
    intensity_range = result.get("levels") or (UPPER_BITS if run.data.sixteen_bit == FULL else None)
    calibration = result.get("calibration") or {"temperature": 1.0}
    return {
        "temperature": calibration["temperature"],
        "intensity_range": tuple(intensity_range) if intensity_range else None,
        "multi_label": label_kinds.is_multi_label(result),
    }


def classifier_export(
    model: Classifying,
    result: dict[str, Any],
    run: Settings,
    workdir: str,
    *,
    tested_on: str,
    step: int = 0,
    tested: int = 0,
    chosen: Settings | None = None,
    phase: str = "",
) -> Export:
    """Returns the classifier as a module with its card.

    Args:
      model: what the module does.
      result: of the run.
      run: its settings.
      workdir: its directory.
      tested_on: what the classifier was tested on, after the word 'on'.
      step: the step that is exported; 0: the classifier was not trained in steps.
      tested: the step that was tested or, after that, trained on all labels.
      chosen: the settings that the run's search chose for the phase; None: those of the run.
      phase: of a run with few labels.
    """
    geometry = model.geometry
    kind = label_kinds.of_result(result)
    card = {
        "kind": "classifier",
        "class_names": list(model.class_names),
        "multi_label": model.multi_label,
        "temperature": model.temperature,
        "calibration": result.get("calibration"),
        **({"refit_labels": result[REFIT]["num_train_labels"]} if REFIT in result else {}),
        "image_size": geometry.image_size,
        **_sizes(geometry),
        "geometry": flatten(geometry) if isinstance(geometry, GeometryConfig) else None,
        "levels": model.intensity_range,
        "encoder": result["identity"],
        "dataset": dataset_name(result.get("dataset", run.data.origin)),
        "run": run_name(workdir),
        "step": step,
        "figures": {name: value for name, value in result.items() if name in FIGURES},
        "classes": result.get("classes"),
        "versions": versions("tensorflow-hub"),
    }
    readme = render(
        "classifier",
        card=card,
        max_megapixels=DataConfig.max_megapixels,
        result=result,
        run=run,
        chosen=chosen or run,
        phase=phase,
        tested_on=tested_on,
        tested=tested,
        scores=kind.titled(result),
        cautions=kind.caution(result),
        classes=[count for count in counts.class_counts(result) if count.tested or count.predicted],
    )
    return Export(
        kind="classifier",
        module=HubClassifier(model),
        save=save,
        card=card,
        files={"labels.txt": "".join(f"{name}\n" for name in model.class_names)},
        readme=readme,
        reference=functools.partial(classifier_reference, model),
        summary=(
            f"{len(model.class_names)} classes{f', weights of step {step}' if step else ''}; in a"
            " fresh process: largest difference {difference:.0e}"
        ),
    )
