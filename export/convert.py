"""Converts a SavedModel of ours to another format, and compares both on images: `cpc-tf export
--format=...`.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from cpc_tf.core.files import to_json, write_file
from cpc_tf.core.settings import ConfigError, RunEnded, replace
from cpc_tf.core.texts import name_lines
from cpc_tf.data import catalog, photos
from cpc_tf.data.config import DataConfig
from cpc_tf.data.reference import FOLDER, DataRef
from cpc_tf.data.source import Source, SplitError
from cpc_tf.evaluation.label_kinds import is_multi_label
from cpc_tf.evaluation.neighbours import nearest_neighbour_accuracy
from cpc_tf.export.config import KERAS3, ONNX, TFLITE, RuntimeConfig
from cpc_tf.export.formats import ENCODER, Subject, load, write
from cpc_tf.export.shared import render, versions
from cpc_tf.export.verify import NotVerified, computed, difference
from cpc_tf.linear.config import LinearConfig
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.training.workdir import read_config, read_task

# images at most
REPRESENTATIVE = 100
LABELLED = 1000
TOLERANCE = 1e-4  # of float32: of any output, relative to its largest value
SIMILAR = 0.9  # of int8: least mean cosine between the outputs
_TITLES = {TFLITE: "TFLite (LiteRT)", ONNX: "ONNX", KERAS3: "Keras 3"}
_LIBRARIES = {TFLITE: (), ONNX: ("tf2onnx", "onnx", "onnxruntime"), KERAS3: ("keras",)}


class Own(NamedTuple):
    """The images of a run, without its augmentation."""

    learned: Source
    tested: Source | None  # with labels


def convert(
    module: str, directory: str, config: RuntimeConfig, own: Own | None = None
) -> dict[str, Any]:
    """Writes a module in another format, with its card, runtime.json and README.md.

    Args:
      module: directory of the SavedModel with its card.
      directory: where to write; it exists and is empty.
      config: what to write, and the images to use.
      own: those of the run, which are used where the settings name none.

    Returns:
      The content of runtime.json, and 'summary', one line.

    Raises:
      ConfigError: there is no such module, it cannot be converted to this format, or the images
        cannot be used.
      NotVerified: it cannot be converted, or computes something else than the SavedModel.
    """
    subject = load(module)
    labelled = representative = None
    if config.labelled:
        labelled = labelled_pictures(subject, config.labelled)
    elif own and own.tested and not is_multi_label(subject.card):
        labelled = _with_labels(subject, own.tested, "--workdir")
    if config.representative:
        representative = representative_pictures(subject, config.representative)
    elif own and config.quantize == "int8":
        representative = _evenly_spaced(subject, own.learned, REPRESENTATIVE)[0]
    with _converting(config.format):
        images = None if representative is None else subject.as_input(representative)
        files = write(subject, directory, config.format, config.quantize, images)
    card = {
        "kind": subject.kind,
        "format": config.format,
        "quantize": config.quantize,
        "module": subject.name,
        "bytes": {name: os.path.getsize(os.path.join(directory, name)) for name in files},
        "image_size": subject.side,
        **compare(subject, directory, config, representative, labelled),
        "versions": versions(*_LIBRARIES[config.format]),
        "card": subject.card,
    }
    title = _TITLES[config.format]
    accuracies = []
    if "accuracy" in card:
        before, after = (
            f"{100 * card['accuracy'][name]:.1f} %" for name in ("savedmodel", "converted")
        )
        accuracies = [
            "{measure} on {pictures} images: ".format(**card["accuracy"]) + f"{before} -> {after}"
        ]
    texts = {
        "runtime.json": to_json(card),
        "README.md": render(
            "runtime", **card, title=title, accuracies=accuracies, vector=subject.vector
        ),
    }
    if subject.class_names:
        texts["labels.txt"] = name_lines(subject.class_names)
    for name, text in texts.items():
        write_file(os.path.join(directory, name), text)
    measured = f"largest difference {card['difference']:.0e}"
    if config.quantize != "none":
        measured = f"mean cosine with the SavedModel's outputs {card['similarity']:.4f}"
    size = sum(card["bytes"].values()) / 1e6
    return {
        **card,
        "summary": "; ".join([f"{subject.kind} for {title}, {size:.1f} MB", measured, *accuracies]),
    }


@contextlib.contextmanager
def _converting(format: str) -> Iterator[None]:
    """Mutes what converters print to the terminal, and re-raises whatever they raise as
    NotVerified.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    copies = [os.dup(number) for number in (1, 2)]
    try:
        with open(os.devnull, "w") as nothing:
            for number in (1, 2):
                os.dup2(nothing.fileno(), number)
        yield
    except RunEnded:
        raise
    except Exception as error:  # they document no types
        raise NotVerified(
            f"the converter to {format} failed: {' '.join(str(error).split())[:300]}"
        ) from error
    finally:
        sys.stdout.flush()  # what they printed and Python still holds
        sys.stderr.flush()
        for number, copy in zip((1, 2), copies):
            os.dup2(copy, number)
            os.close(copy)


