"""The module that is converted: its functions of images, and pictures as it sees them."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from cpc_tf.data import catalog, photos, views
from cpc_tf.data.config import DataConfig, GeometryConfig
from cpc_tf.data.source import Source, SplitError
from cpc_tf.encoders import third_party
from cpc_tf.encoders.card import find_card, module_name
from cpc_tf.evaluation.label_kinds import is_multi_label
from cpc_tf.export.check import outputs_of, shown
from cpc_tf.files import read_json
from cpc_tf.settings import ConfigError

ENCODER, CLASSIFIER = "encoder", "classifier"
REPRESENTATIVE, LABELLED = 100, 1000  # pictures at most


@dataclasses.dataclass(frozen=True)
class Subject:
    """A module to convert.

    Attributes:
      kind: ENCODER or CLASSIFIER.
      path: its directory.
      card: the content of its encoder.json or classifier.json.
      loaded: the SavedModel.
      side: of the images that it was made for, px.
      any_size: whether its functions take images of other sizes, too.
      dtype: of the images: uint8, or float32 in [0, 1].
      functions: name -> images [N, H, W, 3] -> outputs by name. The first is named as the kind, and is the main one.
      vector: the output of the main function, [N, D], that is compared most closely.
      class_names: of the probabilities; empty for an encoder.
      prepare: how a picture is shown to it: uint8 [H, W, 3] -> uint8 [side, side, 3].
    """

    kind: str
    path: str
    card: dict[str, Any]
    loaded: Any
    side: int
    any_size: bool
    dtype: tf.DType
    functions: dict[str, Callable[[tf.Tensor], dict[str, tf.Tensor]]]
    vector: str
    class_names: tuple[str, ...]
    prepare: Callable[[tf.Tensor], tf.Tensor]

    @property
    def name(self) -> str:
        """The last component of its path."""
        return module_name(self.path)

    def spec(self, one: bool = False) -> tf.TensorSpec:
        """The images that its functions take; `one`: a single image of its size."""
        sides = [self.side] * 2 if one or not self.any_size else [None, None]
        return tf.TensorSpec([1 if one else None, *sides, 3], self.dtype, name="images")

    def shown(self, images: np.ndarray) -> np.ndarray:
        """Images uint8 [N, H, W, 3] as its functions take them."""
        return shown(images, self.dtype.name)

    def outputs(self, function: str, images: np.ndarray) -> dict[str, np.ndarray]:
        """What a function of the SavedModel gives for images uint8 [N, H, W, 3]; of many images the vectors alone."""

        def call(images: np.ndarray) -> dict[str, tf.Tensor]:
            return self._graphs[function](tf.constant(images))

        return outputs_of(call, images, self.dtype.name)

    @functools.cached_property
    def _graphs(self) -> dict[str, Callable[[tf.Tensor], dict[str, tf.Tensor]]]:
        signature = [self.spec()]
        return {
            name: tf.function(function, input_signature=signature, autograph=False)
            for name, function in self.functions.items()
        }


def load(path: str) -> Subject:
    """Loads a module of `cpc-tf export`.

    Raises:
      ConfigError: there is none, or it cannot be converted.
    """
    if not tf.io.gfile.isdir(path):
        raise ConfigError("module", path, "there is no such directory")
    if tf.io.gfile.exists(os.path.join(path, "detector.json")):
        raise ConfigError(
            "module",
            path,
            "is a detector, which can be exported with --format=savedmodel alone: the other runtimes "
            "have no operation that resizes its images by the mean of areas, and none that cuts out its boxes",
        )
    is_classifier = tf.io.gfile.exists(os.path.join(path, "classifier.json"))
    card = None if is_classifier else find_card(path)
    if not (is_classifier or card):
        raise ConfigError("module", path, "has no encoder.json or classifier.json; `cpc-tf export` writes one")
    with third_party.refused(path, "cannot be loaded as a SavedModel"):
        loaded = tf.saved_model.load(path)
    return _classifier(path, loaded) if is_classifier else _encoder(path, loaded, card.to_json(), card.geometry)


def _encoder(path: str, loaded: Any, card: dict[str, Any], geometry: GeometryConfig) -> Subject:
    def unchecked(module: Any) -> Callable[[tf.Tensor], dict[str, tf.Tensor]]:
        """Its endpoints without the assertion on pixels, which modules of earlier versions do not have."""
        return getattr(module, "unchecked", functools.partial(module, return_endpoints=True))

    def encoder(images: tf.Tensor) -> dict[str, tf.Tensor]:
        endpoints = unchecked(loaded)(images)
        return {name: endpoints[name] for name in ("features", "feature_map")}

    def patched(images: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"latents": unchecked(loaded.patched)(images)["features"]}

    return Subject(
        kind=ENCODER,
        path=path,
        card=card,
        loaded=loaded,
        side=geometry.image_size,
        any_size=True,
        dtype=tf.float32,
        functions={ENCODER: encoder, "patched": patched},
        vector="features",
        class_names=(),
        prepare=lambda image: views.plain_crop(image, geometry),
    )


def _classifier(path: str, loaded: Any) -> Subject:
    card = read_json(os.path.join(path, "classifier.json"))

    def classifier(prepared: tf.Tensor) -> dict[str, tf.Tensor]:
        outputs = loaded.classify(prepared)
        return {name: outputs[name] for name in ("probabilities", "logits")}

    return Subject(
        kind=CLASSIFIER,
        path=path,
        card=card,
        loaded=loaded,
        side=card["image_size"],
        any_size=False,
        dtype=tf.uint8,
        functions={CLASSIFIER: classifier},
        vector="logits",
        class_names=tuple(card["class_names"]),
        prepare=lambda image: loaded.prepared(image[None])[0],
    )


def photographs(subject: Subject) -> np.ndarray:
    """Parts of the 19 embedded photographs, prepared for the module: uint8 [19, S, S, 3]."""
    regions = [tf.constant(np.asarray(region)) for region in photos.regions("test")]
    return np.stack([subject.prepare(region).numpy() for region in regions])


def representative(subject: Subject, folder: str) -> np.ndarray:
    """Up to 100 pictures from all parts of a folder: uint8 [N, S, S, 3]. Raises ConfigError if it has none."""
    with _naming("representative"):
        source = catalog.open_source(DataConfig(dataset=f"folder:{folder}"), "train", "representative")
    return _spread(subject, source, REPRESENTATIVE)[0]


def labelled(subject: Subject, folder: str) -> tuple[np.ndarray, np.ndarray]:
    """Up to 1,000 pictures from all parts of a folder with class folders, of its split `val` if it has one.

    Returns:
      uint8 [N, S, S, 3], and labels int64 [N]: of a classifier's classes, if the module is one.

    Raises:
      ConfigError: it has no class folders, or one that the classifier does not know, or that has several labels a
        picture.
    """
    if is_multi_label(subject.card):
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
