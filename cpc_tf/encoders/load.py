"""The way to an encoder: what --encoder names, loaded with all its variables, as patch latents or as feature maps."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_hub as hub
from absl import logging

from cpc_tf.data.config import GeometryConfig
from cpc_tf.encoders import foreign
from cpc_tf.encoders.card import PIXELS, UNKNOWN, UNTRAINED, EncoderCard, Identity, find_card, module_name, read_card
from cpc_tf.encoders.config import EncoderConfig, make_encoder
from cpc_tf.encoders.network import Network
from cpc_tf.encoders.networks import NETWORKS
from cpc_tf.encoders.patch_grid import patch_grid
from cpc_tf.keras import keras
from cpc_tf.settings import ConfigError
from cpc_tf.texts import shown

# Kinds of encoders beside PIXELS. Those that end with a colon are what the value begins with.
MODULE, NEW, COPY, REBUILT = "module", "random", "random:", "network:"


@dataclasses.dataclass(frozen=True)
class EncoderName:
    """The value of --encoder.

    Attributes:
      text: as given.
      kind: PIXELS: no encoder, what learns from the labels begins at the pixels. NEW: a network of --backbone with new
        weights. COPY: the untrained copy of one of our modules. MODULE: a TF-Hub module. REBUILT: one of our modules
        as a network, which computes in --precision; a module computes as it was exported.
      module: directory or handle, '' if there is none.
    """

    text: str
    kind: str
    module: str = ""

    @classmethod
    def parse(cls, text: str) -> EncoderName:
        """Raises ConfigError if nothing is named."""
        if text in (PIXELS, NEW):
            return cls(text, text)
        kind = next((kind for kind in (COPY, REBUILT) if text.startswith(kind)), MODULE)
        module = text if kind == MODULE else text[len(kind) :]
        if not module:
            raise ConfigError(f"--encoder={text} is empty: name a TF-Hub module, e.g. --encoder={text}runs/photos/hub")
        return cls(text, kind, module)

    @property
    def is_new(self) -> bool:
        """Whether it begins with random weights."""
        return self.kind in (PIXELS, NEW, COPY)

    def card(self, otherwise: str = "") -> EncoderCard:
        """Of its module; see `read_card`."""
        return read_card(self.module, otherwise)

    def settings(self, backbone: str) -> EncoderConfig:
        """Of the network, where it is one of ours that is built anew."""
        if self.module:
            return self.card("--encoder=random --backbone=NAME is a new network").encoder
        return EncoderConfig(encoder=backbone, **(NETWORKS[backbone].FROM_LABELS if self.kind == PIXELS else {}))


# The endpoint that is the latents of our modules' patch grid instead of maps of the whole image.
LATENTS = "latents"
# Patches uint8 [B, R, C, P, P, 3] -> latents float32 [B, R, C, D].
GridEncoder = Callable[[tf.Tensor], tf.Tensor]

_IMAGES = tf.TensorSpec([None, None, None, 3], tf.uint8, name="images")
_PIXEL_SIDE = 8


class LoadedEncoder(keras.layers.Layer):
    """One output of an encoder: images float32 [B, S, S, 3] in [0, 1] -> feature maps float32 [B, H, W, D].

    Vectors become maps of a single cell.

    Args:
      encoder: a network of ours or a hub.KerasLayer; None for pixels.
      name: which encoder that is.
      backbone: the architecture of a new one.
      seed: of the weights of a new one.
      endpoint: name of its output, '' for what it returns by itself.
      update_statistics: whether its batch norm, if it has one, normalizes with the batch in training and goes on
        averaging. The weights are trained either way.
    """

    def __init__(
        self,
        encoder: Network | hub.KerasLayer | None,
        name: EncoderName,
        backbone: str = "",
        seed: int = 0,
        endpoint: str = "",
        update_statistics: bool = True,
    ):
        super().__init__(name="backbone")
        self.encoder, self.endpoint = encoder, endpoint
        # Read now, so that a damaged card is refused before the training and not after it.
        card = find_card(name.module) if name.module else None
        self._origin, self._update_statistics = (name, backbone, seed, card), update_statistics

    @property
    def identity(self) -> Identity:
        """What it is and was, before this run."""
        name, backbone, seed, card = self._origin
        if card and not name.is_new:
            return card.identity(name.module)
        counted = sum(int(np.prod(v.shape)) for v in self.trainable_variables)
        new = name.kind in (NEW, COPY)
        return Identity(
            trained_by=PIXELS if name.kind == PIXELS else UNTRAINED if new else UNKNOWN,
            architecture=card.encoder.encoder if card else backbone if name.is_new else "",
            seed=seed if new else None,
            parameters=counted or None,
            module=module_name(name.module),
        )

    def outputs(self, images: tf.Tensor, training: bool = False) -> tf.Tensor | dict[str, tf.Tensor]:
        """All endpoints by name, or the only output."""
        training = training and self._update_statistics
        if isinstance(self.encoder, Network):
            card = self._origin[-1]
            if self.endpoint == LATENTS and card:
                return self._latents(images, card.geometry, training)
            return self.encoder.endpoints(images, training)
        return self.encoder(images, training=training)

    def _latents(self, images: tf.Tensor, geometry: GeometryConfig, training: bool) -> tf.Tensor:
        """Images [B, S, S, 3] -> latents [B, R, C, D] of a module's patch grid, by our network."""
        patches = patch_grid(images, geometry.patch_size, geometry.patch_stride)
        flat = tf.reshape(patches, [-1, *patches.shape[3:]])  # [B*R*C, P, P, 3]
        latents = self.encoder.endpoints(flat, training)["features"]  # [B*R*C, D]
        grid = tf.reshape(latents, tf.concat([tf.shape(patches)[:3], tf.shape(latents)[1:]], 0))
        return tf.ensure_shape(grid, [None, None, None, latents.shape[-1]])

    def call(self, images: tf.Tensor, training: bool = False) -> tf.Tensor:
        features = self.outputs(images, training)
        if isinstance(features, dict):
            features = features[self.endpoint]
        return tf.cast(features if features.shape.rank == 4 else features[:, None, None], tf.float32)

    # The compiled functions are made on demand: a checkpoint would list a tf.function that is set as an attribute.
    @functools.cached_property
    def encode(self) -> Callable[[tf.Tensor], tf.Tensor]:
        """Images uint8 [B, S, S, 3] -> feature maps float32 [B, H, W, D], as in a test; compiled once."""

        def encode(images: tf.Tensor) -> tf.Tensor:
            return self(tf.image.convert_image_dtype(images, tf.float32))

        return tf.function(encode, input_signature=[_IMAGES], autograph=False)

    @functools.cached_property
    def patch_latents(self) -> GridEncoder:
        """Patches uint8 [B, R, C, P, P, 3] -> latents float32 [B, R, C, D], each patch on its own; compiled."""
        if self.encoder is None:
            return tf.function(pixel_grid, autograph=False)
        return tf.function(functools.partial(encode_grid, self.vectors), autograph=False)

    def vectors(self, images: tf.Tensor) -> tf.Tensor:
        """Images float32 [N, H, W, 3] -> the features that the encoder returns by itself, float32 [N, D]."""
        features = self.encoder(images)
        if isinstance(features, dict):
            features = features["default"]
        features = tf.cast(features, tf.float32)
        return tf.reduce_mean(features, [1, 2]) if features.shape.rank == 4 else features

    def saved(self) -> tf.train.Checkpoint:
        """Its variables, under the names that they have in the checkpoints of runs on few labels."""
        network = isinstance(self.encoder, Network)
        return tf.train.Checkpoint(layer=tf.train.Checkpoint(encoder=self.encoder) if network else self.encoder)


