"""Instance discrimination: which other view is of the same image? Wu et al. 2018 (CVPR), Chen et
al. 2020 (ICML).
"""

from __future__ import annotations

import math
from typing import ClassVar

import tensorflow as tf

from cpc_tf.core.keras import keras
from cpc_tf.core.native import matmul
from cpc_tf.data.views import SeveralCrops
from cpc_tf.encoders.network import Network
from cpc_tf.objectives.base import (
    SPREAD,
    CandidatePool,
    Contrastive,
    Embeddings,
    Figure,
    Output,
    classify,
)
from cpc_tf.objectives.others.instance_config import InstanceConfig

VIEWS = 2


def other_view(
    projections: tf.Tensor, candidates: CandidatePool, temperature: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """Computes the NT-Xent loss: finding the other view of an image among all other views of its
    group.

        projections = tf.math.l2_normalize(tf.random.normal([256, 2, 128]), axis=2)
        candidates = CandidatePool(projections[None], 0)
        loss, accuracy = other_view(projections, candidates, temperature=0.1)

    Args:
      projections: [B, 2, T], float32 of length 1, static shape.
      candidates: the projections of the groups, [G, N, 2, T].
      temperature: divisor of the cosine similarities.

    Returns:
      The mean cross-entropy, log(2 * N - 1) by chance, and the accuracy; float32 scalars.
    """
    groups, images, views, dim = candidates.values.shape
    queries = tf.reshape(projections, [groups, -1, dim])  # [G, 2*B/G, T]
    # [G, .., 2*N]
    logits = (
        matmul(queries, tf.reshape(candidates.values, [groups, images * views, dim])) / temperature
    )
    index = candidates.first * views + tf.range(queries.shape[1])
    itself = tf.equal(index[:, None], tf.range(images * views))  # a view is no candidate for itself
    logits = tf.where(itself, -1e9, logits)
    labels = tf.repeat((index + 1 - 2 * (index % views))[None], groups, 0)  # [G, 2*B/G]
    return classify(tf.reshape(logits, [-1, images * views]), tf.reshape(labels, [-1]))


class Instance(Contrastive):
    """A projection head with one hidden layer; the candidates are the views of a group's images."""

    NAME = "instance"
    SUMMARY = "instance discrimination (Chen et al., ICML 2020; Wu et al., CVPR 2018)"
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
        self.hidden = keras.layers.Dense(
            encoder.feature_dim, "relu", dtype=self.dtype_policy, name="hidden"
        )
        self.head = keras.layers.Dense(settings.instance_dim, dtype="float32", name="head")

    def embed(self, view: tf.Tensor, training: bool = False) -> Embeddings:
        """Returns 'latents' [B, 2, D] of views [B, 2, S, S, 3] and their 'projections' [B, 2, T],
        of length 1.
        """
        latents = self.encode(view, training)
        projections = tf.math.l2_normalize(self.head(self.hidden(latents)), axis=2)
        return {"latents": latents, "projections": projections}

    def candidates(self) -> list[str]:
        return ["projections"]

    def compare(self, embeddings: Embeddings, pools: dict[str, CandidatePool]) -> Output:
        """Computes the mean loss of 2 * B views."""
        candidates = pools["projections"]
        loss, accuracy = other_view(
            embeddings["projections"], candidates, self.settings.instance_temperature
        )
        bound = math.log(max(1, candidates.values.shape[1] * VIEWS - 1)) - loss
        return Output(loss, {"accuracy": accuracy, "bound": bound}, None)
