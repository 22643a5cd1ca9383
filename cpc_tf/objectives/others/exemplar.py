"""Exemplar: another view of an image is nearer than any other image. Dosovitskiy et al. 2014
(NIPS).

In the triplet form of Doersch & Zisserman 2017 (ICCV), which needs no class for each image.
"""

from __future__ import annotations

from typing import ClassVar

import tensorflow as tf

from cpc_tf.core.keras import keras
from cpc_tf.data.views import SeveralCrops
from cpc_tf.encoders.network import Network
from cpc_tf.objectives.base import SPREAD, CandidatePool, Contrastive, Embeddings, Figure, Output
from cpc_tf.objectives.others.exemplar_config import ExemplarConfig


def triplet_loss(
    vectors: tf.Tensor, candidates: CandidatePool, margin: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """Computes max(0, D(a, p) - D(a, n) + margin), D being 1 - cosine, with each other image of the
    group as n.

    Args:
      vectors: [B, 2, T], float32 of length 1: a and p of each image.
      candidates: the vectors of the groups, [G, N, 2, T]; n is the second view.

    Returns:
      The mean over all a and n, and the part of n that are farther than p; float32 scalars.
    """
    groups, images, _, dim = candidates.values.shape
    pairs = tf.reshape(vectors, [groups, -1, 2, dim])  # [G, B/G, 2, T]
    near = tf.reduce_sum(pairs[:, :, 0] * pairs[:, :, 1], 2, keepdims=True)  # [G, B/G, 1], cosines
    far = tf.einsum("gbt,gnt->gbn", pairs[:, :, 0], candidates.values[:, :, 1])  # [G, B/G, N]
    itself = (candidates.first + tf.range(pairs.shape[1]))[:, None] == tf.range(images)
    is_other = tf.cast(tf.logical_not(itself), tf.float32)[None]  # [1, B/G, N]
    count = tf.maximum(1.0, tf.reduce_sum(is_other) * groups)
    loss = tf.reduce_sum(tf.nn.relu(far - near + margin) * is_other) / count
    return loss, tf.reduce_sum(tf.cast(far < near, tf.float32) * is_other) / count


class Exemplar(Contrastive):
    """A linear head; the other images of a group are the negatives."""

    NAME = "exemplar"
    SUMMARY = "exemplar by triplets (Dosovitskiy et al., NIPS 2014; Doersch & Zisserman, ICCV 2017)"
    VIEW = SeveralCrops(2)
    FIGURES: ClassVar = {
        "loss": Figure("triplet loss", "{:.3f}"),
        "accuracy": Figure("part of other images that are farther than the other view", "{:.3f}"),
        **SPREAD,
    }
    metric_names = ("accuracy",)

    def __init__(self, encoder: Network, settings: ExemplarConfig, precision: str = "float32"):
        super().__init__(encoder, settings, precision)
        self.head = keras.layers.Dense(settings.exemplar_dim, dtype="float32", name="head")

    def embed(self, view: tf.Tensor, training: bool = False) -> Embeddings:
        """Returns 'latents' [B, 2, D] of views [B, 2, S, S, 3] and their 'vectors' [B, 2, T], of
        length 1.
        """
        latents = self.encode(view, training)
        return {"latents": latents, "vectors": tf.math.l2_normalize(self.head(latents), axis=2)}

    def candidates(self) -> list[str]:
        return ["vectors"]

    def compare(self, embeddings: Embeddings, pools: dict[str, CandidatePool]) -> Output:
        """Computes the mean loss of B images."""
        loss, accuracy = triplet_loss(
            embeddings["vectors"], pools["vectors"], self.settings.exemplar_margin
        )
        return Output(loss, {"accuracy": accuracy}, None)
