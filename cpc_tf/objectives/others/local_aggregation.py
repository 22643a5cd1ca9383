"""Local aggregation: images of a cluster come together. Zhuang et al. 2019 (arXiv:1903.12355)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
import tensorflow as tf

from cpc_tf.data.views import SeveralCrops
from cpc_tf.encoders.network import Network
from cpc_tf.objectives.base import SPREAD, Figure
from cpc_tf.objectives.others import memory
from cpc_tf.objectives.others.banked import Banked
from cpc_tf.objectives.others.local_aggregation_config import LocalAggregationConfig


def aggregation_loss(
    vectors: tf.Tensor,
    index: tf.Tensor,
    bank: tf.Tensor,
    clusters: tf.Tensor,
    background: int,
    temperature: float,
) -> tf.Tensor:
    """Returns the mean of -log(P(close and background) / P(background)), float32 scalar (their eq.
    3 to 5).

    Args:
      vectors: [B, T], of length 1.
      index: int [B], the images.
      bank: [N, T], of length 1.
      clusters: int [H, N], the cluster of each image in H clusterings.
      background: how many nearest vectors of the bank are background neighbours.
      temperature: divisor of cosines.
    """
    cosines, near = tf.math.top_k(
        tf.matmul(vectors, bank, transpose_b=True), min(background, bank.shape[0])
    )  # [B, K]
    of_image = tf.gather(clusters, index, axis=1)  # [H, B]
    is_close = tf.reduce_any(tf.gather(clusters, near, axis=1) == of_image[:, :, None], 0)  # [B, K]
    # The image itself is in its clusters: it is close also where it is not among the background
    # neighbours.
    itself = tf.reduce_sum(vectors * tf.gather(bank, index), 1, keepdims=True)  # [B, 1]
    is_near = tf.reduce_any(near == tf.cast(index, tf.int32)[:, None], 1, keepdims=True)
    cosines = tf.concat([cosines, tf.where(is_near, -1e9, itself)], 1) / temperature
    is_close = tf.concat([is_close, tf.logical_not(is_near)], 1)
    close = tf.reduce_logsumexp(tf.where(is_close, cosines, -1e9), 1)
    return tf.reduce_mean(tf.reduce_logsumexp(cosines, 1) - close)


class LocalAggregation(Banked):
    """Close neighbours are found by k-means of the bank before each epoch.

    ours: an image is always close to itself, also where it is not among its background neighbours.
    """

    NAME = "local_aggregation"
    SUMMARY = "local aggregation (Zhuang et al., ICCV 2019)"
    VIEW = SeveralCrops(1)
    FIGURES: ClassVar = {
        "loss": Figure("-log of the close among the background neighbours", "{:.3f}"),
        **SPREAD,
    }
    metric_names = ()
    PERIODIC = True

    def __init__(
        self, encoder: Network, settings: LocalAggregationConfig, precision: str = "float32"
    ):
        super().__init__(
            encoder,
            settings,
            precision,
            settings.local_aggregation_dim,
            settings.local_aggregation_momentum,
        )

    def prepare(self, images: int, train_steps: int) -> None:
        super().prepare(images, train_steps)
        each = tf.repeat(
            tf.range(max(1, images))[None], self.settings.local_aggregation_clusterings, 0
        )  # [H, N]
        self.clusters = memory.variable(each, "clusters") if images else each

    def compared(
        self,
        vectors: tf.Tensor,
        view: tf.Tensor,
        index: tf.Tensor,
        step: tf.Tensor | int,
        training: bool,
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        background = self.settings.local_aggregation_background
        temperature = self.settings.local_aggregation_temperature
        return (
            aggregation_loss(
                vectors, index, self.bank.values, self.clusters, background, temperature
            ),
            {},
        )

    def between_epochs(
        self, epoch: int, encode_all: Callable[[], np.ndarray]
    ) -> Sequence[tf.Variable]:
        """Clusters the bank; before the first epoch, when it is random, each image is a cluster of
        its own.
        """
        if epoch:
            from sklearn.cluster import KMeans  # takes a second

            bank = self.bank.values.numpy()
            count = self.settings.local_aggregation_clusterings
            most = min(self.settings.local_aggregation_clusters, len(bank))
            kmeans = [
                KMeans(most, n_init=1, max_iter=20, random_state=epoch * count + i)
                for i in range(count)
            ]
            self.clusters.assign(
                np.stack([each.fit_predict(bank) for each in kmeans]).astype(np.int32)
            )
        return ()
