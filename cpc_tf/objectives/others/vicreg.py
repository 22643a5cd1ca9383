"""VICReg: two views alike, features that vary and do not repeat each other. Bardes et al. 2022
(arXiv:2105.04906).
"""

from __future__ import annotations

from typing import ClassVar

import tensorflow as tf

from cpc_tf.data.views import SeveralCrops
from cpc_tf.encoders.network import Network
from cpc_tf.objectives.base import SPREAD, Figure, Objective, Output
from cpc_tf.objectives.others.heads import Head
from cpc_tf.objectives.others.vicreg_config import VICRegConfig


def variance_and_covariance(vectors: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns two terms of vectors [N, T], float32 scalars (their eq. 1 to 4).

    The mean hinge of the standard deviations at 1, and the sum of the squared covariances of
    different features, divided by T.
    """
    count = tf.shape(vectors)[0]
    dim = vectors.shape[1]
    centred = vectors - tf.reduce_mean(vectors, 0)
    divisor = tf.cast(count - 1, tf.float32)
    variance = tf.reduce_sum(tf.square(centred), 0) / divisor  # [T]
    hinge = tf.reduce_mean(tf.nn.relu(1.0 - tf.sqrt(variance + 1e-4)))
    covariance = tf.matmul(centred, centred, transpose_a=True) / divisor  # [T, T]
    others = tf.reduce_sum(tf.square(covariance)) - tf.reduce_sum(
        tf.square(tf.linalg.diag_part(covariance))
    )
    return hinge, others / dim


class VICReg(Objective):
    """An expander of three layers; the terms are of the vectors of all replicas.

    Means and weights are those of its authors' code (github.com/facebookresearch/vicreg): the
    distance is a mean over images and features, and the hinges of both views are halved, where
    equations 5 and 6 of the paper sum.
    """

    NAME = "vicreg"
    SUMMARY = "variance-invariance-covariance regularization (Bardes et al., ICLR 2022)"
    VIEW = SeveralCrops(2)
    FIGURES: ClassVar = {
        "loss": Figure("weighted sum of the three terms", "{:.3f}"),
        "invariance": Figure("squared distance of two views", "{:.3f}"),
        "variance": Figure("hinge of the standard deviations", "{:.3f}"),
        "covariance": Figure("squared covariances", "{:.3f}"),
        **SPREAD,
    }
    metric_names = ("invariance", "variance", "covariance")
    OF_WHOLE_BATCH = "variances and covariances"
    EXCHANGES = True

    def __init__(self, encoder: Network, settings: VICRegConfig, precision: str = "float32"):
        super().__init__(encoder, settings, precision)
        self.expander = Head([settings.vicreg_dim] * 3, self.dtype_policy, "expander")

    def call(self, view: tf.Tensor, training: bool = False, first: tf.Tensor | int = 0) -> Output:
        """Computes the loss of views [B, 2, S, S, 3]."""
        latents = self.compiled(lambda view: self.encode_views(view, training))(view)  # [B, 2, D]
        vectors = tf.stack([self.expander(latents[:, i]) for i in range(2)], 1)  # [B, 2, T]
        replica = tf.distribute.get_replica_context()
        if replica and replica.num_replicas_in_sync > 1:
            # Where a step is traced, what is gathered does not know its shape.
            vectors = tf.reshape(replica.all_gather(vectors, axis=0), [-1, *vectors.shape[1:]])
        return self.compiled(self._terms)(vectors)._replace(latents=latents)

    def _terms(self, vectors: tf.Tensor) -> Output:
        invariance = tf.reduce_mean(tf.square(vectors[:, 0] - vectors[:, 1]))
        hinges, covariances = zip(*(variance_and_covariance(vectors[:, i]) for i in range(2)))
        terms = {
            "invariance": invariance,
            "variance": tf.add_n(hinges) / 2.0,
            "covariance": tf.add_n(covariances),
        }
        weights = self.settings
        loss = (
            weights.vicreg_invariance * terms["invariance"]
            + weights.vicreg_variance * terms["variance"]
            + weights.vicreg_covariance * terms["covariance"]
        )
        return Output(loss, terms, None)
