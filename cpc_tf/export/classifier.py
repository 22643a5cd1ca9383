"""A run of linear classification or with few labels -> its classifier with the encoder below it, as one module."""

from __future__ import annotations

import functools
import os
from typing import Any

import tensorflow as tf

from cpc_tf import augment
from cpc_tf.data.config import FULL, DataConfig, GeometryConfig
from cpc_tf.data.decoding.decode import UPPER_BITS
from cpc_tf.data.views.views import Geometry
from cpc_tf.efficient.classifier import FINE_TUNED, FROZEN, SUPERVISED, build_classifier
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.encoders.card import Identity
from cpc_tf.encoders.config import PIXELS, UNKNOWN, UNTRAINED
from cpc_tf.encoders.load import load_patch_encoder
from cpc_tf.encoders.loaded import LoadedEncoder
from cpc_tf.encoders.patches import patch_grid
from cpc_tf.evaluation import class_counts, label_kinds
from cpc_tf.export import readme
from cpc_tf.export.classifier_module import Classifying, HubClassifier, save
from cpc_tf.export.encoder import classifier_of, original_maps, restore_maps
from cpc_tf.export.module import Export
from cpc_tf.export.restore import needed, read_checkpoint, restore, result_of_ended
from cpc_tf.export.verify import classifier_reference
from cpc_tf.keras import keras
from cpc_tf.linear.classifier import LinearClassifier
from cpc_tf.linear.config import LinearConfig
from cpc_tf.linear.run import augment_of, geometry_of
from cpc_tf.settings import ConfigError, flatten, replace
from cpc_tf.training.workdir import read_config

# Of a result.json, what the card repeats for programs.
FIGURES = {
    *("top1", "top1_low", "top1_high", "top5", "right", "tested", "class_mean", "largest_class"),
    *("map", "map_chance", "micro_f1"),
}
CLASSES = 40  # in the card's table at most


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
    _refuse_another(encoder, result, workdir)
    patch, stride, grid = geometry.patch_size, geometry.patch_stride, geometry.grid

    def latents(images: tf.Tensor) -> tf.Tensor:
        patches = patch_grid(augment.at_test(images, policy), patch, stride)
        return encoder.patch_latents(tf.ensure_shape(patches, [None, grid, grid, patch, patch, 3]))

    side, names = geometry.image_size, _class_names(result, workdir)
    seen = tf.function(latents).get_concrete_function(tf.TensorSpec([1, side, side, 3], tf.uint8))
    classifier = LinearClassifier(len(names))
    classifier.build([None, *seen.structured_outputs.shape[1:]])
    step = read_checkpoint(workdir, step, lambda path: restore(path, classifier=classifier))
    model = Classifying(
        logits=lambda images: classifier(latents(images)),
        held=_held(encoder, classifier),
        geometry=geometry,
        class_names=names,
        **_measured(result, run),
    )
    trained = f"a linear layer on the mean of the patch grid, {run.training.batch_size} images a batch"
    return _export(model, result, run, workdir, step, trained, result["steps"])


def export_efficient(run: EfficientConfig, workdir: str, step: int, weights: str) -> Export:
    """Returns the classifier that a run on few labels ended with: frozen, fine-tuned or supervised.

    Only fine-tuning with --encoder_adam=paper has averages; without them the raw weights are exported, whatever
    `weights` is.
    """
    result = result_of_ended(workdir, "efficient")
    phase = next(name for name in (SUPERVISED, FINE_TUNED, FROZEN) if result["phases"].get(name, {}).get("steps"))
    folder, names = os.path.join(workdir, phase), _class_names(result, workdir)
    chosen = replace(read_config(folder, EfficientConfig), precision="float32", recompute=False)
    averaged = phase == FINE_TUNED and run.sgd.encoder_adam == "paper" and weights == "averaged"
    maps = original_maps(chosen, workdir)
    if phase == FROZEN:  # whose checkpoints have no encoder, since it does not change it
        _refuse_another(maps, result, workdir)
    classifier = build_classifier(chosen, phase, maps.map_shape(chosen.images.image_size), len(names))

    def read(path: str) -> None:
        if phase != FROZEN:
            restore_maps(path, maps, averaged)
        restore(path, classifier=classifier)

    step = read_checkpoint(folder, step, read)

    def logits(images: tf.Tensor) -> tf.Tensor:
        shown = augment.at_test(images, chosen.augment.policy)
        return classifier(maps(tf.image.convert_image_dtype(shown, tf.float32)))

    model = Classifying(
        logits=logits,
        held=_held(maps, classifier),
        geometry=chosen.images,
        class_names=names,
        **_measured(result, run),
    )
    trained = f"{classifier_of(chosen)}, phase `{phase}`, {chosen.training.batch_size} images a batch"
    return _export(model, result, run, workdir, step, trained, result["phases"][phase]["steps"])


