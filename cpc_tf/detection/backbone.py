"""The exported encoder as a backbone: one endpoint of a TF-Hub module, fine-tuned."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tensorflow_hub as hub

from cpc_tf.keras import keras
from cpc_tf.settings import ConfigError


class HubBackbone(keras.layers.Layer):
    """Images [B, H, W, 3], float32 in [0, 1] -> one endpoint [B, h, w, C] of a module, float32.

    A variable of the module that the endpoint does not depend on has a gradient of 0.

    Args:
      handle: a TF-Hub module of images by directory or handle, or loaded; ours, or any that returns a feature map, or a
        dictionary of them when it is given `return_endpoints`.
      endpoint: its name; '' for what the module returns by itself.
      update_statistics: whether its batch norm, if it has one, normalizes with the batch in training and goes on
        averaging. The weights are trained either way.

    Raises:
      ConfigError: if there is no such module, and in the call if it has no such feature map.
    """

    def __init__(
        self, handle: Any, endpoint: str = "feature_map", update_statistics: bool = False, name: str = "backbone"
    ):
        super().__init__(name=name)
        self.endpoint, self.update_statistics = endpoint, update_statistics
        arguments = {"return_endpoints": True} if endpoint else {}
        try:
            self.encoder = hub.KerasLayer(handle, trainable=True, arguments=arguments)
        except (OSError, ValueError, RuntimeError, tf.errors.OpError) as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise ConfigError(f"--encoder={handle}: cannot be loaded as a TF-Hub module ({reason})") from error

    def call(self, images: tf.Tensor, training: bool = False) -> tf.Tensor:
        try:
            output = self.encoder(images, training=training and self.update_statistics)
        except (TypeError, ValueError) as error:
            if not self.endpoint:
                raise
            raise ConfigError(
                f"--backbone_endpoint={self.endpoint}: the module does not take return_endpoints; "
                "--backbone_endpoint= is what it returns by itself"
            ) from error
        maps = output if isinstance(output, dict) else {self.endpoint: output}
        maps = {name: x for name, x in maps.items() if x.shape.rank == 4}
        if self.endpoint not in maps:
            raise ConfigError(
                f"--backbone_endpoint={self.endpoint}: no feature map of the module; it has {', '.join(sorted(maps))}"
            )
        return maps[self.endpoint]
