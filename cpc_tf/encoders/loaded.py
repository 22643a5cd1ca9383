"""An encoder as what other tasks build on: feature maps of images, or latents of patches."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import tensorflow as tf
import tensorflow_hub as hub

from cpc_tf.data.config import GeometryConfig
from cpc_tf.encoders.card import find_card
from cpc_tf.encoders.identity import PIXELS, UNKNOWN, UNTRAINED, Identity, module_name
from cpc_tf.encoders.name import COPY, NEW, EncoderName
from cpc_tf.encoders.network import Network
from cpc_tf.encoders.patch_grid import patch_grid
from cpc_tf.keras import keras

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
