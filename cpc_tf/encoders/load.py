"""Loads what --encoder names, with all its variables: an encoder of patches, or one that gives
feature maps.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from cpc_tf.core.keras import keras
from cpc_tf.core.settings import ConfigError, replace
from cpc_tf.core.texts import shown
from cpc_tf.encoders import third_party
from cpc_tf.encoders.card import (
    COPY,
    GRAPH,
    NEW,
    RANGES,
    UNIT,
    EncoderCard,
    EncoderName,
    Identity,
    Training,
)
from cpc_tf.encoders.config import PIXELS, UNKNOWN, UNTRAINED, EncoderConfig
from cpc_tf.encoders.layers import has_batch_norm
from cpc_tf.encoders.network import Network, encode_grid, make_encoder, patch_grid, pixel_grid
from cpc_tf.encoders.networks import IMAGENET, KERAS, NETWORKS
from cpc_tf.encoders.third_party import LATENTS

# Patches uint8 [B, R, C, P, P, 3] -> latents float32 [B, R, C, D].
GridEncoder = Callable[[tf.Tensor], tf.Tensor]

_IMAGES = tf.TensorSpec([None, None, None, 3], tf.uint8, name="images")


class LoadedEncoder(keras.layers.Layer):
    """One output of an encoder: images float32 [B, S, S, 3] in [0, 1] -> feature maps float32 [B,
    H, W, D].

    Vectors become maps of a single cell.

    Args:
      encoder: a network of ours, or what `third_party.open_encoder` returns; None for pixels.
      name: its value of --encoder.
      card: of its module, None if it has none.
      backbone, seed: architecture and seed of a new network.
      endpoint: name of its output, '' for its default output.
      update_statistics: whether batch norm uses and updates the statistics of the batch in
        training. The weights are trained either way.

    Attributes:
      compiles: whether XLA can compile its training, as far as `load_feature_maps` was asked to
        find out.
    """

    def __init__(
        self,
        encoder: keras.layers.Layer | None,
        name: EncoderName,
        card: EncoderCard | None = None,
        backbone: str = "",
        seed: int = 0,
        endpoint: str = "",
        update_statistics: bool = True,
    ):
        super().__init__(name="backbone")
        self.encoder = encoder
        self.endpoint = endpoint
        self.compiles = True
        self._origin = (name, card, backbone, seed)
        self._update_statistics = update_statistics

    @property
    def text(self) -> str:
        """Its value of --encoder."""
        return self._origin[0].text

    @property
    def is_rebuilt(self) -> bool:
        """Whether it is one of our networks with the values of a module."""
        return isinstance(self.encoder, Network) and not self._origin[0].is_new

    @property
    def has_batch_norm(self) -> bool:
        """Whether a network of ours synchronizes batch statistics in training; third-party modules
        never do.
        """
        return (
            self._update_statistics
            and isinstance(self.encoder, Network)
            and has_batch_norm(self.encoder)
        )

    @property
    def learned(self) -> Training:
        """How its values were trained before this run, as far as is known."""
        name, card, *_ = self._origin
        return card.training if card and not name.is_new else Training()

    @property
    def identity(self) -> Identity:
        """The identity that it had before this run."""
        name, card, backbone, seed = self._origin
        counted = sum(int(np.prod(v.shape)) for v in self.trainable_variables)
        if card and not name.is_new:
            identity = card.identity(name.title)
            return dataclasses.replace(identity, parameters=identity.parameters or counted)
        new = name.kind in (NEW, COPY)
        trained_by = UNTRAINED if new else UNKNOWN
        if name.kind == PIXELS:
            trained_by = PIXELS
        architecture = backbone if name.is_new else ""
        if card:
            architecture = card.encoder.encoder
        return Identity(
            trained_by=trained_by,
            architecture=architecture,
            seed=seed if new else None,
            parameters=counted or None,
            module=name.title,
        )

    def outputs(
        self, images: tf.Tensor, training: bool = False
    ) -> tf.Tensor | dict[str, tf.Tensor]:
        """All endpoints by name, or the only output."""
        training = training and self._update_statistics
        if isinstance(self.encoder, Network):
            card = self._origin[1]
            if self.endpoint == LATENTS and card:
                patches = patch_grid(images, card.geometry.patch_size, card.geometry.patch_stride)
                return encode_grid(
                    lambda flat: self.encoder.endpoints(flat, training)["features"], patches
                )
            return self.encoder.endpoints(images, training)
        return self.encoder(self._seen(images), training=training)

    def _seen(self, images: tf.Tensor) -> tf.Tensor:
        """Images in [0, 1] -> in the range that the encoder takes."""
        return RANGES[self._origin[0].pixels or UNIT](images)

    def call(self, images: tf.Tensor, training: bool = False) -> tf.Tensor:
        features = self.outputs(images, training)
        if isinstance(features, dict):
            features = features[self.endpoint]
        return tf.cast(
            features if features.shape.rank == 4 else features[:, None, None], tf.float32
        )

    def map_shape(self, side: int) -> tf.TensorShape:
        """Returns the shape [None, H, W, D] of the maps of images of this side, px; traces the
        encoder.
        """
        # third-party modules may know their sizes for a known batch alone
        one = tf.TensorSpec([1, side, side, 3])
        maps = tf.function(self, autograph=False).get_concrete_function(one).structured_outputs
        return tf.TensorShape([None, *maps.shape[1:]])

    # Made on demand: a checkpoint would list a tf.function that is set as an attribute.
    @functools.cached_property
    def encode(self) -> Callable[[tf.Tensor], tf.Tensor]:
        """Images uint8 [B, S, S, 3] -> feature maps float32 [B, H, W, D], in inference mode;
        compiled once.
        """

        def encode(images: tf.Tensor) -> tf.Tensor:
            return self(tf.image.convert_image_dtype(images, tf.float32))

        return tf.function(encode, input_signature=[_IMAGES], autograph=False)

    @functools.cached_property
    def patch_latents(self) -> GridEncoder:
        """Patches uint8 [B, R, C, P, P, 3] -> latents float32 [B, R, C, D], each patch on its own;
        compiled.
        """
        if self.encoder is None:
            return tf.function(pixel_grid, autograph=False)
        return tf.function(functools.partial(encode_grid, self.vectors), autograph=False)

    def vectors(self, images: tf.Tensor) -> tf.Tensor:
        """Images float32 [N, H, W, 3] -> the encoder's default output, pooled to float32 [N, D]."""
        features = self.outputs(images) if self.endpoint else self.encoder(self._seen(images))
        if isinstance(features, dict):
            features = features[self.endpoint or "default"]
        features = tf.cast(features, tf.float32)
        return tf.reduce_mean(features, [1, 2]) if features.shape.rank == 4 else features

    @property
    def held(self) -> list[tf.Variable | tf.Module]:
        """What a SavedModel that calls it must track: its variables, or the third-party module with
        its tables.
        """
        saved_model = getattr(self.encoder, "resolved_object", None)  # of a layer that calls one
        return list(self.variables) if saved_model is None else [saved_model]

    def saved(self) -> tf.train.Checkpoint:
        """Its variables, under their names in the checkpoints of runs on few labels."""
        network = isinstance(self.encoder, Network)
        return tf.train.Checkpoint(
            layer=tf.train.Checkpoint(encoder=self.encoder) if network else self.encoder
        )


