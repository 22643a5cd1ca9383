"""The way to an encoder: what --encoder names, loaded with all its variables, as patch latents or as feature maps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow_hub as hub

from cpc_tf.encoders.config import EncoderConfig, make_encoder
from cpc_tf.encoders.identity import PIXELS
from cpc_tf.encoders.loaded import LoadedEncoder
from cpc_tf.encoders.name import MODULE, NEW, REBUILT, EncoderName
from cpc_tf.encoders.network import Network
from cpc_tf.keras import keras
from cpc_tf.settings import ConfigError

# The endpoint that is the latents of our modules' patch grid instead of maps of the whole image.
LATENTS = "latents"
# Endpoints that a module with a single, nameless output has, too.
_NAMELESS = ("", "feature_map", "features", LATENTS)


def load_patch_encoder(text: str, seed: int = 0) -> LoadedEncoder:
    """The frozen encoder of patches that --encoder names.

    Args:
      text: 'MODULE', 'random:MODULE', 'network:MODULE' or 'pixels'.
      seed: of new weights.

    Raises:
      ConfigError: if there is no such encoder.
    """
    name = EncoderName.parse(text)
    if name.kind == NEW:
        raise ConfigError(
            f"--encoder={text}: there is no --backbone here; --encoder=random:MODULE is the untrained copy of a module"
        )
    keras.utils.set_random_seed(seed)
    encoder = None
    if name.kind == MODULE:
        encoder = hub.KerasLayer(_load_module(name), trainable=False)
    elif name.kind != PIXELS:
        encoder = _network(name, "", "float32")
        _trace(encoder, 64)
    return LoadedEncoder(encoder, name, seed=seed)


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
        encoder = _trainable_module(name, endpoint, image_size, flag)
    else:
        encoder = _network(name, backbone, precision)
    loaded = LoadedEncoder(encoder, name, backbone, seed, endpoint, update_statistics)
    # Traced before any model is built: Keras would wrap what is raised in its layers.
    try:
        outputs = _trace(loaded.outputs, image_size)
    except (ValueError, TypeError, tf.errors.OpError) as error:
        raise ConfigError(
            f"--encoder={text}: does not take images [B, {image_size}, {image_size}, 3] in [0, 1] ({_last_line(error)})"
        ) from error
    _check_endpoint(outputs, endpoint, text, flag, vectors)
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
    fitting = sorted(name for name, x in outputs.items() if x.shape.rank in ranks)
    if endpoint not in fitting:
        shape = f", but {outputs[endpoint].shape}" if endpoint in outputs else ""
        has = f"the {wanted} {', '.join(fitting)}" if fitting else f"no {wanted}"
        raise ConfigError(f"--{flag}={endpoint}: --encoder={text} has {has}{shape}")


def with_values(
    settings: EncoderConfig, variables: list[tf.Variable], name: str, precision: str = "float32"
) -> Network:
    """A network with the values of these variables, in the order of `Network.variables`.

    Raises:
      ConfigError: if they are another network's. `name` is the module's, for the message.
    """
    network = make_encoder(settings, precision)
    _trace(network, 32)
    if [v.shape for v in network.variables] != [v.shape for v in variables]:
        raise ConfigError(
            f"--encoder={name}: its encoder.json is of another network: {len(network.variables)} variables there, "
            f"{len(variables)} in the module, or other shapes"
        )
    for variable, value in zip(network.variables, variables):
        variable.assign(value)
    return network


def _network(name: EncoderName, backbone: str, precision: str) -> Network:
    """One of our networks, new or with the values of a module."""
    settings = name.settings(backbone)
    if name.kind == REBUILT:
        return with_values(settings, _load_module(name).variables, name.text, precision)
    return make_encoder(settings, precision)


def _load_module(name: EncoderName) -> Any:
    try:
        return hub.load(name.module)
    except (OSError, ValueError, RuntimeError, tf.errors.OpError) as error:
        raise ConfigError(
            f"--encoder={name.text}: cannot be loaded as a TF-Hub module ({_last_line(error)})"
        ) from error


def _trainable_module(name: EncoderName, endpoint: str, image_size: int, flag: str) -> hub.KerasLayer:
    """A TF-Hub module as a layer that may be fine-tuned, with all its endpoints if it has some."""
    loaded = _load_module(name)
    if endpoint == LATENTS:
        if not hasattr(loaded, "patched"):
            raise ConfigError(f"--{flag}={LATENTS}: --encoder={name.text} is no module of ours, it has no patch grid")
        return hub.KerasLayer(loaded.patched, trainable=True)
    if endpoint:
        layer = hub.KerasLayer(loaded, trainable=True, arguments={"return_endpoints": True})
        try:
            _trace(layer, image_size)
            return layer
        except (ValueError, TypeError):  # knows no endpoints: the plain interface
            pass
    return hub.KerasLayer(loaded, trainable=True)


def _trace(function: Callable[[tf.Tensor], Any], side: int) -> Any:
    """What a function gives for images, by shape: traced, not run. Makes its variables."""
    spec = tf.TensorSpec([None, side, side, 3], tf.float32)
    return tf.function(function, autograph=False).get_concrete_function(spec).structured_outputs


def _last_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[-1].strip() if lines else type(error).__name__
