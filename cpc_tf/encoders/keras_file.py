"""Keras model files (.keras, .h5) of others as encoders: their output, or the output of a layer by its name."""

from __future__ import annotations

import io
import json
import os
import tempfile
import zipfile
from typing import Any

import h5py

from cpc_tf.encoders import keras_parts
from cpc_tf.encoders.foreign import refused
from cpc_tf.keras import keras
from cpc_tf.settings import ConfigError
from cpc_tf.texts import listed, shown

SUFFIXES = (".keras", ".h5", ".hdf5")
_METADATA, _CONFIG, _WEIGHTS = "metadata.json", "config.json", "model.weights.h5"  # in a .keras file


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
      ConfigError: if it cannot be read here, holds code of its author, or has no such layer.
    """
    with refused(text, "cannot be loaded as a Keras model file"):
        writer = _version(module)
        try:
            model = _load(module) if writer.startswith("2.") else None
        except keras_parts.Refused as error:
            raise ConfigError(
                "encoder",
                shown(text),
                f"{error}; in the program that made it, model.export('DIRECTORY') writes a "
                "SavedModel for --signature=serving_default",
            ) from error
    if model is None:
        raise ConfigError(
            "encoder",
            shown(text),
            f"was written by Keras {writer}, and Keras 2 reads it here; there, "
            "model.export('DIRECTORY') writes a SavedModel for --signature=serving_default",
        )
    if not all(isinstance(layer, keras.layers.Layer) for layer in model.layers):
        raise ConfigError("encoder", shown(text), "has layers that are not of Keras 2, whose values would be lost")
    if endpoint not in ("", "feature_map"):
        model = _up_to(model, endpoint, text, flag)
    model.trainable = trainable
    return model


def _version(module: str) -> str:
    """The version of Keras that wrote a file."""
    if zipfile.is_zipfile(module):
        with zipfile.ZipFile(module) as archive:
            return json.loads(archive.read(_METADATA))["keras_version"]
    with h5py.File(module) as file:
        return str(file.attrs.get("keras_version", "2."))  # the oldest files name none


def _load(module: str) -> Any:
    """The model in a file of Keras 2.

    Files of the package tf_keras name its classes. tf.keras would build the model of them and restore none of its
    values, without a word; so they get the names that tf.keras writes, which tf_keras takes, too.

    Raises:
      Refused: building it could run code of its author or read other files.
    """
    size = os.path.getsize(module)
    if not zipfile.is_zipfile(module):
        with h5py.File(module) as file:
            keras_parts.check_hdf5(file, size)
            keras_parts.checked(json.loads(file.attrs.get("model_config", "{}")))
        return keras.models.load_model(module, compile=False)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.keras")
        with zipfile.ZipFile(module) as archive, zipfile.ZipFile(path, "w") as copy:
            keras_parts.check_size(sum(member.file_size for member in archive.infolist()), size)
            config = archive.read(_CONFIG).replace(b'"tf_keras.', b'"keras.')
            weights = archive.read(_WEIGHTS)
            with h5py.File(io.BytesIO(weights)) as file:
                keras_parts.check_hdf5(file, size)
            copy.writestr(_METADATA, archive.read(_METADATA))
            copy.writestr(_CONFIG, json.dumps(keras_parts.checked(json.loads(config))))
            copy.writestr(_WEIGHTS, weights)  # what else a file may have are vocabularies, of layers that are refused
        return keras.models.load_model(path, compile=False)


def _up_to(model: Any, endpoint: str, text: str, flag: str) -> Any:
    """The model that ends with a layer."""
    found = {layer.name: _output(layer) for layer in model.layers}
    fitting = [name for name, output in found.items() if output is not None]
    if endpoint not in fitting:
        has = f"layers with feature maps or vectors: {listed(fitting[::-1])}" if fitting else "no layer to choose"
        raise ConfigError(flag, shown(endpoint), f"--encoder={shown(text)} has {has}")
    return keras.Model(model.inputs, {endpoint: found[endpoint]}, name=model.name)


def _output(layer: Any) -> Any:
    """The symbolic output of a layer if it is a map or a vector of known width, else None."""
    try:
        shape = layer.output.shape
    except (AttributeError, RuntimeError, ValueError):  # it has several, or is no part of a graph of layers
        return None
    return layer.output if len(shape) in (2, 4) and shape[-1] else None
