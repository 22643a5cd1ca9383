"""The base class of encoders, networks from images of any size to feature maps and features; and
grids of patches.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable

import tensorflow as tf

from cpc_tf.core.keras import keras, policy
from cpc_tf.core.settings import Settings
from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.encoders.layers import NoNorm
from cpc_tf.encoders.networks import NETWORKS


class Network(keras.Model):
    """Base of the encoders.

    A subclass sets `feature_dim` and implements `endpoints`; `cpc_tf.encoders.networks` has the
    table of them.

    Args:
      config: an `EncoderConfig`: which network, and the options of its family.
      precision: of convolutions and activations, 'float32', 'bfloat16' or 'float16'; parameters,
        statistics and endpoints are float32.
    """

    feature_dim: int

    def __init__(self, config: Settings, precision: str = "float32", name: str = "encoder"):
        super().__init__(name=name, dtype=policy(precision))
        self.config = config
        # Not of `config`, which is in encoder.json: fine-tuning has a flag of its own, and an
        # export sets it to False.
        self.recompute = config.recompute

    def normalized(self) -> list[tuple[keras.layers.Layer, keras.layers.Layer]]:
        """Returns the convolutions without bias whose output goes only to a norm, each with that
        norm.
        """
        return []

    def endpoints(self, images: tf.Tensor, training: bool = False) -> dict[str, tf.Tensor]:
        """All outputs by name.

        Args:
          images: [N, H, W, 3], float, in [0, 1], any H and W.
          training: whether batch norm uses the batch.

        Returns:
          At least 'feature_map', [N, h, w, feature_dim], and its mean 'features', [N, feature_dim].
          All float32.
        """
        raise NotImplementedError

    def after(self, endpoint: str) -> Callable[..., tf.Tensor] | None:
        """Returns what follows an endpoint: (its map [N, h, w, C], training) -> 'feature_map'; None
        if nothing does.
        """
        return None

    def call(
        self, images: tf.Tensor, training: bool = False, every: bool = False
    ) -> tf.Tensor | dict[str, tf.Tensor]:
        """Images [N, H, W, 3] in [0, 1] -> features [N, feature_dim], float32, or `every`
        endpoint.
        """
        endpoints = self.endpoints(images, training)
        return endpoints if every else endpoints["features"]


def make_encoder(
    config: EncoderConfig, precision: str = "float32", keras_weights: str = ""
) -> Network:
    """A new encoder; its variables are made at the first call.

    A network of Keras has them at once, new or from `keras_weights`: IMAGENET, or a file.
    """
    weights = {"weights": keras_weights} if keras_weights else {}
    return pkgutil.resolve_name(NETWORKS[config.encoder].network)(config, precision, **weights)


def restore_kernel_norms(network: Network) -> None:
    """Scales kernels that grew before a norm back to the length of He's initialization.

    A norm cancels the scale of its input (batch norm where it normalizes with the batch), so the
    gradient is perpendicular to the kernel before it, and each step of training makes that kernel
    longer. A step of SGD then turns it less, by the square of the growth, a step of Adam by the
    growth (van Laarhoven 2017, arXiv:1706.05350).

    Scales the kernels of `Network.normalized` and the averaged statistics of batch norm with them.
    The outputs stay the same but for the norms' epsilon. Kernels that weight decay made shorter
    stay: longer ones were no better.
    """
    for layer, norm in network.normalized():
        if isinstance(norm, NoNorm):
            continue
        kernel = layer.kernel
        drawn = (2.0 * layer.filters) ** 0.5  # variance 2 / fan_in of fan_in * filters values
        factor = drawn / tf.maximum(tf.norm(kernel), drawn)
        kernel.assign(kernel * factor)
        if isinstance(norm, keras.layers.BatchNormalization):
            norm.moving_mean.assign(norm.moving_mean * factor)
            norm.moving_variance.assign(norm.moving_variance * tf.square(factor))


_PIXEL_SIDE = 8


def patch_grid(images: tf.Tensor, patch: int, stride: int) -> tf.Tensor:
    """All patches of the images; pixels below and right of the last whole patch are left out.

    Args:
      images: [B, H, W, 3], any H and W of at least `patch`.
      patch: side of a patch.
      stride: distance between neighbouring patches.

    Returns:
      [B, R, C, patch, patch, 3], R from top to bottom, C from left to right.
    """
    shape = tf.shape(images)
    tf.debugging.assert_greater_equal(
        tf.reduce_min(shape[1:3]), patch, f"the images are smaller than a patch of {patch} px"
    )
    rows, columns = (
        tf.range(0, side - patch + 1, stride)[:, None] + tf.range(patch)
        for side in (shape[1], shape[2])
    )
    bands = tf.gather(images, rows, axis=1)  # [B, R, P, W, 3]
    patches = tf.gather(bands, columns, axis=3)  # [B, R, P, C, P, 3]
    return tf.transpose(patches, [0, 1, 3, 2, 4, 5])


def encode_grid(encode: Callable[[tf.Tensor], tf.Tensor], patches: tf.Tensor) -> tf.Tensor:
    """Patches [B, R, C, P, P, 3], uint8 or float32 in [0, 1] -> latents float32 [B, R, C, D], each
    patch on its own.

    Args:
      encode: images float32 [N, P, P, 3] in [0, 1] -> features float32 [N, D].
    """
    flat = tf.reshape(patches, [-1, *patches.shape[3:]])  # [B*R*C, P, P, 3]
    latents = encode(tf.image.convert_image_dtype(flat, tf.float32))  # [B*R*C, D]
    grid = tf.reshape(latents, tf.concat([tf.shape(patches)[:3], tf.shape(latents)[1:]], 0))
    return tf.ensure_shape(grid, [*patches.shape[:3], latents.shape[-1]])


def pixel_grid(patches: tf.Tensor) -> tf.Tensor:
    """Patches uint8 [B, R, C, P, P, 3] -> their pixels, shrunk to 8x8 a patch, as one latent [B, 1,
    1, R*C*192].
    """
    # [B*R*C, P, P, 3]
    flat = tf.cast(tf.reshape(patches, [-1, *patches.shape[3:]]), tf.float32) / 255.0
    small = tf.image.resize(flat, [_PIXEL_SIDE, _PIXEL_SIDE], antialias=True)
    size = patches.shape[1] * patches.shape[2] * _PIXEL_SIDE * _PIXEL_SIDE * 3
    return tf.reshape(small, [-1, 1, 1, size])
