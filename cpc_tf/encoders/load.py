"""Loads what --encoder names, with all its variables: as patch latents or as feature maps."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from cpc_tf.encoders import foreign, third_party
from cpc_tf.encoders.card import EncoderCard, find_card
from cpc_tf.encoders.config import PIXELS, EncoderConfig
from cpc_tf.encoders.loaded import COPY, GRAPH, NEW, EncoderName, LoadedEncoder
from cpc_tf.encoders.network import Network, make_encoder
from cpc_tf.encoders.networks import NETWORKS
from cpc_tf.keras import keras
from cpc_tf.settings import ConfigError, replace
from cpc_tf.texts import shown


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
      xla: whether it shall be compiled by XLA. A module that XLA cannot compile gets `compiles` False.
      signature: of a SavedModel of others; '': its call.
      endpoint: which output, pooled if it is a map; '': the default one.

    Raises:
      ConfigError: if there is no such encoder, or it does not return features of such patches.
    """
    name = EncoderName.parse(text)
    if name.kind == NEW:
        raise ConfigError(
            f"--encoder={text}: there is no --backbone here; --encoder=random:MODULE is the untrained copy of a module"
        )
    keras.utils.set_random_seed(seed)
    card = _card(name, signature)
    if name.kind == PIXELS:
        return LoadedEncoder(None, name, seed=seed)
    encoder = _network(name, card, "", precision)
    if encoder is None:
        _warn_of_precision(precision, text)
        encoder = third_party.open_encoder(name, signature, endpoint, patch_size, "endpoint", trainable=False)
    loaded = LoadedEncoder(encoder, name, card, seed=seed, endpoint=endpoint)
    outputs = foreign.outputs(loaded.outputs if endpoint else encoder, patch_size, text)
    if endpoint:
        foreign.check_endpoint(outputs, endpoint, text, "endpoint", vectors=True)
    default = outputs.get(endpoint or "default") if isinstance(outputs, dict) else outputs
    if not foreign.fits(default, (2, 4)):
        has = f"outputs named {', '.join(map(str, outputs))}" if default is None else foreign.described(default)
        raise ConfigError(
            f"--encoder={shown(text)}: gives {has}; what is needed is one output, or one named 'default' or by "
            "--endpoint, of vectors or feature maps"
        )
    if not name.is_new:
        foreign.try_out(loaded.vectors, patch_size, text)
    if xla and not isinstance(encoder, Network):
        loaded.compiles = foreign.compiles(loaded.vectors, [], patch_size, text)
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
    """Returns the encoder that --encoder names, with all its variables; call it in a strategy's scope.

    Args:
      text: any value of --encoder.
      endpoint: which output; that of 'pixels' is the feature map.
      image_size: side of the images it is traced with, px.
      backbone: architecture of 'random' and 'pixels'.
      seed: of new weights.
      precision: of a network; a SavedModel computes as it was exported.
      signature: of a SavedModel of others; '': its call.
      frozen_by: if it will be trained, the flag that would leave it as it is: one that cannot be trained is refused.
      flag: that names the endpoint, for messages.
      vectors: whether the output may be vectors, which become maps of a single cell.
      update_statistics: see `LoadedEncoder`.
      recompute: whether a network recomputes activations in the backward pass. Its card keeps the setting it has.
      norm: of 'random' and 'pixels'; 'auto': what is usual for it.
      xla: whether training shall be compiled by XLA. A module that XLA cannot compile gets `compiles` False.

    Raises:
      ConfigError: if there is no such encoder or endpoint, it does not take images of this size, or it cannot be
        trained or recompute activations as asked for.
    """
    name = EncoderName.parse(text)
    endpoint = "feature_map" if name.kind == PIXELS else endpoint
    keras.utils.set_random_seed(seed)
    card = _card(name, signature)
    encoder = _network(name, card, backbone, precision, norm)
    if encoder is None:
        _warn_of_precision(precision, text)
        if recompute:
            logging.warning("--recompute: not used by --encoder=%s, which computes as exported", text)
        encoder = third_party.open_encoder(name, signature, endpoint, image_size, flag, trainable=True)
        several = tf.distribute.get_strategy().num_replicas_in_sync > 1
        if update_statistics and encoder.trainable_variables and several:
            logging.warning(
                "--encoder=%s: if it has batch norm and is fine-tuned, each device uses the statistics of its own "
                "images, so the figures depend on the number of devices; --strategy=single uses one",
                text,
            )
    else:
        replace(encoder.config, recompute=recompute)  # refuses what is not an option of the network
        if recompute and encoder.config.norm == "batch" and update_statistics:
            raise ConfigError(
                f"--recompute: with the batch norm of --encoder={shown(text)} a step would average the statistics of "
                "its batch twice; leave it out"
            )
        encoder.recompute = recompute
    loaded = LoadedEncoder(encoder, name, card, backbone, seed, endpoint, update_statistics)
    # Traced before any model is built: Keras would wrap what is raised in its layers.
    foreign.check_endpoint(foreign.outputs(loaded.outputs, image_size, text), endpoint, text, flag, vectors)
    if not name.is_new:
        foreign.try_out(loaded.call, image_size, text)
    if frozen_by and not encoder.trainable_variables:
        raise ConfigError(
            f"--encoder={shown(text)}: cannot be fine-tuned, since {third_party.why_untrainable(encoder)}; "
            f"train on it as it is ({frozen_by})"
        )
    if xla and not isinstance(encoder, Network):
        train = functools.partial(loaded, training=True)
        loaded.compiles = foreign.compiles(train, loaded.trainable_variables, image_size, text)
    return loaded


def _warn_of_precision(precision: str, text: str) -> None:
    if precision != "float32":
        logging.warning("--precision=%s: not used by --encoder=%s, which computes as exported", precision, text)


def _card(name: EncoderName, signature: str = "") -> EncoderCard | None:
    """The card of the module, if there is one. It is read first: a damaged one is refused before training."""
    if name.kind == COPY:
        card = name.card("--encoder=random --backbone=NAME is a new network")
    else:
        card = find_card(name.module) if name.module else None
    if signature and (card or name.is_new):
        raise ConfigError(f"--signature={signature}: is for third-party modules, not for --encoder={shown(name.text)}")
    if card and name.pixels:
        raise ConfigError(f"--encoder={shown(name.text)}: is one of ours, which takes [0, 1]; leave out {name.pixels}:")
    return card


def _network(
    name: EncoderName, card: EncoderCard | None, backbone: str, precision: str, norm: str = "auto"
) -> Network | None:
    """A network, new or with the values of our module; None if the SavedModel itself is used."""
    if name.kind in (PIXELS, NEW):
        options = NETWORKS[backbone].from_labels if name.kind == PIXELS else {}
        options = options if norm == "auto" else {**options, "norm": norm}
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
    """Assigns these values, in the order of `Network.variables`.

    Raises:
      ConfigError: if they belong to another network. `text` is the value of --encoder, for the message.
    """
    if [(v.shape, v.dtype) for v in network.variables] != [(v.shape, v.dtype) for v in values]:
        raise ConfigError(
            f"--encoder={shown(text)}: its encoder.json is of another network: {len(network.variables)} variables "
            f"there, {len(values)} in the module, or other shapes"
        )
    for variable, value in zip(network.variables, values):
        variable.assign(value)
