"""The way to an encoder: what --encoder names, loaded with all its variables, as patch latents or as feature maps."""

from __future__ import annotations

import contextlib
from typing import Any

import tensorflow as tf
import tensorflow_hub as hub
from absl import logging

from cpc_tf.encoders import foreign
from cpc_tf.encoders.card import find_card
from cpc_tf.encoders.config import EncoderConfig, make_encoder
from cpc_tf.encoders.identity import PIXELS
from cpc_tf.encoders.loaded import LATENTS, LoadedEncoder
from cpc_tf.encoders.name import MODULE, NEW, REBUILT, EncoderName
from cpc_tf.encoders.network import Network
from cpc_tf.keras import keras
from cpc_tf.settings import ConfigError
from cpc_tf.texts import shown

# Endpoints that a module with a single, nameless output has, too.
_NAMELESS = ("", "feature_map", "features", LATENTS)


def load_patch_encoder(text: str, seed: int = 0, patch_size: int = 64) -> LoadedEncoder:
    """The frozen encoder of patches that --encoder names.

    Args:
      text: 'MODULE', 'random:MODULE', 'network:MODULE' or 'pixels'.
      seed: of new weights.
      patch_size: side of the patches that it will see, px.

    Raises:
      ConfigError: if there is no such encoder, or it does not turn such patches into features.
    """
    name = EncoderName.parse(text)
    if name.kind == NEW:
        raise ConfigError(
            f"--encoder={text}: there is no --backbone here; --encoder=random:MODULE is the untrained copy of a module"
        )
    keras.utils.set_random_seed(seed)
    if name.kind == PIXELS:
        return LoadedEncoder(None, name, seed=seed)
    if name.kind == MODULE:
        encoder = foreign.as_layer(foreign.load_module(name.module, text), text, trainable=False)
    else:
        encoder = _network(name, "", "float32")
    loaded = LoadedEncoder(encoder, name, seed=seed)
    outputs = foreign.outputs(encoder, patch_size, text)
    default = outputs.get("default") if isinstance(outputs, dict) else outputs
    if not foreign.fits(default, (2, 4)):
        has = f"outputs named {', '.join(map(str, outputs))}" if default is None else foreign.described(default)
        raise ConfigError(
            f"--encoder={shown(text)}: gives {has}; what is needed is one output, or one named 'default', of vectors "
            "or feature maps"
        )
    if name.kind == MODULE:
        foreign.try_out(loaded.vectors, patch_size, text)
    return loaded


def load_feature_maps(
    text: str,
    endpoint: str,
    image_size: int,
    *,
    backbone: str,
    seed: int = 0,
    precision: str = "float32",
    flag: str = "endpoint",
    vectors: bool = True,
    update_statistics: bool = True,
) -> LoadedEncoder:
    """The encoder that --encoder names, to be trained, with all its variables: in the strategy's scope, made there.

    Args:
      text: any value of --encoder.
      endpoint: which output; that of 'pixels' is the feature map.
      image_size: side of the images it is traced with, px.
      backbone: architecture of 'random' and 'pixels'.
      seed: of new weights.
      precision: of a network; a module computes as it was exported.
      flag: that names the endpoint, for messages.
      vectors: whether vectors will do, which become maps of a single cell.
      update_statistics: see `LoadedEncoder`.

    Raises:
      ConfigError: if there is no such encoder or endpoint, or it does not take images of this size.
    """
    name = EncoderName.parse(text)
    endpoint = "feature_map" if name.kind == PIXELS else endpoint
    keras.utils.set_random_seed(seed)
    if name.kind == MODULE:
        if precision != "float32":
            ours = f"; --encoder={REBUILT}{text} computes in --precision" if find_card(name.module) else ""
            logging.warning("--precision=%s: not used by --encoder=%s, a module as exported%s", precision, text, ours)
        encoder = _trainable_module(name, endpoint, image_size, flag)
    else:
        encoder = _network(name, backbone, precision)
    loaded = LoadedEncoder(encoder, name, backbone, seed, endpoint, update_statistics)
    # Traced before any model is built: Keras would wrap what is raised in its layers.
    _check_endpoint(foreign.outputs(loaded.outputs, image_size, text), endpoint, text, flag, vectors)
    if name.kind == MODULE:
        foreign.try_out(loaded.call, image_size, text)
    return loaded


def _check_endpoint(outputs: Any, endpoint: str, text: str, flag: str, vectors: bool) -> None:
    """Raises ConfigError if this is not among the outputs."""
    if not isinstance(outputs, dict):
        if endpoint not in _NAMELESS:
            raise ConfigError(
                f"--{flag}={endpoint}: --encoder={text} has one output, without a name; --{flag}=feature_map is that"
            )
        outputs = {endpoint: outputs}
    wanted, ranks = ("feature maps or vectors", (2, 4)) if vectors else ("feature maps", (4,))
    fitting = sorted(str(name) for name, x in outputs.items() if foreign.fits(x, ranks))
    if endpoint not in fitting:
        shape = f", but {foreign.described(outputs[endpoint])}" if endpoint in outputs else ""
        has = f"the {wanted} {', '.join(fitting)}" if fitting else f"no {wanted}"
        raise ConfigError(f"--{flag}={endpoint}: --encoder={text} has {has}{shape}")


def with_values(
    settings: EncoderConfig, variables: list[tf.Variable], name: str, precision: str = "float32"
) -> Network:
    """A network with the values of these variables; see `take_values`."""
    network = make_encoder(settings, precision)
    foreign.trace(network, 32)
    take_values(network, variables, name)
    return network


def take_values(network: Network, variables: list[tf.Variable], name: str) -> None:
    """Gives a network the values of these variables, in the order of `Network.variables`.

    Raises:
      ConfigError: if they are another network's. `name` is the module's, for the message.
    """
    if [(v.shape, v.dtype) for v in network.variables] != [(v.shape, v.dtype) for v in variables]:
        raise ConfigError(
            f"--encoder={name}: its encoder.json is of another network: {len(network.variables)} variables there, "
            f"{len(variables)} in the module, or other shapes"
        )
    for variable, value in zip(network.variables, variables):
        variable.assign(value)


def _network(name: EncoderName, backbone: str, precision: str) -> Network:
    """One of our networks, new or with the values of a module."""
    settings = name.settings(backbone)
    if name.kind == REBUILT:
        variables = getattr(foreign.load_module(name.module, name.text), "variables", ())
        return with_values(settings, variables, name.text, precision)
    return make_encoder(settings, precision)


def _trainable_module(name: EncoderName, endpoint: str, image_size: int, flag: str) -> hub.KerasLayer:
    """A TF-Hub module as a layer that may be fine-tuned, with all its endpoints if it has some."""
    module = foreign.load_module(name.module, name.text)
    if endpoint == LATENTS:
        if not hasattr(module, "patched"):
            raise ConfigError(f"--{flag}={LATENTS}: --encoder={name.text} is no module of ours, it has no patch grid")
        return foreign.as_layer(module.patched, name.text, trainable=True)
    if endpoint:
        layer = foreign.as_layer(module, name.text, trainable=True, arguments={"return_endpoints": True})
        with contextlib.suppress(Exception):  # it knows no endpoints, whatever it says of that: the plain interface
            foreign.trace(layer, image_size)
            return layer
    return foreign.as_layer(module, name.text, trainable=True)
