"""The base class of every family of encoders: a network from images of any size to feature maps and features."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable

import tensorflow as tf

from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.encoders.networks import NETWORKS
from cpc_tf.encoders.norm import Identity
from cpc_tf.keras import keras, policy
from cpc_tf.settings import Settings


class Network(keras.Model):
    """Base of the encoders.

    A subclass sets `feature_dim` and implements `endpoints`; `cpc_tf.encoders.networks` has the table of them.

    Args:
      config: an `EncoderConfig`: which network, and the options of its family.
      precision: of convolutions and activations, 'float32', 'bfloat16' or 'float16'; parameters, statistics and
        endpoints are float32.
    """

    feature_dim: int

    def __init__(self, config: Settings, precision: str = "float32", name: str = "encoder"):
        super().__init__(name=name, dtype=policy(precision))
        self.config = config
        # Not of `config`, which is in encoder.json: fine-tuning has a flag of its own, and an export sets it to False.
        self.recompute = config.recompute

    def normalized(self) -> list[tuple[keras.layers.Layer, keras.layers.Layer]]:
        """Returns the convolutions without bias whose output goes only to a norm, each with that norm."""
        return []

    def endpoints(self, images: tf.Tensor, training: bool = False) -> dict[str, tf.Tensor]:
        """All outputs by name.

        Args:
          images: [N, H, W, 3], float, in [0, 1], any H and W.
          training: whether batch norm uses the batch.

        Returns:
          At least 'feature_map', [N, h, w, feature_dim], and its mean 'features', [N, feature_dim]. All float32.
        """
        raise NotImplementedError

    def after(self, endpoint: str) -> Callable[..., tf.Tensor] | None:
        """Returns what follows an endpoint: (its map [N, h, w, C], training) -> 'feature_map'; None if nothing does."""
        return None

    def call(self, images: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Images [N, H, W, 3] in [0, 1] -> features [N, feature_dim], float32."""
        return self.endpoints(images, training)["features"]


def make_encoder(config: EncoderConfig, precision: str = "float32") -> Network:
    """A new encoder; its variables are made at the first call."""
    return pkgutil.resolve_name(NETWORKS[config.encoder].network)(config, precision)


def restore_kernel_norms(network: Network) -> None:
    """Scales kernels that grew before a norm back to the length of He's initialization.

    A norm cancels the scale of its input (batch norm where it normalizes with the batch), so the gradient is
    perpendicular to the kernel before it, and each step of training makes that kernel longer. A step of SGD then turns
    it less, by the square of the growth, a step of Adam by the growth (van Laarhoven 2017, arXiv:1706.05350).

    Scales the kernels of `Network.normalized` and the averaged statistics of batch norm with them. The outputs stay the
    same but for the norms' epsilon. Kernels that weight decay made shorter stay: longer ones were no better.
    """
    for layer, norm in network.normalized():
        if isinstance(norm, Identity):
            continue
        kernel = layer.kernel
        drawn = (2.0 * layer.filters) ** 0.5  # variance 2 / fan_in of fan_in * filters values
        factor = drawn / tf.maximum(tf.norm(kernel), drawn)
        kernel.assign(kernel * factor)
        if isinstance(norm, keras.layers.BatchNormalization):
            norm.moving_mean.assign(norm.moving_mean * factor)
            norm.moving_variance.assign(norm.moving_variance * tf.square(factor))
