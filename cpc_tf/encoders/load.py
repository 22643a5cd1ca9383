"""The way to an encoder: what --encoder names, loaded with all its variables, as patch latents or as feature maps."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf
import tensorflow_hub as hub
from absl import logging

from cpc_tf.encoders import foreign
from cpc_tf.encoders.card import PIXELS, UNKNOWN, UNTRAINED, EncoderCard, Identity, find_card, module_name, read_card
from cpc_tf.encoders.config import EncoderConfig, make_encoder
from cpc_tf.encoders.foreign import LATENTS
from cpc_tf.encoders.network import Network
from cpc_tf.encoders.networks import NETWORKS
from cpc_tf.encoders.patches import encode_grid, patch_grid, pixel_grid
from cpc_tf.keras import keras
from cpc_tf.settings import ConfigError
from cpc_tf.texts import shown

# Kinds of encoders beside PIXELS. Those that end with a colon are prefixes of the value.
MODULE, NEW, COPY, GRAPH = "module", "random", "random:", "graph:"


@dataclasses.dataclass(frozen=True)
class EncoderName:
    """The value of --encoder.

    Attributes:
      text: as given.
      kind: PIXELS: no encoder; the supervised baseline. NEW: a network of --backbone with new weights. COPY: the
        untrained copy of one of our modules. MODULE: a TF-Hub module; one of ours is rebuilt as a network, which
        computes in --precision. GRAPH: a TF-Hub module as its SavedModel, which computes as it was exported.
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
        kind = next((kind for kind in (COPY, GRAPH) if text.startswith(kind)), MODULE)
        module = text if kind == MODULE else text[len(kind) :]
        if not module:
            raise ConfigError(f"--encoder={text} is empty: name a TF-Hub module, e.g. --encoder={text}runs/photos/hub")
        return cls(text, kind, module)

    @property
    def is_new(self) -> bool:
        """Whether it begins with random weights."""
        return self.kind in (PIXELS, NEW, COPY)

    def card(self, otherwise: str = "") -> EncoderCard:
        """Returns the card of its module; see `read_card`."""
        return read_card(self.module, otherwise)


# Patches uint8 [B, R, C, P, P, 3] -> latents float32 [B, R, C, D].
GridEncoder = Callable[[tf.Tensor], tf.Tensor]

_IMAGES = tf.TensorSpec([None, None, None, 3], tf.uint8, name="images")


