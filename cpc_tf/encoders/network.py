"""What every family of encoders is: a network that turns images of any size into feature maps and features."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

import tensorflow as tf

from cpc_tf.keras import keras
from cpc_tf.settings import ConfigError

if TYPE_CHECKING:
    from cpc_tf.encoders.config import EncoderConfig


class Network(keras.Model):
    """Base of the encoders.

    A family is one module of `cpc_tf.encoders.networks` with a subclass and a dictionary NETWORKS: the names that
    `--encoder` and `--backbone` may have -> that subclass. A subclass sets `feature_dim` and implements `endpoints`.

    Args:
      config: which network, and the options of its family.
      precision: of convolutions and activations, 'float32' or 'bfloat16'; parameters, statistics and endpoints are
        float32.
    """

    OPTIONS: tuple[str, ...] = ()  # fields of EncoderConfig that the family can do; others must keep their defaults
    FROM_LABELS: ClassVar[dict[str, Any]] = {}  # options of an encoder that is trained on labels from the start
    feature_dim: int

    def __init__(self, config: EncoderConfig, precision: str = "float32", name: str = "encoder"):
        super().__init__(name=name, dtype="mixed_bfloat16" if precision == "bfloat16" else precision)
        self.config = config
        # May be changed: an exported module is traced without, though its encoder.json says what the run did.
        self.recompute = config.recompute

    @classmethod
    def check(cls, config: EncoderConfig) -> None:
        """Raises ConfigError if the family cannot do what the settings say."""
        for field in dataclasses.fields(config):
            value = getattr(config, field.name)
            if field.name not in ("encoder", *cls.OPTIONS) and value != field.default:
                raise ConfigError(
                    f"--{field.name}={value}: not an option of --encoder={config.encoder}; leave it at {field.default}"
                )

    def normalized(self) -> list[tuple[keras.layers.Layer, keras.layers.Layer]]:
        """Convolutions without bias whose outputs go to a norm and nowhere else, each with that norm."""
        return []

    def endpoints(self, images: tf.Tensor, training: bool = False) -> dict[str, tf.Tensor]:
        """All outputs by name.

        Args:
          images: [N, H, W, 3], float, in [0, 1], any H and W.
          training: for what differs in training, such as batch norm.

        Returns:
          At least 'feature_map', [N, h, w, feature_dim], and its mean 'features', [N, feature_dim]. All float32.
        """
        raise NotImplementedError

    def call(self, images: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Images [N, H, W, 3] in [0, 1] -> features [N, feature_dim], float32."""
        return self.endpoints(images, training)["features"]