def load_patch_encoder(
    text: str,
    seed: int = 0,
    patch_size: int = 64,
    precision: str = "float32",
    xla: bool = False,
    *,
    signature: str = "",
    endpoint: str = "",
) -> LoadedEncoder:
    """Returns the frozen encoder of patches that --encoder names.

    Args:
      text: any value of --encoder but 'random'.
      seed: of new weights.
      patch_size: side of the patches, px.
      precision: of a network; a SavedModel computes as it was exported.
      xla: whether it shall be compiled by XLA. A module that XLA cannot compile gets `compiles`
        False.
      signature: of a third-party SavedModel; '': its call.
      endpoint: which output, pooled if it is a map; '': the default one, or the only one of vectors
        or maps.

    Raises:
      ConfigError: if there is no such encoder, or it does not return features of such patches.
    """
    name = EncoderName.parse(text)
    if name.kind == NEW:
        raise ConfigError(
            "encoder",
            text,
            "needs --backbone, which this command lacks; use --encoder=random:MODULE, the"
            " untrained copy of a module",
        )
    keras.utils.set_random_seed(seed)
    card = _card(name, signature)
    if name.kind == PIXELS:
        return LoadedEncoder(None, name, seed=seed)
    encoder = _open(name, card, precision, signature, endpoint, patch_size)
    loaded = LoadedEncoder(encoder, name, card, seed=seed, endpoint=endpoint)
    outputs = third_party.outputs(loaded.outputs if endpoint else encoder, patch_size, text)
    if endpoint:
        third_party.check_endpoint(outputs, endpoint, text, "endpoint", vectors=True)
    # of several, such as tokens and their summary
    elif isinstance(outputs, dict) and "default" not in outputs:
        fitting = [output for output, values in outputs.items() if third_party.fits(values, (2, 4))]
        loaded.endpoint = endpoint = fitting[0] if len(fitting) == 1 else ""
    default = outputs.get(endpoint or "default") if isinstance(outputs, dict) else outputs
    if not third_party.fits(default, (2, 4)):
        has = (
            f"outputs named {', '.join(map(str, outputs))}"
            if default is None
            else third_party.described(default)
        )
        raise ConfigError(
            "encoder",
            shown(text),
            f"gives {has}; what is needed is one output of vectors or feature maps, or one named"
            " 'default' or by --endpoint",
        )
    if not name.is_new:
        third_party.try_out(loaded.vectors, patch_size, text)
    if xla and not isinstance(encoder, Network):
        loaded.compiles = third_party.compiles(loaded.vectors, [], patch_size, text)
    return loaded