# The images on which both are compared.


def photographs(subject: Subject) -> np.ndarray:
    """Parts of the 19 embedded photographs, prepared for the module: uint8 [19, S, S, 3]."""
    regions = [tf.constant(np.asarray(region)) for region in photos.regions("test")]
    return np.stack([subject.prepare(region).numpy() for region in regions])


def representative_pictures(subject: Subject, folder: str) -> np.ndarray:
    """Up to 100 images from all parts of a folder: uint8 [N, S, S, 3]. Raises ConfigError if it has
    none.
    """
    with _naming("representative"):
        source = catalog.open_source(
            DataConfig(dataset=str(DataRef(FOLDER, folder))), "train", "representative"
        )
    return _evenly_spaced(subject, source, REPRESENTATIVE)[0]


def labelled_pictures(subject: Subject, folder: str) -> tuple[np.ndarray, np.ndarray]:
    """Up to 1,000 images from all parts of a folder with class folders, of its split `val` if it
    has one.

    Returns:
      uint8 [N, S, S, 3], and labels int64 [N]: of a classifier's classes, if the module is one.

    Raises:
      ConfigError: it has no class folders, or one that the classifier does not know, or the
        classifier is multi-label.
    """
    if is_multi_label(subject.card):
        raise ConfigError(
            "labelled",
            folder,
            f"{subject.name} is multi-label, and class folders give an image one label",
        )
    data = DataConfig(dataset=str(DataRef(FOLDER, folder)))
    with _naming("labelled"):
        try:
            source = catalog.open_labelled(data, "val", "labelled")
        except SplitError:
            source = catalog.open_labelled(data, "train", "labelled")
    return _with_labels(subject, source, f"--labelled={folder}")


