"""Converts a module, compares it with the SavedModel on pictures, in a fresh process, and writes what was found."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from cpc_tf.data import catalog, photos
from cpc_tf.data.config import DataConfig
from cpc_tf.data.source import Source, SplitError
from cpc_tf.evaluation.scores import nearest_neighbour_accuracy
from cpc_tf.export.config import KERAS3, ONNX, TFLITE, RuntimeConfig
from cpc_tf.export.formats import ENCODER, Subject, load, write
from cpc_tf.export.shared import render, versions
from cpc_tf.export.verify import NotVerified, computed, difference
from cpc_tf.files import to_json, write_file
from cpc_tf.settings import ConfigError, RunEnded

REPRESENTATIVE, LABELLED = 100, 1000  # pictures at most
TOLERANCE = 1e-4  # of float32: of any output, relative to its largest value
SIMILAR = 0.9  # of int8: least mean cosine between the outputs
_TITLES = {TFLITE: "TFLite (LiteRT)", ONNX: "ONNX", KERAS3: "Keras 3"}
_LIBRARIES = {TFLITE: (), ONNX: ("tf2onnx", "onnx", "onnxruntime"), KERAS3: ("keras",)}


def convert(module: str, directory: str, config: RuntimeConfig) -> dict[str, Any]:
    """Writes a module in another format, with its card, runtime.json and README.md.

    Args:
      module: directory of the SavedModel with its card.
      directory: where to write; it exists and is empty.
      config: what to write, and the pictures to use.

    Returns:
      The content of runtime.json, and 'summary', one line.

    Raises:
      ConfigError: there is no such module, it cannot be converted to this format, or the pictures cannot be used.
      NotVerified: it cannot be converted, or computes something else than the SavedModel.
    """
    made = load(module)
    labelled = labelled_pictures(made, config.labelled) if config.labelled else None
    representative = representative_pictures(made, config.representative) if config.representative else None
    with _converting(config.format):
        shown = None if representative is None else made.shown(representative)
        files = write(made, directory, config.format, config.quantize, shown)
    found = {
        "kind": made.kind,
        "format": config.format,
        "quantize": config.quantize,
        "module": made.name,
        "bytes": {name: os.path.getsize(os.path.join(directory, name)) for name in files},
        "image_size": made.side,
        **compare(made, directory, config, representative, labelled),
        "versions": versions(*_LIBRARIES[config.format]),
        "card": made.card,
    }
    title, accuracy = _TITLES[config.format], []
    if "accuracy" in found:
        before, after = (f"{100 * found['accuracy'][name]:.1f} %" for name in ("savedmodel", "converted"))
        accuracy = ["{measure} on {pictures} pictures: ".format(**found["accuracy"]) + f"{before} -> {after}"]
    write_file(os.path.join(directory, "runtime.json"), to_json(found))
    page = render("runtime", **found, title=title, accuracies=accuracy, vector=made.vector)
    write_file(os.path.join(directory, "README.md"), page)
    if made.class_names:
        write_file(os.path.join(directory, "labels.txt"), "".join(f"{name}\n" for name in made.class_names))
    measured = f"largest difference {found['difference']:.0e}"
    if config.quantize != "none":
        measured = f"mean cosine with the SavedModel's outputs {found['similarity']:.4f}"
    size = sum(found["bytes"].values()) / 1e6
    return {**found, "summary": "; ".join([f"{made.kind} for {title}, {size:.1f} MB", measured, *accuracy])}


@contextlib.contextmanager
def _converting(format: str) -> Iterator[None]:
    """Mutes what converters print to the terminal, and re-raises whatever they raise as NotVerified."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(number) for number in (1, 2)]
    try:
        with open(os.devnull, "w") as nothing:
            for number in (1, 2):
                os.dup2(nothing.fileno(), number)
        yield
    except RunEnded:
        raise
    except Exception as error:  # they document no types
        raise NotVerified(f"the converter to {format} failed: {' '.join(str(error).split())[:300]}") from error
    finally:
        sys.stdout.flush()  # what they printed and Python still holds
        sys.stderr.flush()
        for number, copy in zip((1, 2), kept):
            os.dup2(copy, number)
            os.close(copy)


def compare(
    made: Subject,
    directory: str,
    config: RuntimeConfig,
    representative: np.ndarray | None = None,
    labelled: tuple[np.ndarray, np.ndarray] | None = None,
) -> dict[str, Any]:
    """Runs a converted module and the SavedModel on pictures: the embedded photographs, and those of the user.

    Args:
      made: the SavedModel.
      directory: of the converted module.
      config: how it was converted.
      representative: uint8 [N, S, S, 3], from which the ranges of int8 were chosen.
      labelled: uint8 [N, S, S, 3] and labels int64 [N].

    Returns:
      'difference': the largest of any output, relative to its largest value. 'similarity': the mean cosine between the
      vectors of both, on the 'pictures', which are the representative ones if there are any. 'accuracy': before and
      after, on the labelled pictures.

    Raises:
      NotVerified: the converted module cannot be used, or does something else.
    """
    cases = _cases(made, config, representative, labelled)
    got = computed(config.format, directory, {"dtype": np.array(made.dtype.name), **cases})
    wanted = {
        f"{key}/{name}": values
        for key, images in cases.items()
        for name, values in made.outputs(key.partition("/")[0], images).items()
    }
    tolerance = TOLERANCE if config.quantize == "none" else np.inf
    name = "photographs" if representative is None else "representative pictures"
    key = f"{made.kind}/{name}/{made.vector}"
    found = {
        "pictures": f"{len(wanted[key])} {name}",
        "difference": max(difference(each, got.get(each), x, tolerance, "SavedModel") for each, x in wanted.items()),
        "similarity": _similarity(got[key], wanted[key]),
    }
    if not found["similarity"] >= SIMILAR:
        raise NotVerified(
            f"{made.vector} are too different: the mean cosine with those of the SavedModel is "
            f"{found['similarity']:.3f} on {found['pictures']}, less than {SIMILAR}"
        )
    if labelled:
        key = f"{made.kind}/labelled/{made.vector}"
        found["accuracy"] = _accuracy(made, got[key], wanted[key], labelled[1])
    return found


