"""A run of linear classification or with few labels -> its classifier and the encoder below it, as one module."""

from __future__ import annotations

import dataclasses
import functools
import io
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from PIL import ExifTags, Image

from cpc_tf import augment
from cpc_tf.classify.config import ClassifyConfig
from cpc_tf.classify.features import PictureEncoder
from cpc_tf.core.settings import ConfigError, flatten, replace
from cpc_tf.data import views
from cpc_tf.data.config import FULL, DataConfig, GeometryConfig
from cpc_tf.data.decode import UPPER_BITS, IntensityRange, decode
from cpc_tf.data.views import Geometry
from cpc_tf.efficient.classifier import FINE_TUNED, FROZEN, SUPERVISED, build_classifier
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.encoders.card import Identity
from cpc_tf.encoders.load import load_patch_encoder
from cpc_tf.encoders.network import patch_grid
from cpc_tf.evaluation import counts, label_kinds
from cpc_tf.export import portable
from cpc_tf.export.encoder import original_maps, restore_maps
from cpc_tf.export.shared import (
    BYTES,
    Export,
    dataset_name,
    needed,
    of_images,
    or_black,
    read_checkpoint,
    render,
    restore,
    result_of_ended,
    run_name,
    save_frozen,
    versions,
)
from cpc_tf.export.verify import Reference
from cpc_tf.linear.classifier import LinearClassifier
from cpc_tf.linear.config import LinearConfig
from cpc_tf.linear.run import augment_of, geometry_of
from cpc_tf.training.phases import REFIT
from cpc_tf.training.workdir import read_config

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
      held: the variables and tables that `logits` uses, which are saved with the module. No Keras model, which
        TensorFlow would save layer by layer.
      geometry: to what size images are resized and cropped.
      class_names: C names, in the order of the logits.
      temperature: what logits are divided by before they become probabilities.
      multi_label: whether the probabilities of the classes are independent of each other.
      intensity_range: of files of more than 8 bits, see `decode`. None: a single file does not tell it and is refused;
        `predict` takes that of all its pictures together.
    """

    logits: Callable[[tf.Tensor], tf.Tensor]
    held: Sequence[tf.Variable | tf.Module]
    geometry: Geometry
    class_names: Sequence[str]
    temperature: float = 1.0
    multi_label: bool = False
    intensity_range: IntensityRange | None = None

    def prepared(self, image: tf.Tensor) -> tf.Tensor:
        """Resizes and crops an image as in the run's test: uint8 [H, W, 3] -> uint8 [S, S, 3]."""
        return views.plain_crop(image, self.geometry)

    def decoded(self, encoded: tf.Tensor) -> tf.Tensor:
        """Decodes a file and prepares it, by operations that can be saved: string scalar -> uint8 [S, S, 3]."""
        return self.prepared(
            decode(encoded, self.geometry.resize, self.intensity_range, portable=True)
        )

    def outputs(self, prepared: tf.Tensor) -> dict[str, tf.Tensor]:
        """Classifies prepared images, uint8 [N, S, S, 3]; classifier.md.jinja describes the outputs."""
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
    """Images [N, H, W, 3], any N, H and W -> probabilities, logits, labels and names; see classifier.md.jinja.

    `prepared` and `classify` are its two halves, with images uint8 [N, S, S, 3] between them. All three take uint8, or
    floats in [0, 1].
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
            blank, deep = tf.zeros(one.shape, tf.uint8), bool(model.intensity_range)
            return portable.decoded(file, model.decoded, blank, DataConfig.max_megapixels, deep)

        def from_bytes(encoded: tf.Tensor) -> dict[str, tf.Tensor]:
            images, error = tf.map_fn(
                read, encoded, fn_output_signature=(one, tf.TensorSpec([], tf.string))
            )
            outputs, broken = classify(images), tf.not_equal(error, "")
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
    draw, side = np.random.default_rng(0), model.geometry.resize
    shapes = [(side + 27, side), (side // 2 + 1, 2 * side + 3), (side, side)]
    inputs, outputs = (
        {},
        {
            "names/classes": np.array(model.class_names),
            "temperature": np.float32(model.temperature),
        },
    )
    outputs["multi_label"] = np.array(model.multi_label)
    squares = [
        draw.integers(0, 256, [count, 8, 6, 3], np.uint8) for count in (2, 1, 1)
    ]  # noise would become grey
    for i, (batch, shape) in enumerate(zip(squares, shapes)):
        rows, columns = (
            np.arange(after) * before // after for before, after in zip(batch.shape[1:3], shape)
        )
        inputs[f"case{i}"] = batch[:, rows][:, :, columns]
        prepared = tf.stack([model.prepared(tf.constant(image)) for image in inputs[f"case{i}"]])
        outputs[f"case{i}/logits"] = model.logits(prepared).numpy()
    for i, (kind, orientation) in enumerate([("JPEG", 6), ("PNG", 3), ("BMP", 1)]):
        stream, exif = io.BytesIO(), Image.Exif()
        exif[ExifTags.Base.Orientation] = orientation
        Image.fromarray(inputs["case0"][0]).save(
            stream, kind, **({} if orientation == 1 else {"exif": exif})
        )
        image = decode(tf.constant(stream.getvalue()), model.geometry.resize, model.intensity_range)
        inputs[f"file{i}"] = np.frombuffer(stream.getvalue(), np.uint8)
        outputs[f"file{i}/logits"] = model.logits(model.prepared(image)[None]).numpy()
    return Reference(inputs, outputs)


def save(module: HubClassifier, directory: str) -> None:
    """Writes the SavedModel with its signatures 'serving_default' and 'bytes'."""
    save_frozen(module, directory, bytes=module.from_bytes)


def export_classify(run: ClassifyConfig, workdir: str, step: int, weights: str) -> Export:
    """Returns the logistic regression of `cpc-tf classify`. Without checkpoints, `step` and `weights` are not used."""
    result = result_of_ended(workdir, "classify")
    with needed(workdir):
        encoder = PictureEncoder(run.encoder, run.endpoint, run.image_size, run.seed)
    _refuse_another(encoder.identity, run.encoder, result, workdir)
    with tf.io.gfile.GFile(os.path.join(workdir, "logistic.npz"), "rb") as file:
        learned = np.load(io.BytesIO(file.read()), allow_pickle=False)
        weights_, bias = (
            tf.Variable(learned[name], trainable=False, name=name) for name in ("weights", "bias")
        )
    model = Classifying(
        logits=lambda images: encoder.features(images) @ weights_ + bias,
        held=[*encoder.held, weights_, bias],
        geometry=encoder.geometry,
        class_names=result["class_names"],
        **_measured(result, run),
    )
    return _export(model, result, run, run, workdir, 0, 0)


def export_linear(run: LinearConfig, workdir: str, step: int, weights: str) -> Export:
    """Returns the linear classifier of a run, which has no averages: `weights` is not used."""
    result = result_of_ended(workdir, "linear")
    with needed(workdir):
        geometry, policy = geometry_of(run), augment_of(run).policy
        encoder = load_patch_encoder(
            run.probe.encoder,
            run.training.seed,
            geometry.patch_size,
            signature=run.probe.signature,
            endpoint=run.probe.endpoint,
        )
    _refuse_another(encoder.identity, encoder.text, result, workdir)
    patch, stride, grid = geometry.patch_size, geometry.patch_stride, geometry.grid

    def latents(images: tf.Tensor) -> tf.Tensor:
        patches = patch_grid(augment.at_test(images, policy), patch, stride)
        return encoder.patch_latents(tf.ensure_shape(patches, [None, grid, grid, patch, patch, 3]))

    side, names = geometry.image_size, result["class_names"]
    traced = tf.function(latents, autograph=False).get_concrete_function(
        tf.TensorSpec([1, side, side, 3], tf.uint8)
    )
    classifier = LinearClassifier(len(names), run.probe.latent_norm)
    classifier.build([None, *traced.structured_outputs.shape[1:]])
    step = read_checkpoint(workdir, step, lambda path: restore(path, classifier=classifier))
    model = Classifying(
        logits=lambda images: classifier(latents(images)),
        held=[*encoder.held, *classifier.variables],
        geometry=geometry,
        class_names=names,
        **_measured(result, run),
    )
    return _export(model, result, run, run, workdir, step, result["steps"])


def export_efficient(run: EfficientConfig, workdir: str, step: int, weights: str) -> Export:
    """Returns the classifier that a run on few labels ended with: frozen, fine-tuned or supervised.

    Only fine-tuning with --encoder_adam=paper has averages; without them the raw weights are exported, whatever
    `weights` is.
    """
    result = result_of_ended(workdir, "efficient")
    refit = result.get(REFIT)
    trained = (refit or result)["phases"]
    phase = next(
        name for name in (SUPERVISED, FINE_TUNED, FROZEN) if trained.get(name, {}).get("steps")
    )
    folder, names = (
        os.path.join(workdir, REFIT if refit else "", phase),
        result["class_names"],
    )
    chosen = replace(read_config(folder, EfficientConfig), precision="float32", recompute=False)
    averaged = phase == FINE_TUNED and run.sgd.encoder_adam == "paper" and weights == "averaged"
    maps = original_maps(chosen, workdir)
    if phase == FROZEN:  # whose checkpoints have no encoder, since it does not change it
        _refuse_another(maps.identity, maps.text, result, workdir)
    classifier = build_classifier(
        chosen, phase, maps.map_shape(chosen.images.image_size), len(names)
    )

    def read(path: str) -> None:
        if phase != FROZEN:
            restore_maps(path, maps, averaged)
        restore(path, classifier=classifier)

    step = read_checkpoint(folder, step, read)

    def logits(images: tf.Tensor) -> tf.Tensor:
        images = augment.at_test(images, chosen.augment.policy)
        return classifier(maps(tf.image.convert_image_dtype(images, tf.float32)))

    model = Classifying(
        logits=logits,
        held=[*maps.held, *classifier.variables],
        geometry=chosen.images,
        class_names=names,
        **_measured(result, run),
    )
    return _export(model, result, run, chosen, workdir, step, trained[phase]["steps"], phase)


def _refuse_another(now: Identity, name: str, result: dict[str, Any], workdir: str) -> None:
    """Raises ConfigError if the encoder is not the one that the run learned on, as far as its card tells."""
    then = Identity.from_json(result["identity"])
    if now != then:
        before, after = (
            f"of {x.steps} steps on {x.dataset}" if x.steps else x.trained_by for x in (then, now)
        )
        raise ConfigError(
            "workdir",
            workdir,
            f"learned on an encoder {before}, and --encoder={name} is now one {after}; bring it back",
        )


def _measured(
    result: dict[str, Any], run: ClassifyConfig | LinearConfig | EfficientConfig
) -> dict[str, Any]:
    """The fields of `Classifying` that a run measured."""
    intensity_range = result.get("levels") or (UPPER_BITS if run.data.sixteen_bit == FULL else None)
    calibration = result.get("calibration") or {"temperature": 1.0}
    return {
        "temperature": calibration["temperature"],
        "intensity_range": tuple(intensity_range) if intensity_range else None,
        "multi_label": label_kinds.is_multi_label(result),
    }


def _tested_on(run: ClassifyConfig | LinearConfig | EfficientConfig) -> str:
    """Returns what a classifier was tested on, after the word 'on'."""
    if isinstance(run, ClassifyConfig):
        return "the pictures that it learned from, each by classifiers that had not seen it (cross-validation)"
    return f"split `{(run.probe if isinstance(run, LinearConfig) else run.labels).test_split}`"


def _export(
    model: Classifying,
    result: dict[str, Any],
    run: ClassifyConfig | LinearConfig | EfficientConfig,
    chosen: ClassifyConfig | LinearConfig | EfficientConfig,
    workdir: str,
    step: int,
    tested: int,
    phase: str = "",
) -> Export:
    """Returns the classifier as a module with its card.

    Args:
      model: what the module does.
      result: of the run.
      run, chosen: its settings, and those that its search chose for the phase.
      workdir: its directory.
      step, tested: the step that is exported, and the one that was tested or, after that, trained on all labels.
      phase: of a run with few labels.
    """
    geometry: Geometry = model.geometry
    kind = label_kinds.of_result(result)
    card = {
        "kind": "classifier",
        "class_names": list(model.class_names),
        "multi_label": model.multi_label,
        "temperature": model.temperature,
        "calibration": result.get("calibration"),
        **({"refit_labels": result[REFIT]["num_train_labels"]} if REFIT in result else {}),
        "image_size": geometry.image_size,
        "resize": geometry.resize,
        "resize_mode": geometry.resize_mode,
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
        chosen=chosen,
        phase=phase,
        tested_on=_tested_on(run),
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
            f"{len(model.class_names)} classes{f', weights of step {step}' if step else ''}; in a fresh process: "
            "largest difference {difference:.0e}"
        ),
    )