def _with_labels(subject: Subject, source: Source, where: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns up to 1,000 images of a source, and labels of the classifier's classes, if the module
    is one.
    """
    unknown = [
        name
        for name in source.class_names
        if subject.class_names and name not in subject.class_names
    ]
    if unknown:
        raise ConfigError(
            f"{where}: has a folder {unknown[0]}, which is not a class of {subject.name}; its"
            f" classes are {', '.join(subject.class_names)}"
        )
    images, labels = _evenly_spaced(subject, source, LABELLED)
    if not subject.class_names:
        return images, labels
    return (
        images,
        np.array([subject.class_names.index(name) for name in source.class_names])[labels],
    )


def pictures_of_run(workdir: str) -> Own | None:
    """Returns the images that a run learned from and was tested on; None of a run on boxes.

    Raises:
      ConfigError: they are no longer there.
    """
    task = read_task(workdir)
    if task.name == "detect":
        return None
    run = read_config(workdir, task.config)
    if isinstance(run, PretrainConfig):
        return Own(catalog.open_source(run.data, run.data.split), None)
    labels = run.probe if isinstance(run, LinearConfig) else run.labels
    pair = catalog.open_pair(replace(run.data, unlabelled=""), labels.test_split)
    return Own(pair.source, pair.test_source)


@contextlib.contextmanager
def _naming(flag: str) -> Iterator[None]:
    """Re-raises a ConfigError about a dataset with the flag that the folder came from."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(str(error).replace("--dataset=folder:", f"--{flag}=")) from error


def _evenly_spaced(subject: Subject, source: Source, most: int) -> tuple[np.ndarray, np.ndarray]:
    every = -(-source.num_examples // most)
    images = []
    labels = []
    for example in source.ordered().shard(every, 0):
        images.append(subject.prepare(source.decode(example["encoded"])).numpy())
        labels.append(int(example["label"]))
    return np.stack(images), np.array(labels)


def compare(
    subject: Subject,
    directory: str,
    config: RuntimeConfig,
    representative: np.ndarray | None = None,
    labelled: tuple[np.ndarray, np.ndarray] | None = None,
) -> dict[str, Any]:
    """Runs a converted module and the SavedModel on images: the embedded photographs, and those of
    the user.

    Args:
      subject: the SavedModel.
      directory: of the converted module.
      config: how it was converted.
      representative: uint8 [N, S, S, 3], from which the ranges of int8 were chosen.
      labelled: uint8 [N, S, S, 3] and labels int64 [N].

    Returns:
      'difference': the largest of any output, relative to its largest value. 'similarity': the mean
      cosine between the vectors of both, on the 'pictures', which are the representative ones if
      there are any. 'accuracy': before and after, on the labelled images.

    Raises:
      NotVerified: the converted module cannot be used, or does something else.
    """
    kind = subject.kind
    quantized = config.quantize != "none"
    images = photographs(subject)
    # 'FUNCTION/CASE' -> images uint8 [N, H, W, 3] that both modules get
    cases = {f"{kind}/photographs": images}
    if representative is not None:
        cases[f"{kind}/representative images"] = representative
    if not quantized and config.format != KERAS3:
        cases.update({f"{name}/photographs": images[:2] for name in list(subject.functions)[1:]})
    if subject.any_size and config.format != TFLITE:
        cases[f"{kind}/another_size"] = images[:1, : subject.side // 2 + 3]
    if labelled:
        cases[f"{kind}/labelled"] = labelled[0]
    got = computed(config.format, directory, {"dtype": np.array(subject.dtype.name), **cases})
    wanted = {}
    for key, batch in cases.items():
        for name, values in subject.outputs(key.partition("/")[0], batch).items():
            wanted[f"{key}/{name}"] = values
    tolerance = np.inf if quantized else TOLERANCE
    name = "photographs" if representative is None else "representative images"
    key = f"{kind}/{name}/{subject.vector}"
    measured = {
        "pictures": f"{len(wanted[key])} {name}",
        "difference": max(
            difference(each, got.get(each), x, tolerance, "SavedModel")
            for each, x in wanted.items()
        ),
        "similarity": _mean_cosine(got[key], wanted[key]),
    }
    if not measured["similarity"] >= SIMILAR:
        raise NotVerified(
            f"{subject.vector} are too different: the mean cosine with those of the SavedModel is "
            f"{measured['similarity']:.3f} on {measured['pictures']}, less than {SIMILAR}"
        )
    if labelled:
        key = f"{kind}/labelled/{subject.vector}"
        measured["accuracy"] = _accuracy(kind, got[key], wanted[key], labelled[1])
    return measured


def _mean_cosine(got: np.ndarray, wanted: np.ndarray) -> float:
    """Mean cosine between corresponding rows [N, D], after the mean of the wanted ones was
    subtracted.
    """
    got = got - wanted.mean(0)
    wanted = wanted - wanted.mean(0)
    lengths = np.linalg.norm(got, axis=1) * np.linalg.norm(wanted, axis=1)
    return float(np.mean((got * wanted).sum(1) / np.maximum(lengths, 1e-30)))


def _accuracy(kind: str, got: np.ndarray, wanted: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    """Accuracy on labelled images before ('savedmodel') and after ('converted')."""

    def top1(logits: np.ndarray, labels: np.ndarray) -> float:
        return float(np.mean(logits.argmax(1) == labels))

    if kind == ENCODER:
        about = {"measure": "10 nearest neighbours, leave-one-out"}
        score = nearest_neighbour_accuracy
    else:
        about = {"measure": "top-1", "same_prediction": top1(got, wanted.argmax(1))}
        score = top1
    return {
        **about,
        "pictures": len(labels),
        "savedmodel": score(wanted, labels),
        "converted": score(got, labels),
    }