def _class_names(result: dict[str, Any], workdir: str) -> list[str]:
    if not result.get("class_names"):
        raise ConfigError(
            f"--workdir={workdir}: its result.json has no names of classes, an earlier version wrote it; the same "
            "command again tests the classifier again and adds them"
        )
    return result["class_names"]


def _refuse_another(encoder: LoadedEncoder, result: dict[str, Any], workdir: str) -> None:
    """Raises ConfigError if the encoder is not the one that the run learned on, as far as its card tells."""
    now, then = encoder.identity, Identity.from_json(result["identity"])
    if now != then:
        was, found = (f"of {x.steps} steps on {x.dataset}" if x.steps else x.trained_by for x in (then, now))
        raise ConfigError(
            f"--workdir={workdir}: learned on an encoder {was}, and --encoder={encoder.text} is now one {found}; bring "
            "it back"
        )


def _measured(result: dict[str, Any], run: LinearConfig | EfficientConfig) -> dict[str, Any]:
    """What a run found out about its classifier and its pictures, as `Classifying` takes it."""
    levels = result.get("levels") or (UPPER_BITS if run.data.sixteen_bit == FULL else None)
    calibration = result.get("calibration") or {"temperature": 1.0}
    return {
        "temperature": calibration["temperature"],
        "levels": tuple(levels) if levels else None,
        "several_labels": bool(result.get("several_labels")),
    }


def _held(encoder: LoadedEncoder, classifier: keras.Model) -> list[tf.Variable | tf.Module]:
    """Returns what is saved with the module. A Keras model is not: TensorFlow would save it layer by layer."""
    return [*encoder.held, *classifier.variables]


def _export(
    model: Classifying,
    result: dict[str, Any],
    run: LinearConfig | EfficientConfig,
    workdir: str,
    step: int,
    head: str,
    tested: int,
) -> Export:
    """Returns the classifier as a module with its card; `head` says what was trained, `tested` is the step tested."""
    geometry: Geometry = model.geometry
    is_grid = isinstance(geometry, GeometryConfig)
    figures = {name: value for name, value in label_kinds.telling(result).items() if name in FIGURES}
    card = {
        "kind": "classifier",
        "class_names": list(model.class_names),
        "several_labels": model.several_labels,
        "temperature": model.temperature,
        "calibration": result.get("calibration"),
        "image_size": geometry.image_size,
        "resize": geometry.resize,
        "resize_mode": geometry.resize_mode,
        "geometry": flatten(geometry) if is_grid else None,
        "levels": model.levels,
        "encoder": result["identity"],
        "dataset": readme.dataset_name(result.get("dataset", run.data.origin)),
        "run": os.path.basename(workdir.rstrip("/")),
        "step": step,
        "figures": figures,
        "classes": result.get("classes"),
        "versions": readme.versions(),
    }
    return Export(
        kind="classifier",
        module=HubClassifier(model),
        save=save,
        card=card,
        files={"labels.txt": "".join(f"{name}\n" for name in model.class_names)},
        readme=_readme(card, result, run, head, tested),
        reference=functools.partial(classifier_reference, model),
        summary=(
            f"{len(model.class_names)} classes, weights of step {step}; in a fresh process: "
            "largest difference {difference:.0e}"
        ),
    )


