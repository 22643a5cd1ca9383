"""Opens encoders that others made: SavedModels, by their call or a signature, TF1-format modules and Keras files."""

from __future__ import annotations

import contextlib
from typing import Any

import tensorflow as tf
import tensorflow_hub as hub
from absl import logging

from cpc_tf.encoders import keras_file
from cpc_tf.encoders.foreign import LATENTS, refused, trace
from cpc_tf.encoders.loaded import EncoderName
from cpc_tf.encoders.pixels import RANGES, UNIT
from cpc_tf.keras import keras
from cpc_tf.settings import ConfigError
from cpc_tf.texts import listed, shown


def open_encoder(
    name: EncoderName, signature: str, endpoint: str, side: int, flag: str, trainable: bool
) -> keras.layers.Layer:
    """An encoder of others, or one of ours as its SavedModel, as a layer.

    Args:
      name: of the kind MODULE or GRAPH.
      signature: of a SavedModel; '': its call, or 'default' in a module of TF1 format.
      endpoint: which output is wanted; '': the default output.
      side: of the images, px.
      flag: that names the endpoint, for messages.
      trainable: whether its variables shall be trained, if it has some that can be.

    Returns:
      A layer that maps images float32 [B, side, side, 3] in the range `name.pixels` to an output, or all by name.

    Raises:
      ConfigError: if there is no such module, signature or layer, or it takes other images.
    """
    text = name.text
    if keras_file.is_keras_file(name.module):
        if signature:
            raise ConfigError("signature", signature, f"--encoder={shown(text)} is a Keras file, which has none")
        if not name.pixels:
            raise ConfigError(
                "encoder",
                shown(text),
                "Keras files take pixels in different ranges; name that of this one, one of "
                f"{', '.join(RANGES)}: e.g. --encoder=-1..1:{shown(name.module)}",
            )
        return keras_file.open_file(name.module, endpoint, text, flag, trainable)
    module = _load(name.module, text)
    if signature or is_tf1_hub(module):
        layer = Signature(module, signature or "default", text, side, name.pixels)
        if not name.pixels:
            logging.warning(
                "--encoder=%s: signature %s is given pixels in [0, 1]; name its range if it is another, as "
                "--encoder=-1..1:%s, or 0..1: to say that it is this one",
                *(text, layer.name, name.module),
            )
        return layer
    if not callable(module) and (names := _signatures(module)):
        raise ConfigError(
            "encoder",
            shown(text),
            f"cannot be called with images; name one of its signatures, {listed(names)}: --signature={names[0]}",
        )
    if endpoint == LATENTS:
        if not hasattr(module, "patched"):
            raise ConfigError(flag, LATENTS, f"--encoder={text} is no module of ours, it has no patch grid")
        return _as_layer(module.patched, text, trainable)
    if endpoint:
        layer = _as_layer(module, text, trainable, arguments={"return_endpoints": True})
        with contextlib.suppress(Exception):  # a module without endpoints may raise anything: its only output is used
            trace(layer, side)
            return layer
    return _as_layer(module, text, trainable)


def is_tf1_hub(module: Any) -> bool:
    """Whether a loaded module has the TF1 format of TF-Hub."""
    return bool(getattr(module, "_is_hub_module_v1", False))  # set by hub.load; there is no public way to ask


def why_untrainable(layer: keras.layers.Layer) -> str:
    """Why an opened encoder has no variables to train."""
    if isinstance(layer, Signature):
        kind = "a module of TF1 format" if is_tf1_hub(layer.resolved_object) else "a signature"
        return f"{kind} computes as it was exported: it has no mode for training"
    return "it has no trainable variables"


class Signature(keras.layers.Layer):
    """A signature of a SavedModel, frozen: images in the range that it takes -> its outputs by name.

    Attributes:
      resolved_object: the SavedModel, as hub.KerasLayer has it, which takes no modules of TF1 format.

    Raises:
      ConfigError: if there is no such signature, or it takes something else than images of this size.
    """

    def __init__(self, module: Any, signature: str, text: str, side: int, pixels: str):
        names = _signatures(module)
        if signature not in names:
            has = f"the signatures {listed(names)}" if names else "no signatures"
            raise ConfigError("signature", shown(signature), f"--encoder={shown(text)} has {has}")
        inputs = module.signatures[signature].structured_input_signature[1]
        said = f"--encoder={shown(text)}: signature {signature} takes"
        # A dimension may be unknown: images of any size.
        if len(inputs) != 1 or not (spec := next(iter(inputs.values()))).shape.is_compatible_with(
            [None, None, None, 3]
        ):
            shapes = ", ".join(f"{key} {spec.dtype.name} {spec.shape}" for key, spec in inputs.items())
            raise ConfigError(f"{said} {shapes}, no batch of images [B, H, W, 3]")
        if not spec.shape.is_compatible_with([None, side, side, 3]):
            height, width = spec.shape[1:3]
            raise ConfigError(
                f"{said} images of {height} x {width} px, not of {side} x {side} px: set --image_size, in linear "
                "--patch_size too"
            )
        if not spec.dtype.is_floating and (pixels or UNIT) != "0..255":
            raise ConfigError(f"{said} {spec.dtype.name}, whole numbers: --encoder=0..255:{shown(text)}")
        super().__init__(name=signature, trainable=False)
        self.resolved_object, self._function = module, module.signatures[signature]
        self._takes = (next(iter(inputs)), spec.dtype)

    def call(self, images: tf.Tensor, training: bool | None = None) -> dict[str, tf.Tensor]:
        """Images float32 [N, H, W, 3] -> {name: output}."""
        name, dtype = self._takes
        values = images if dtype.is_floating else tf.round(images)
        return self._function(**{name: tf.cast(values, dtype)})


def _load(module: str, text: str) -> Any:
    """A SavedModel by directory or handle; TEXT is the value of --encoder. Raises ConfigError."""
    with refused(text, "cannot be loaded as a TF-Hub module"):
        return hub.load(module)


def _signatures(module: Any) -> list[str]:
    return sorted(getattr(module, "signatures", None) or {})


def _as_layer(module: Any, text: str, trainable: bool, **options: Any) -> hub.KerasLayer:
    """The call of a SavedModel as a layer. Raises ConfigError."""
    trainable = trainable and bool(getattr(module, "trainable_variables", ()))
    with refused(text, "cannot be called with images, as a TF-Hub module of images can"):
        return hub.KerasLayer(module, trainable=trainable, **options)