def load_feature_maps(
    text: str,
    endpoint: str,
    image_size: int,
    *,
    backbone: str,
    seed: int = 0,
    precision: str = "float32",
    signature: str = "",
    frozen_by: str = "",
    flag: str = "endpoint",
    vectors: bool = True,
    update_statistics: bool = True,
    recompute: bool = False,
    norm: str = "auto",
    xla: bool = False,
) -> LoadedEncoder:
    """Returns the encoder that --encoder names, with all its variables; call it in a strategy's
    scope.

    Args:
      text: any value of --encoder.
      endpoint: which output; that of 'pixels' is the feature map.
      image_size: side of the images it is traced with, px.
      backbone: architecture of 'random' and 'pixels'.
      seed: of new weights.
      precision: of a network; a SavedModel computes as it was exported.
      signature: of a third-party SavedModel; '': its call.
      frozen_by: if it will be trained, the flag that would leave it as it is: one that cannot be
        trained is refused.
      flag: that names the endpoint, for messages.
      vectors: whether the output may be vectors, which become maps of a single cell.
      update_statistics: see `LoadedEncoder`.
      recompute: whether a network recomputes activations in the backward pass. Its card keeps the
        setting it has.
      norm: of 'random' and 'pixels'; 'auto': what is usual for it.
      xla: whether training shall be compiled by XLA. A module that XLA cannot compile gets
        `compiles` False.

    Raises:
      ConfigError: if there is no such encoder or endpoint, it does not take images of this size, or
        it cannot be trained or recompute activations as asked for.
    """
    name = EncoderName.parse(text)
    endpoint = "feature_map" if name.kind == PIXELS else endpoint
    keras.utils.set_random_seed(seed)
    card = _card(name, signature)
    encoder = _open(
        name, card, precision, signature, endpoint, image_size, flag, True, backbone, norm
    )
    if not isinstance(encoder, Network):
        if recompute:
            logging.warning(
                "--recompute: not used by --encoder=%s, which computes as exported", text
            )
        several = tf.distribute.get_strategy().num_replicas_in_sync > 1
        if update_statistics and encoder.trainable_variables and several:
            logging.warning(
                "--encoder=%s: if it has batch norm and is fine-tuned, each device uses the"
                " statistics of its own images, so the figures depend on the number of devices;"
                " --strategy=single uses one",
                text,
            )
    else:
        replace(encoder.config, recompute=recompute)  # refuses what is not an option of the network
        encoder.recompute = recompute
    loaded = LoadedEncoder(encoder, name, card, backbone, seed, endpoint, update_statistics)
    # Traced before any model is built: Keras would wrap what is raised in its layers.
    third_party.check_endpoint(
        third_party.outputs(loaded.outputs, image_size, text), endpoint, text, flag, vectors
    )
    if not name.is_new:
        third_party.try_out(loaded.call, image_size, text)
    if frozen_by and not encoder.trainable_variables:
        raise ConfigError(
            "encoder",
            shown(text),
            f"cannot be fine-tuned, since {third_party.why_untrainable(encoder)}; use it"
            f" frozen ({frozen_by})",
        )
    if xla and not isinstance(encoder, Network):
        train = functools.partial(loaded, training=True)
        loaded.compiles = third_party.compiles(train, loaded.trainable_variables, image_size, text)
    return loaded


