"""The module that is converted, loaded: its functions of images, and how it sees a picture."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from cpc_tf.data.config import GeometryConfig
from cpc_tf.data.views import geometry as geo
from cpc_tf.encoders import third_party
from cpc_tf.encoders.card import find_card, module_name
from cpc_tf.export.runtimes.check_runtime import outputs_of, shown
from cpc_tf.files import read_json
from cpc_tf.settings import ConfigError

ENCODER, CLASSIFIER = "encoder", "classifier"


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
        raise ConfigError(f"--module={path}: there is no such directory")
    if tf.io.gfile.exists(os.path.join(path, "detector.json")):
        raise ConfigError(
            f"--module={path}: is a detector, which can be exported with --format=savedmodel alone: the other runtimes "
            "have no operation that resizes its images by the mean of areas, and none that cuts out its boxes"
        )
    is_classifier = tf.io.gfile.exists(os.path.join(path, "classifier.json"))
    card = None if is_classifier else find_card(path)
    if not (is_classifier or card):
        raise ConfigError(f"--module={path}: has no encoder.json or classifier.json; `cpc-tf export` writes one")
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
        prepare=lambda image: geo.plain(image, geometry),
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