def _cases(
    made: Subject,
    config: RuntimeConfig,
    representative: np.ndarray | None,
    labelled: tuple[np.ndarray, np.ndarray] | None,
) -> dict[str, np.ndarray]:
    """Returns 'FUNCTION/CASE' -> images uint8 [N, H, W, 3] that both modules get; arguments as those of `compare`."""
    shown = photographs(made)
    cases = {f"{made.kind}/photographs": shown}
    if representative is not None:
        cases[f"{made.kind}/representative pictures"] = representative
    if config.quantize == "none" and config.format != KERAS3:
        cases.update({f"{name}/photographs": shown[:2] for name in list(made.functions)[1:]})
    if made.any_size and config.format != TFLITE:
        cases[f"{made.kind}/another_size"] = shown[:1, : made.side // 2 + 3]
    if labelled:
        cases[f"{made.kind}/labelled"] = labelled[0]
    return cases


def _similarity(got: np.ndarray, wanted: np.ndarray) -> float:
    """Mean cosine between rows [N, D] that belong together, from the mean of those wanted on."""
    got, wanted = got - wanted.mean(0), wanted - wanted.mean(0)
    lengths = np.linalg.norm(got, axis=1) * np.linalg.norm(wanted, axis=1)
    return float(np.mean((got * wanted).sum(1) / np.maximum(lengths, 1e-30)))


def _accuracy(made: Subject, got: np.ndarray, wanted: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    """Accuracy on labelled pictures before ('savedmodel') and after ('converted')."""

    def top1(logits: np.ndarray, labels: np.ndarray) -> float:
        return float(np.mean(logits.argmax(1) == labels))

    if made.kind == ENCODER:
        found, score = {"measure": "10 nearest neighbours, leave-one-out"}, nearest_neighbour_accuracy
    else:
        found, score = {"measure": "top-1", "same_prediction": top1(got, wanted.argmax(1))}, top1
    return {**found, "pictures": len(labels), "savedmodel": score(wanted, labels), "converted": score(got, labels)}


def photographs(subject: Subject) -> np.ndarray:
    """Parts of the 19 embedded photographs, prepared for the module: uint8 [19, S, S, 3]."""
    regions = [tf.constant(np.asarray(region)) for region in photos.regions("test")]
    return np.stack([subject.prepare(region).numpy() for region in regions])


def representative_pictures(subject: Subject, folder: str) -> np.ndarray:
    """Up to 100 pictures from all parts of a folder: uint8 [N, S, S, 3]. Raises ConfigError if it has none."""
    with _naming("representative"):
        source = catalog.open_source(DataConfig(dataset=f"folder:{folder}"), "train", "representative")
    return _spread(subject, source, REPRESENTATIVE)[0]


def labelled_pictures(subject: Subject, folder: str) -> tuple[np.ndarray, np.ndarray]:
    """Up to 1,000 pictures from all parts of a folder with class folders, of its split `val` if it has one.

    Returns:
      uint8 [N, S, S, 3], and labels int64 [N]: of a classifier's classes, if the module is one.

    Raises:
      ConfigError: it has no class folders, or one that the classifier does not know, or that has several labels a
        picture.
    """
    if subject.card.get("several_labels"):
        raise ConfigError("labelled", folder, f"{subject.name} gives several labels a picture, class folders one")
    data = DataConfig(dataset=f"folder:{folder}")
    with _naming("labelled"):
        try:
            source = catalog.open_labelled(data, "val", "labelled")
        except SplitError:
            source = catalog.open_labelled(data, "train", "labelled")
    images, labels = _spread(subject, source, LABELLED)
    if not subject.class_names:
        return images, labels
    unknown = [name for name in source.class_names if name not in subject.class_names]
    if unknown:
        raise ConfigError(
            "labelled",
            folder,
            f"has a folder {unknown[0]}, which is no class of {subject.name}; its classes are "
            f"{', '.join(subject.class_names)}",
        )
    return images, np.array([subject.class_names.index(name) for name in source.class_names])[labels]


@contextlib.contextmanager
def _naming(flag: str) -> Iterator[None]:
    """Re-raises a ConfigError about a dataset with the flag that the folder came from."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(str(error).replace("--dataset=folder:", f"--{flag}=")) from error


def _spread(subject: Subject, source: Source, most: int) -> tuple[np.ndarray, np.ndarray]:
    every = -(-source.num_examples // most)
    images, labels = [], []
    for example in source.ordered().shard(every, 0):
        images.append(subject.prepare(source.decode(example["encoded"])).numpy())
        labels.append(int(example["label"]))
    return np.stack(images), np.array(labels)
