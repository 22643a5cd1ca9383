"""The one door to an encoder: a TF-Hub module, its untrained twin, or the pixels themselves."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable

import tensorflow as tf
import tensorflow_hub as hub

from cpc_tf.data.config import GeometryConfig
from cpc_tf.encoders.config import EncoderConfig, make_encoder
from cpc_tf.keras import keras
from cpc_tf.settings import ConfigError

# Images float32 [N, H, W, 3] in [0, 1] -> features float32 [N, D].
ImageEncoder = Callable[[tf.Tensor], tf.Tensor]
# Patches uint8 [B, R, C, P, P, 3] -> latents float32 [B, R, C, D].
GridEncoder = Callable[[tf.Tensor], tf.Tensor]

PIXEL_SIDE = 8


def load_encoder(name: str, seed: int = 0) -> ImageEncoder:
    """The frozen encoder called `name`.

    Args:
      name: a TF-Hub module of images, by directory or handle; 'random:MODULE' for the architecture of one of ours
        with new weights.
      seed: of the new weights.

    Raises:
      ConfigError: if there is no such module, or it does not take images.
    """
    if name.startswith("random:"):
        keras.utils.set_random_seed(seed)
        return make_encoder(EncoderConfig(**module_card(name[len("random:") :])["encoder"]))
    if not name:
        raise ConfigError("--encoder= is empty: name a TF-Hub module, e.g. --encoder=runs/photos/hub")
    try:
        layer = hub.KerasLayer(name, trainable=False)
    except (OSError, ValueError, RuntimeError, tf.errors.OpError) as error:
        raise ConfigError(f"--encoder={name}: cannot be loaded as a TF-Hub module ({_first_line(error)})") from error

    def encode(images: tf.Tensor) -> tf.Tensor:
        features = layer(images)
        if isinstance(features, dict):
            features = features["default"]
        return tf.reduce_mean(features, [1, 2]) if features.shape.rank == 4 else features

    return encode


def load_grid_encoder(name: str, seed: int = 0) -> GridEncoder:
    """The frozen encoder called `name` (see `load_encoder`) for grids of patches, or 'pixels'; compiled."""
    if name == "pixels":
        return tf.function(pixel_grid, autograph=False)
    return tf.function(functools.partial(encode_grid, load_encoder(name, seed)), autograph=False)


def module_card(name: str) -> dict:
    """The encoder.json of one of our modules: 'encoder' and 'geometry' settings, 'feature_dim' and where it comes from.

    Raises:
      ConfigError: if it has none.
    """
    path = os.path.join(name, "encoder.json")
    if "://" not in name and not tf.io.gfile.exists(name):
        raise ConfigError(f"--encoder={name}: there is no such directory")
    if not tf.io.gfile.exists(path):
        raise ConfigError(
            f"--encoder={name}: no encoder.json there; a module that `python -m export` did not write needs "
            "--geometry_from=flags and --nobaselines"
        )
    with tf.io.gfile.GFile(path) as file:
        return json.loads(file.read())


def module_geometry(name: str) -> GeometryConfig:
    """The geometry that one of our modules was trained with. Raises ConfigError if it has no encoder.json."""
    return GeometryConfig(**module_card(name[len("random:") :] if name.startswith("random:") else name)["geometry"])


def encode_grid(encoder: ImageEncoder, patches: tf.Tensor) -> tf.Tensor:
    """Patches uint8 [B, R, C, P, P, 3] -> latents float32 [B, R, C, D], each patch on its own."""
    shape = tf.shape(patches)
    flat = tf.reshape(patches, [-1, *patches.shape[3:]])  # [B*R*C, P, P, 3]
    latents = encoder(tf.image.convert_image_dtype(flat, tf.float32))
    return tf.reshape(latents, [shape[0], *patches.shape[1:3], latents.shape[-1]])


def pixel_grid(patches: tf.Tensor) -> tf.Tensor:
    """Patches uint8 [B, R, C, P, P, 3] -> their pixels, shrunk to 8x8 a patch, as one latent [B, 1, 1, R*C*192]."""
    flat = tf.cast(tf.reshape(patches, [-1, *patches.shape[3:]]), tf.float32) / 255.0  # [B*R*C, P, P, 3]
    small = tf.image.resize(flat, [PIXEL_SIDE, PIXEL_SIDE], antialias=True)
    size = patches.shape[1] * patches.shape[2] * PIXEL_SIDE * PIXEL_SIDE * 3
    return tf.reshape(small, [-1, 1, 1, size])


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