class LoadedEncoder(keras.layers.Layer):
    """One output of an encoder: images float32 [B, S, S, 3] in [0, 1] -> feature maps float32 [B, H, W, D].

    Vectors become maps of a single cell.

    Args:
      encoder: a network of ours or a hub.KerasLayer; None for pixels.
      name: which encoder that is.
      card: of its module, None if it has none.
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
        card: EncoderCard | None = None,
        backbone: str = "",
        seed: int = 0,
        endpoint: str = "",
        update_statistics: bool = True,
    ):
        super().__init__(name="backbone")
        self.encoder, self.endpoint = encoder, endpoint
        self._origin, self._update_statistics = (name, card, backbone, seed), update_statistics

    @property
    def is_rebuilt(self) -> bool:
        """Whether it is our network with the values of a module."""
        return isinstance(self.encoder, Network) and not self._origin[0].is_new

    @property
    def identity(self) -> Identity:
        """What it was before this run."""
        name, card, backbone, seed = self._origin
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
            card = self._origin[1]
            if self.endpoint == LATENTS and card:
                patches = patch_grid(images, card.geometry.patch_size, card.geometry.patch_stride)
                return encode_grid(lambda flat: self.encoder.endpoints(flat, training)["features"], patches)
            return self.encoder.endpoints(images, training)
        return self.encoder(images, training=training)

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


def load_patch_encoder(text: str, seed: int = 0, patch_size: int = 64) -> LoadedEncoder:
    """Returns the frozen encoder of patches that --encoder names; a network computes in float32.

    Args:
      text: any value of --encoder but 'random'.
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
    card = _card(name)
    encoder = _network(name, card, "", "float32")
    if encoder is None:
        encoder = foreign.as_layer(foreign.load_module(name.module, text), text, trainable=False)
    loaded = LoadedEncoder(encoder, name, card, seed=seed)
    outputs = foreign.outputs(encoder, patch_size, text)
    default = outputs.get("default") if isinstance(outputs, dict) else outputs
    if not foreign.fits(default, (2, 4)):
        has = f"outputs named {', '.join(map(str, outputs))}" if default is None else foreign.described(default)
        raise ConfigError(
            f"--encoder={shown(text)}: gives {has}; what is needed is one output, or one named 'default', of vectors "
            "or feature maps"
        )
    if not name.is_new:
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
    """Returns the encoder that --encoder names, to be trained, with all its variables; call it in a strategy's scope.

    Args:
      text: any value of --encoder.
      endpoint: which output; that of 'pixels' is the feature map.
      image_size: side of the images it is traced with, px.
      backbone: architecture of 'random' and 'pixels'.
      seed: of new weights.
      precision: of a network; a SavedModel computes as it was exported.
      flag: that names the endpoint, for messages.
      vectors: whether vectors will do, which become maps of a single cell.
      update_statistics: see `LoadedEncoder`.

    Raises:
      ConfigError: if there is no such encoder or endpoint, or it does not take images of this size.
    """
    name = EncoderName.parse(text)
    endpoint = "feature_map" if name.kind == PIXELS else endpoint
    keras.utils.set_random_seed(seed)
    card = _card(name)
    encoder = _network(name, card, backbone, precision)
    if encoder is None:
        if precision != "float32":
            logging.warning("--precision=%s: not used by --encoder=%s, which computes as exported", precision, text)
        encoder = foreign.trainable_layer(name.module, endpoint, image_size, text, flag)
    loaded = LoadedEncoder(encoder, name, card, backbone, seed, endpoint, update_statistics)
    # Traced before any model is built: Keras would wrap what is raised in its layers.
    foreign.check_endpoint(foreign.outputs(loaded.outputs, image_size, text), endpoint, text, flag, vectors)
    if not name.is_new:
        foreign.try_out(loaded.call, image_size, text)
    return loaded


def _card(name: EncoderName) -> EncoderCard | None:
    """The card of the module, which may be another's; read first, so that a damaged one is refused before training."""
    if name.kind == COPY:
        return name.card("--encoder=random --backbone=NAME is a new network")
    return find_card(name.module) if name.module else None


def _network(name: EncoderName, card: EncoderCard | None, backbone: str, precision: str) -> Network | None:
    """Our network, new or with the values of a module; None if the module is used as its SavedModel."""
    if name.kind in (PIXELS, NEW):
        options = NETWORKS[backbone].FROM_LABELS if name.kind == PIXELS else {}
        return make_encoder(EncoderConfig(encoder=backbone, **options), precision)
    if name.kind == COPY:
        return make_encoder(card.encoder, precision)
    if name.kind == GRAPH or card is None:
        return None
    return with_values(card.encoder, saved_values(name.module, name.text), name.text, precision)


def saved_values(module: str, text: str) -> list[np.ndarray]:
    """Returns the values of a module of ours, in the order of `Network.variables`; its graphs are not loaded."""
    with foreign.refused(text, "its variables cannot be read"):
        reader = tf.train.load_checkpoint(os.path.join(module, "variables", "variables"))
        keys = [key for key in reader.get_variable_to_shape_map() if not key.startswith("_")]
        return [reader.get_tensor(f"variables/{i}/.ATTRIBUTES/VARIABLE_VALUE") for i in range(len(keys))]


def with_values(
    settings: EncoderConfig, values: Sequence[np.ndarray | tf.Variable], text: str, precision: str = "float32"
) -> Network:
    """Returns a network with these values; see `take_values`."""
    network = make_encoder(settings, precision)
    foreign.trace(network, 32)
    take_values(network, values, text)
    return network


def take_values(network: Network, values: Sequence[np.ndarray | tf.Variable], text: str) -> None:
    """Gives a network these values, in the order of `Network.variables`.

    Raises:
      ConfigError: if they are another network's. `text` is the value of --encoder, for the message.
    """
    if [(v.shape, v.dtype) for v in network.variables] != [(v.shape, v.dtype) for v in values]:
        raise ConfigError(
            f"--encoder={shown(text)}: its encoder.json is of another network: {len(network.variables)} variables "
            f"there, {len(values)} in the module, or other shapes"
        )
    for variable, value in zip(network.variables, values):
        variable.assign(value)
