"""Local aggregation: images of a cluster come together. Zhuang et al. 2019 (arXiv:1903.12355)."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np
import tensorflow as tf

from cpc_tf.data.views import SeveralCrops
from cpc_tf.encoders.network import Network
from cpc_tf.keras import keras
from cpc_tf.objectives import memory
from cpc_tf.objectives.base import SPREAD, Figure, Objective, Output
from cpc_tf.objectives.config import LocalAggregationConfig


def aggregation_loss(
    vectors: tf.Tensor, index: tf.Tensor, bank: tf.Tensor, clusters: tf.Tensor, background: int, temperature: float
) -> tf.Tensor:
    """Returns the mean of -log(P(close and background) / P(background)), float32 scalar (their eq. 3 to 5).

    Args:
      vectors: [B, T], of length 1.
      index: int [B], the images.
      bank: [N, T], of length 1.
      clusters: int [H, N], the cluster of each image in H clusterings.
      background: how many nearest vectors of the bank are background neighbours.
      temperature: divisor of cosines.
    """
    cosines, near = tf.math.top_k(tf.matmul(vectors, bank, transpose_b=True), min(background, bank.shape[0]))  # [B, K]
    own = tf.gather(clusters, index, axis=1)  # [H, B]
    is_close = tf.reduce_any(tf.gather(clusters, near, axis=1) == own[:, :, None], 0)  # [B, K]
    # The image itself is in its clusters: it is close also where it is not among the background neighbours.
    itself = tf.reduce_sum(vectors * tf.gather(bank, index), 1, keepdims=True)  # [B, 1]
    is_near = tf.reduce_any(near == tf.cast(index, tf.int32)[:, None], 1, keepdims=True)
    cosines = tf.concat([cosines, tf.where(is_near, -1e9, itself)], 1) / temperature
    is_close = tf.concat([is_close, tf.logical_not(is_near)], 1)
    close = tf.reduce_logsumexp(tf.where(is_close, cosines, -1e9), 1)
    return tf.reduce_mean(tf.reduce_logsumexp(cosines, 1) - close)


class LocalAggregation(Objective):
    """A linear head and a bank; k-means of the bank before each epoch."""

    NAME = "local_aggregation"
    SUMMARY = "local aggregation (Zhuang et al., ICCV 2019)"
    VIEW = SeveralCrops(1)
    FIGURES: ClassVar = {"loss": Figure("-log of the close among the background neighbours", "{:.3f}"), **SPREAD}
    metric_names = ()
    OF_WHOLE_BATCH = ""  # an image is compared with the bank
    INDEXED = PERIODIC = True

    def __init__(self, encoder: Network, settings: LocalAggregationConfig, precision: str = "float32"):
        super().__init__(encoder, settings, precision)
        self.head = keras.layers.Dense(settings.aggregation_dim, dtype="float32", name="head")

    def prepare(self, images: int, train_steps: int) -> None:
        self.bank = memory.Bank(images, self.settings.aggregation_dim)
        each = tf.repeat(tf.range(max(1, images))[None], self.settings.clusterings, 0)  # [H, N]
        self.clusters = memory.variable(each, "clusters") if images else each

    def call(
        self,
        view: tf.Tensor,
        training: bool = False,
        first: tf.Tensor | int = 0,
        index: tf.Tensor | None = None,
        step: tf.Tensor | int = 0,
    ) -> Output:
        """Computes the mean loss of B images; views are [B, 1, S, S, 3]."""
        latents = self.encode(view[:, 0], training)  # [B, D]
        vectors = tf.math.l2_normalize(self.head(latents), axis=1)  # [B, T]
        of = self.settings
        loss = aggregation_loss(
            vectors, index, self.bank.values, self.clusters, of.background, of.aggregation_temperature
        )
        kept = {"index": tf.cast(index, tf.float32), "vectors": tf.stop_gradient(vectors)}
        return Output(loss, {}, latents, kept)

    def after_step(self, kept: dict[str, tf.Tensor], step: tf.Tensor) -> None:
        self.bank.update(kept["index"], kept["vectors"], self.settings.aggregation_momentum)

    def between_epochs(self, epoch: int, encode_all: Callable[[], np.ndarray]) -> None:
        """Clusters the bank; before the first epoch, when it is random, each image is a cluster of its own."""
        if epoch:
            from sklearn.cluster import KMeans  # takes a second

            bank, count = self.bank.values.numpy(), self.settings.clusterings
            most = min(self.settings.clusters_of_each, len(bank))
            found = [KMeans(most, n_init=1, max_iter=20, random_state=epoch * count + i) for i in range(count)]
            self.clusters.assign(np.stack([each.fit_predict(bank) for each in found]).astype(np.int32))
