"""MoCo: which key is of the same image, among those of many earlier batches? He et al. 2019
(arXiv:1911.05722).
"""

from __future__ import annotations

from typing import ClassVar

import tensorflow as tf

from cpc_tf.core.keras import keras
from cpc_tf.core.settings import ConfigError
from cpc_tf.data.views import SeveralCrops
from cpc_tf.encoders.network import Network
from cpc_tf.objectives.base import SPREAD, Figure, Objective, Output, classify
from cpc_tf.objectives.others import memory
from cpc_tf.objectives.others.moco_config import MoCoConfig


class MoCo(Objective):
    """A query of one crop, and keys of other crops by a copy of the encoder that follows it slowly.

    The first version: a linear head, no batch norm of ours in it. He et al. shuffle the images
    among devices before they compute keys, since batch norm's statistics would tell which key is of
    the same batch. Layer norm and --norm=none see one image at a time: there is nothing to shuffle,
    and --norm=batch is refused.

    The encoder of the queries is exported; the copy is not.
    """

    NAME = "moco"
    SUMMARY = "momentum contrast (He et al., CVPR 2020)"
    VIEW = SeveralCrops(2)
    FIGURES: ClassVar = {
        "loss": Figure("InfoNCE loss among the queue (nats)", "{:.3f}"),
        "accuracy": Figure("contrastive accuracy", "{:.3f}"),
        **SPREAD,
    }
    metric_names = ("accuracy",)
    OF_WHOLE_BATCH = ""  # an image is compared with the queue

    def __init__(self, encoder: Network, settings: MoCoConfig, precision: str = "float32"):
        super().__init__(encoder, settings, precision)
        if encoder.config.norm == "batch":
            raise ConfigError(
                "norm",
                "batch",
                "its statistics would tell --objective=moco which key to find; use --norm=layer",
            )
        self.head = keras.layers.Dense(settings.moco_dim, dtype="float32", name="head")
        self.key_encoder = memory.copy_of(encoder, precision)
        self.key_head = keras.layers.Dense(
            settings.moco_dim, dtype="float32", name="key_head", trainable=False
        )
        self.queue = memory.Queue(settings.moco_queue_length, settings.moco_dim)

    def begin(self) -> None:
        memory.follow([self.key_encoder, self.key_head], [self.encoder, self.head], 0.0)

    def call(self, view: tf.Tensor, training: bool = False, first: tf.Tensor | int = 0) -> Output:
        """Computes the mean loss of B queries; views are [B, 2, S, S, 3]."""
        latents = self.encode(view[:, 0], training)  # [B, D]
        queries = tf.math.l2_normalize(self.head(latents), axis=1)  # [B, T]
        keys = self.key_head(self.encode(view[:, 1], training, self.key_encoder))
        keys = tf.stop_gradient(tf.math.l2_normalize(keys, axis=1))
        positive = tf.reduce_sum(queries * keys, 1, keepdims=True)  # [B, 1]
        negative = tf.matmul(queries, self.queue.values, transpose_b=True)  # [B, K]
        logits = tf.concat([positive, negative], 1) / self.settings.moco_temperature
        loss, accuracy = classify(logits, tf.zeros(logits.shape[0], tf.int32))
        return Output(loss, {"accuracy": accuracy}, latents, {"keys": keys})

    def after_step(self, kept: dict[str, tf.Tensor], step: tf.Tensor) -> None:
        memory.follow(
            [self.key_encoder, self.key_head],
            [self.encoder, self.head],
            self.settings.moco_momentum,
        )
        self.queue.push(kept["keys"])