def encode_grid(encode: Callable[[tf.Tensor], tf.Tensor], patches: tf.Tensor) -> tf.Tensor:
    """Patches uint8 [B, R, C, P, P, 3] -> latents float32 [B, R, C, D], each patch on its own.

    Args:
      encode: images float32 [N, P, P, 3] in [0, 1] -> features float32 [N, D].
    """
    shape = tf.shape(patches)
    flat = tf.reshape(patches, [-1, *patches.shape[3:]])  # [B*R*C, P, P, 3]
    latents = encode(tf.image.convert_image_dtype(flat, tf.float32))
    return tf.reshape(latents, [shape[0], *patches.shape[1:3], latents.shape[-1]])


def pixel_grid(patches: tf.Tensor) -> tf.Tensor:
    """Patches uint8 [B, R, C, P, P, 3] -> their pixels, shrunk to 8x8 a patch, as one latent [B, 1, 1, R*C*192]."""
    flat = tf.cast(tf.reshape(patches, [-1, *patches.shape[3:]]), tf.float32) / 255.0  # [B*R*C, P, P, 3]
    small = tf.image.resize(flat, [_PIXEL_SIDE, _PIXEL_SIDE], antialias=True)
    size = patches.shape[1] * patches.shape[2] * _PIXEL_SIDE * _PIXEL_SIDE * 3
    return tf.reshape(small, [-1, 1, 1, size])


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
