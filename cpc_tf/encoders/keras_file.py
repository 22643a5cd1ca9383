"""Keras model files (.h5) of others as encoders: their output, or the output of a layer by its name."""

from __future__ import annotations

from typing import Any

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
    if module.endswith(".keras"):
        raise ConfigError(
            f"--encoder={shown(text)}: not all values of .keras files were restored in trials; save it as .h5, or "
            "write a SavedModel by model.export('DIRECTORY') for --signature=serving_default"
        )
    with refused(text, "cannot be loaded as a Keras model file"):
        model = keras.models.load_model(module, compile=False)
    if endpoint not in ("", "feature_map"):
        model = _up_to(model, endpoint, text, flag)
    model.trainable = trainable
    return model


def _up_to(model: Any, endpoint: str, text: str, flag: str) -> Any:
    """The model that ends with a layer."""
    found = {layer.name: _output(layer) for layer in model.layers}
    fitting = [name for name, output in found.items() if output is not None]
    if endpoint not in fitting:
        has = f"layers with feature maps or vectors: {listed(fitting[::-1])}" if fitting else "no layer to choose"
        raise ConfigError(f"--{flag}={shown(endpoint)}: --encoder={shown(text)} has {has}")
    return keras.Model(model.inputs, {endpoint: found[endpoint]}, name=model.name)


def _output(layer: Any) -> Any:
    """The symbolic output of a layer if it is a map or a vector of known width, else None."""
    try:
        shape = layer.output.shape
    except (AttributeError, RuntimeError, ValueError):  # it has several, or is no part of a graph of layers
        return None
    return layer.output if len(shape) in (2, 4) and shape[-1] else None
