"""Rotation: by how many quarter turns was the image turned? Gidaris et al. 2018 (ICLR)."""

from __future__ import annotations

from typing import ClassVar

import tensorflow as tf

from cpc_tf.core.keras import keras
from cpc_tf.data.views import WholeImage
from cpc_tf.encoders.network import Network
from cpc_tf.objectives.base import SPREAD, Figure, Objective, Output, classify, rotate
from cpc_tf.objectives.others.rotation_config import RotationConfig

TURNS = 4


class Rotation(Objective):
    """A linear classifier of the four quarter turns; each image is in the batch with all of
    them.
    """

    NAME = "rotation"
    SUMMARY = "prediction of image rotations (Gidaris et al., ICLR 2018)"
    VIEW = WholeImage()
    FIGURES: ClassVar = {
        "loss": Figure("cross-entropy of the four quarter turns (nats)", "{:.3f}"),
        "accuracy": Figure("accuracy among the four quarter turns", "{:.3f}"),
        **SPREAD,
    }
    metric_names = ("accuracy",)
    OF_WHOLE_BATCH = ""

    def __init__(self, encoder: Network, settings: RotationConfig, precision: str = "float32"):
        super().__init__(encoder, settings, precision)
        self.head = keras.layers.Dense(TURNS, dtype="float32", name="head")

    def call(self, view: tf.Tensor, training: bool = False, first: tf.Tensor | int = 0) -> Output:
        """Computes the mean loss of 4 * B rotated images; images are [B, S, S, 3]."""
        batch = view.shape[0]
        turned = tf.concat([rotate(view, turns) for turns in range(TURNS)], 0)  # [4*B, S, S, 3]
        features = self.encode(turned, training)  # [4*B, D]
        loss, accuracy = classify(self.head(features), tf.repeat(tf.range(TURNS), batch))
        return Output(loss, {"accuracy": accuracy}, features[:batch])