def _readme(
    card: dict[str, Any], result: dict[str, Any], run: LinearConfig | EfficientConfig, head: str, tested: int
) -> str:
    test_split = run.probe.test_split if isinstance(run, LinearConfig) else run.labels.test_split
    labels = f"{result['num_train_labels']} labels ({100 * result['label_fraction']:.3g} %)"
    rows = [
        ("images", f"`{card['dataset']}`, split `{run.data.split}`, {labels}"),
        ("encoder", _encoder(card["encoder"])),
        ("classifier", head),
        ("run", f"`{card['run']}`, step {card['step']}"),
        ("software", readme.software(card["versions"])),
    ]
    sums = "of each class on its own" if card["several_labels"] else "those of a picture sum to 1"
    texts = {
        "count": len(card["class_names"]),
        "megapixels": f"{DataConfig.max_megapixels:g}",
        "names": ", ".join(f"`{name}`" for name in card["class_names"]),
        "kind_of_probabilities": sums,
        "calibration": _calibration(card["calibration"], test_split),
        "training": readme.table(rows),
        "figures": _figures(result, readme.measured_at(f"on split `{test_split}`", tested, card["step"])),
    }
    return readme.render("classifier", **{**card, **texts})


def _figures(result: dict[str, Any], head: str) -> str:
    """The table of the scores, what they are worth, and a table of the classes."""
    kind = label_kinds.of_result(result)
    beside = {"class_mean": "mean of the classes", "largest_class": "always naming the largest class"}
    rows = [(title, f"{100 * result[name]:.1f} %") for name, title in beside.items() if name in result]
    blocks = [readme.table([*kind.titled(result), *rows], head), *kind.caution(result), *_classes(result)]
    return "\n\n".join(blocks)


def _classes(result: dict[str, Any]) -> list[str]:
    """The table of the classes, those that are found least first; none of an earlier version's result."""
    found = [own for own in class_counts.of_result(result) if own.tested or own.predicted]
    lines = ["| class | test pictures | found | predicted | recall | precision |", "|---|---|---|---|---|---|"]
    for own in found[:CLASSES]:
        shares = ("-" if share is None else f"{100 * share:.0f} %" for share in (own.recall, own.precision))
        name = own.name.replace("|", "\\|")
        lines.append(f"| `{name}` | {own.tested} | {own.right} | {own.predicted} | {' | '.join(shares)} |")
    table = ["\n".join(lines)] if found else []
    return [f"The {CLASSES} classes that are found least, of {len(found)}:", *table] if len(found) > CLASSES else table


def _encoder(identity: dict[str, Any]) -> str:
    """What the encoder was before the run, as text."""
    by, architecture = identity["trained_by"], identity["architecture"]
    if by == PIXELS:
        return f"`{architecture}`, from random weights on" if architecture else "none, the pixels themselves"
    module = f"module `{identity['module']}`" if identity["module"] else ""
    if by in (UNTRAINED, UNKNOWN):
        return ", ".join(
            filter(None, [architecture and f"`{architecture}`", "random weights" * (by == UNTRAINED), module])
        )
    return f"`{architecture}`, trained by `{by}` on `{readme.dataset_name(identity['dataset'])}`, {module}"


def _calibration(found: dict[str, Any] | None, test_split: str) -> str:
    if not found or not found["held_out"]:
        return "Not calibrated: no labels were held out that could tell how far the probabilities can be trusted."
    where = f"{found['tested']} labels of split `{test_split}`"
    if not found["fitted"]:
        return (
            f"Not calibrated: all {found['held_out']} held-out labels were predicted right, which tells nothing about "
            f"errors. On {where} the expected calibration error is {100 * found['ece']:.1f} % (15 bins)."
        )
    return (
        f"The logits are divided by {found['temperature']:.3f} (temperature scaling, Guo et al. 2017). This number was "
        f"fitted on {found['held_out']} held-out labels, for a classifier with the same settings that was trained "
        f"without them. On {where}, the expected calibration error is {100 * found['ece']:.1f} % instead of "
        f"{100 * found['ece_before']:.1f} % (15 bins)."
    )
