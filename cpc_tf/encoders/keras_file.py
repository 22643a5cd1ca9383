"""Keras model files (.keras, .h5) of others as encoders: their output, or the output of a layer by its name."""

from __future__ import annotations

import json
import zipfile
from typing import Any

import h5py
import tensorflow as tf

from cpc_tf.encoders.foreign import refused
from cpc_tf.keras import keras
from cpc_tf.settings import ConfigError
from cpc_tf.texts import listed, shown

SUFFIXES = (".keras", ".h5", ".hdf5")


def is_keras_file(module: str) -> bool:
    """Whether a module is a Keras model file, by its name."""
    return module.endswith(SUFFIXES)


def open_file(module: str, endpoint: str, text: str, flag: str, trainable: bool) -> keras.layers.Layer:
    """A Keras model file as a layer.

    Args:
      module: its path.
      endpoint: name of the layer whose output is wanted; '' or 'feature_map': the model's own output.
      text: the value of --encoder, for messages.
      flag: that names the endpoint.
      trainable: whether all its layers are to be trained; else none is.

    Returns:
      A layer with the model's name: images, in the range that the model takes -> its output, or {endpoint: output}.

    Raises:
      ConfigError: if it cannot be read here, or has no such layer.
    """
    with refused(text, "cannot be loaded as a Keras model file"):
        writer = _version(module)
        is_keras_3 = writer.partition(".")[0] == "3"
        library = _keras_3() if is_keras_3 else keras
    if library is None:
        raise ConfigError(
            f"--encoder={shown(text)}: was written by Keras {writer}, and this environment has Keras 2; "
            "model.export('DIRECTORY') of Keras 3 writes a SavedModel for --signature=serving_default"
        )
    with refused(text, "cannot be loaded as a Keras model file"):
        model = library.models.load_model(module, compile=False)
    if endpoint not in ("", "feature_map"):
        model = _up_to(library, model, endpoint, text, flag)
    model.trainable = trainable
    return _Keras3Layer(model) if is_keras_3 else model


def _version(module: str) -> str:
    """The version of Keras that wrote a file."""
    if zipfile.is_zipfile(module):
        with zipfile.ZipFile(module) as archive:
            return json.loads(archive.read("metadata.json"))["keras_version"]
    with h5py.File(module) as file:
        return str(file.attrs.get("keras_version", "2"))


def _keras_3() -> Any:
    """The package keras if it is Keras 3, else None."""
    import keras as package

    return package if package.__version__.startswith("3.") else None


def _up_to(library: Any, model: Any, endpoint: str, text: str, flag: str) -> Any:
    """The model that ends with a layer."""
    found = {layer.name: _output(layer) for layer in model.layers}
    fitting = [name for name, output in found.items() if output is not None]
    if endpoint not in fitting:
        has = f"layers with feature maps or vectors: {listed(fitting[::-1])}" if fitting else "no layer to choose"
        raise ConfigError(f"--{flag}={shown(endpoint)}: --encoder={shown(text)} has {has}")
    return library.Model(model.inputs, {endpoint: found[endpoint]}, name=model.name)


def _output(layer: Any) -> Any:
    """The symbolic output of a layer if it is a map or a vector of known width, else None."""
    try:
        shape = layer.output.shape
    except (AttributeError, RuntimeError, ValueError):  # it has several, or is no part of a graph of layers
        return None
    return layer.output if len(shape) in (2, 4) and shape[-1] else None


class _Keras3Layer(keras.layers.Layer):
    """A model of Keras 3 as a layer of Keras 2, which shares its variables."""

    def __init__(self, model: Any):
        super().__init__(name=model.name, trainable=model.trainable)
        self.values = [variable.value for variable in model.variables]
        self._forward = model.__call__  # a model would be tracked; a method is not

    def call(self, images: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Images [N, H, W, 3] -> what the model makes of them."""
        return self._forward(images, training=training)
