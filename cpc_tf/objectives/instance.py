"""Instance discrimination: which other view is of the same image? Wu et al. 2018 (CVPR), Chen et al. 2020 (ICML)."""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar

import tensorflow as tf

from cpc_tf.data.views.views import SeveralCrops
from cpc_tf.encoders.network import Network
from cpc_tf.keras import keras
from cpc_tf.objectives.base import SPREAD, Figure, Objective, Output, classify
from cpc_tf.settings import Settings, rate, width

VIEWS = 2


@dataclasses.dataclass(frozen=True)
class InstanceConfig(Settings):
    """The contrastive loss of Chen et al. 2020."""

    temperature: float = rate(
        0.1, "Divisor of cosine similarities with --objective=instance", source="Chen et al. 2020"
    )
    projection_dim: int = width(128, "Dimension of what --objective=instance compares", source="Chen et al. 2020")


def other_view(projections: tf.Tensor, temperature: float) -> tuple[tf.Tensor, tf.Tensor]:
    """Computes the NT-Xent loss: finding the other view of an image among all other views of the batch.

        projections = tf.random.normal([256, 2, 128])
        loss, accuracy = other_view(projections, temperature=0.1)

    Args:
      projections: [B, 2, T], float32, static shape; normalized here.
      temperature: divisor of the cosine similarities.

    Returns:
      The mean cross-entropy, log(2 * B - 1) by chance, and the accuracy; float32 scalars.
    """
    count = projections.shape[0] * VIEWS
    directions = tf.math.l2_normalize(tf.reshape(projections, [count, -1]), axis=1)  # [2*B, T]
    logits = tf.matmul(directions, directions, transpose_b=True) / temperature  # [2*B, 2*B]
    logits = tf.linalg.set_diag(logits, tf.fill([count], -1e9))  # a view is no candidate for itself
    index = tf.range(count)
    return classify(logits, index + 1 - 2 * (index % VIEWS))


class Instance(Objective):
    """A projection head with one hidden layer; the candidates are the views of a replica's images."""

    NAME = "instance"
    TITLE = "Instance discrimination"
    SUMMARY = "instance discrimination (Chen et al., ICML 2020; Wu et al., CVPR 2018)"
    SETTINGS = InstanceConfig
    VIEW = SeveralCrops(VIEWS)
    FIGURES: ClassVar = {
        "loss": Figure("InfoNCE loss among the views of a batch (nats)", "{:.3f}"),
        "accuracy": Figure("contrastive accuracy", "{:.3f}"),
        "bound": Figure("InfoNCE bound on mutual information (nats)", "{:.3f}"),
        **SPREAD,
    }
    metric_names = ("accuracy", "bound")

    def __init__(self, encoder: Network, settings: InstanceConfig, precision: str = "float32"):
        super().__init__(encoder, settings, precision)
        self.hidden = keras.layers.Dense(encoder.feature_dim, "relu", dtype=self.dtype_policy, name="hidden")
        self.head = keras.layers.Dense(settings.projection_dim, dtype="float32", name="head")

    def call(self, view: tf.Tensor, training: bool = False) -> Output:
        """Computes the mean loss of 2 * B views, [B, 2, S, S, 3]."""
        latents = self.encode(view, training)  # [B, 2, D]
        loss, accuracy = other_view(self.head(self.hidden(latents)), self.settings.temperature)
        bound = math.log(max(1, view.shape[0] * VIEWS - 1)) - loss
        return Output(loss, {"accuracy": accuracy, "bound": bound}, latents)
