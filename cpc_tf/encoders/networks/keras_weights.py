"""Reads a file of weights of a Keras network, with or without its classifier, in both of Keras'
formats.

Only arrays are read, as `load_weights` does; the names in the file are those of groups.
"""

from __future__ import annotations

import re

import h5py
import numpy as np

from cpc_tf.core.files import reason
from cpc_tf.core.keras import keras
from cpc_tf.core.settings import ConfigError
from cpc_tf.core.texts import shown

FORMATS = (".h5", ".hdf5")
# A classifier has at most this many layers with weights, behind those of a network without it.
_CLASSIFIER_LAYERS = 3
# Names of the group of layers in files of `save_weights("NAME.weights.h5")`.
_LAYERS = ("layers", "_layer_checkpoint_dependencies")


def read_weights(network: keras.Model, path: str, text: str) -> None:
    """Gives a network, which has no classifier, the weights of a file.

    Args:
      network: built by Keras.
      path: of the file.
      text: the value of --encoder, for messages.

    Raises:
      ConfigError: the file cannot be read, or is of another network.
    """
    try:
        with h5py.File(path, "r") as file:
            group = file.get("model_weights", file)
            has_names = "layer_names" in group.attrs or "layer_names0" in group.attrs
            layers = _by_position(group) if has_names else _by_class(group, network)
    # h5py documents no types
    except (OSError, KeyError, ValueError, TypeError, RuntimeError, AttributeError) as error:
        raise ConfigError(
            "encoder", shown(text), f"its file of weights cannot be read ({reason(error)})"
        ) from error
    with_weights = [layer for layer in network.layers if layer.weights]
    for index, layer in enumerate(with_weights):
        needed = [tuple(variable.shape) for variable in _weights(layer)]
        stored = [values.shape for values in layers[index]] if index < len(layers) else []
        if needed != stored:
            raise ConfigError(
                "encoder",
                shown(text),
                f"its file is for another network: layer {layer.name} has weights of shape"
                f" {needed}, in the file {stored}",
            )
    if len(layers) > len(with_weights) + _CLASSIFIER_LAYERS:
        raise ConfigError(
            "encoder",
            shown(text),
            f"its file is for another network: {len(layers)} layers in the file,"
            f" {len(with_weights)} in the network",
        )
    for layer, arrays in zip(with_weights, layers):
        for variable, values in zip(_weights(layer), arrays):
            variable.assign(values)


def _weights(layer: keras.layers.Layer) -> list:
    return [*layer.trainable_weights, *layer.non_trainable_weights]


def _by_position(group: h5py.Group) -> list[list[np.ndarray]]:
    """Returns the arrays of the layers that have some, of a file that lists them in their order."""
    layers = []
    for name in _listed(group, "layer_names"):
        layer = group[name]
        if names := _listed(layer, "weight_names"):
            layers.append([np.asarray(layer[each]) for each in names])
    return layers


def _listed(group: h5py.Group, key: str) -> list[str]:
    """Returns a list of names, which Keras parts if it is long: 'KEY0', 'KEY1', ..."""
    parts = [key] if key in group.attrs else []
    while f"{key}{len(parts)}" in group.attrs:
        parts.append(f"{key}{len(parts)}")
    names = [name for part in parts for name in group.attrs[part]]
    return [name.decode() if isinstance(name, bytes) else str(name) for name in names]


def _by_class(group: h5py.Group, network: keras.Model) -> list[list[np.ndarray]]:
    """Returns the arrays of the layers of a network that have weights, of a file that numbers the
    layers of each class.
    """
    (of_layers,) = (group[name] for name in _LAYERS if name in group)
    layers = []
    counts: dict[str, int] = {}
    for layer in network.layers:
        kind = _snake_case(type(layer).__name__)
        count = counts[kind] = counts.get(kind, -1) + 1
        if not layer.weights:
            continue
        stored = of_layers.get(f"{kind}_{count}" if count else kind)
        if stored is None:
            layers.append([])
        elif isinstance(layer, keras.Model):  # a part of its own, as the stem of ConvNeXt
            arrays = _by_class(stored, layer)
            layers.append([values for of_layer in arrays for values in of_layer])
        else:
            variables = stored["vars"]
            layers.append([np.asarray(variables[str(i)]) for i in range(len(variables))])
    return layers


def _snake_case(name: str) -> str:
    parted = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", parted).lower()
