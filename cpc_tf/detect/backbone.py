"""The encoder as a backbone: one endpoint of a TF-Hub module, or of a new network in its place, fine-tuned."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tensorflow_hub as hub

from cpc_tf.detect.config import BackboneConfig
from cpc_tf.encoders.config import EncoderConfig, make_encoder
from cpc_tf.encoders.load import module_card
from cpc_tf.keras import keras
from cpc_tf.settings import ConfigError

# Side of the image that a new network is traced with.
_SIDE = 64


class Backbone(keras.layers.Layer):
    """Images [B, H, W, 3], float32 in [0, 1] -> one endpoint [B, h, w, C] of an encoder, float32.

    Args:
      endpoint: its name; '' for what the encoder returns by itself.
      update_statistics: whether its batch norm, if it has one, normalizes with the batch in training and goes on
        averaging. The weights are trained either way.

    Raises:
      ConfigError: in the call, if the encoder has no such feature map.
    """

    def __init__(self, endpoint: str, update_statistics: bool, name: str):
        super().__init__(name=name)
        self.endpoint, self.update_statistics = endpoint, update_statistics

    def encode(self, images: tf.Tensor, training: bool) -> tf.Tensor | dict[str, tf.Tensor]:
        """All endpoints by name, or the only one."""
        raise NotImplementedError

    def call(self, images: tf.Tensor, training: bool = False) -> tf.Tensor:
        output = self.encode(images, training and self.update_statistics)
        maps = output if isinstance(output, dict) else {self.endpoint: output}
        maps = {name: x for name, x in maps.items() if x.shape.rank == 4}
        if self.endpoint not in maps:
            raise ConfigError(
                f"--backbone_endpoint={self.endpoint}: no feature map of the encoder; it has {', '.join(sorted(maps))}"
            )
        return maps[self.endpoint]


class HubBackbone(Backbone):
    """A module as a backbone. A variable that the endpoint does not depend on has a gradient of 0.

    Args:
      handle: a TF-Hub module of images by directory or handle, or loaded; ours, or any that returns a feature map, or a
        dictionary of them when it is given `return_endpoints`.
      endpoint, update_statistics: see `Backbone`.

    Raises:
      ConfigError: if there is no such module, and in the call if it has no such feature map.
    """

    def __init__(
        self, handle: Any, endpoint: str = "feature_map", update_statistics: bool = False, name: str = "backbone"
    ):
        super().__init__(endpoint, update_statistics, name)
        arguments = {"return_endpoints": True} if endpoint else {}
        try:
            self.encoder = hub.KerasLayer(handle, trainable=True, arguments=arguments)
        except (OSError, ValueError, RuntimeError, tf.errors.OpError) as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise ConfigError(f"--encoder={handle}: cannot be loaded as a TF-Hub module ({reason})") from error

    def encode(self, images: tf.Tensor, training: bool) -> tf.Tensor | dict[str, tf.Tensor]:
        try:
            return self.encoder(images, training=training)
        except (TypeError, ValueError) as error:
            if not self.endpoint:
                raise
            raise ConfigError(
                f"--backbone_endpoint={self.endpoint}: the module does not take return_endpoints; "
                "--backbone_endpoint= is what it returns by itself"
            ) from error


class NewBackbone(Backbone):
    """A network of ours with new weights as a backbone.

    Args:
      config: which one.
      endpoint, update_statistics: see `Backbone`.
      precision: of its convolutions.
    """

    def __init__(
        self, config: EncoderConfig, endpoint: str = "feature_map", update_statistics: bool = False,
        precision: str = "float32", name: str = "backbone",
    ):  # fmt: skip
        super().__init__(endpoint, update_statistics, name)
        self.encoder = make_encoder(config, precision)
        # In the scope of a strategy, variables must be made before anything runs on its replicas.
        tf.function(self.encoder).get_concrete_function(tf.TensorSpec([1, _SIDE, _SIDE, 3]))

    def encode(self, images: tf.Tensor, training: bool) -> dict[str, tf.Tensor]:
        return self.encoder.endpoints(images, training)


def make_backbone(config: BackboneConfig, precision: str = "float32") -> Backbone:
    """The backbone that the settings name.

    Args:
      config: 'encoder' and, for 'random', 'backbone'.
      precision: of a new network; a module computes as it was exported.

    Raises:
      ConfigError: if there is no such module.
    """
    name = config.encoder
    if not name:
        raise ConfigError("--encoder= is empty: name a TF-Hub module, e.g. --encoder=runs/photos/hub, or 'random'")
    if name == "random":
        encoder = EncoderConfig(encoder=config.backbone)
    elif name.startswith("random:"):
        encoder = _twin(name)
    else:
        return HubBackbone(name, config.backbone_endpoint, config.backbone_statistics)
    return NewBackbone(encoder, config.backbone_endpoint, config.backbone_statistics, precision)


def _twin(name: str) -> EncoderConfig:
    try:
        return EncoderConfig(**module_card(name[len("random:") :])["encoder"])
    except ConfigError as error:
        raise ConfigError(
            f"--encoder={name}: no encoder.json there, it is no module of ours; --encoder=random --backbone=NAME is a "
            "new network of any architecture"
        ) from error