def _card(name: EncoderName, signature: str) -> EncoderCard | None:
    """Returns the card of the module, if there is one. It is read first: a damaged one is refused
    before training.
    """
    card = name.find_card()
    if signature and (card or name.is_new):
        raise ConfigError(
            "signature",
            signature,
            f"is only for third-party modules, not for --encoder={shown(name.text)}; leave it out",
        )
    if card and name.pixels:
        raise ConfigError(
            "encoder",
            shown(name.text),
            f"is a module of cpc-tf, which takes [0, 1]; leave out {name.pixels}:",
        )
    return card


def _open(
    name: EncoderName,
    card: EncoderCard | None,
    precision: str,
    signature: str,
    endpoint: str,
    side: int,
    flag: str = "endpoint",
    trainable: bool = False,
    backbone: str = "",
    norm: str = "auto",
) -> keras.layers.Layer:
    """Returns a network, new or with the values of our module, or a SavedModel as a layer."""
    if name.kind in (PIXELS, NEW):
        options = NETWORKS[backbone].from_labels if name.kind == PIXELS else {}
        options = options if norm == "auto" else {**options, "norm": norm}
        return make_encoder(EncoderConfig(encoder=backbone, **options), precision)
    if name.kind == COPY:
        return make_encoder(card.encoder, precision)
    if name.kind == KERAS:
        return make_encoder(card.encoder, precision, name.module or IMAGENET)
    if card and name.kind != GRAPH:
        return with_values(card.encoder, saved_values(name.module, name.text), name.text, precision)
    if precision != "float32":
        logging.warning(
            "--precision=%s: not used by --encoder=%s, which computes as exported",
            precision,
            name.text,
        )
    return third_party.open_encoder(name, signature, endpoint, side, flag, trainable)


def saved_values(module: str, text: str) -> list[np.ndarray]:
    """Returns the values of a module of ours, in the order of `Network.variables`; its graphs are
    not loaded.
    """
    with third_party.refused(text, "its variables cannot be read"):
        reader = tf.train.load_checkpoint(os.path.join(module, "variables", "variables"))
        keys = [key for key in reader.get_variable_to_shape_map() if not key.startswith("_")]
        return [
            reader.get_tensor(f"variables/{i}/.ATTRIBUTES/VARIABLE_VALUE") for i in range(len(keys))
        ]


def with_values(
    settings: EncoderConfig,
    values: Sequence[np.ndarray | tf.Variable],
    text: str,
    precision: str = "float32",
) -> Network:
    """Returns a network with these values; see `take_values`."""
    network = make_encoder(settings, precision)
    if not network.variables:
        third_party.trace(network, 32)
    take_values(network, values, text)
    return network


def take_values(network: Network, values: Sequence[np.ndarray | tf.Variable], text: str) -> None:
    """Assigns these values, in the order of `Network.variables`.

    Raises:
      ConfigError: if they belong to another network. `text` is the value of --encoder, for the
        message.
    """
    if [(v.shape, v.dtype) for v in network.variables] != [(v.shape, v.dtype) for v in values]:
        raise ConfigError(
            "encoder",
            shown(text),
            f"its encoder.json is for another network: {len(network.variables)} variables"
            f" there, {len(values)} in the module, or other shapes",
        )
    for variable, value in zip(network.variables, values):
        variable.assign(value)
