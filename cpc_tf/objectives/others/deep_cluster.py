"""DeepCluster: in which cluster of features was this image before the epoch? Caron et al. 2018
(arXiv:1807.05520).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
import tensorflow as tf

from cpc_tf.core.keras import keras
from cpc_tf.data.views import SeveralCrops
from cpc_tf.encoders.network import Network
from cpc_tf.objectives.base import SPREAD, Figure, Objective, Output
from cpc_tf.objectives.others import memory
from cpc_tf.objectives.others.deep_cluster_config import DeepClusterConfig


def clusters_of(features: np.ndarray, count: int, components: int, seed: int) -> np.ndarray:
    """Returns the cluster of each of N features, int64 [N], at most `count`, numbered from 0 on
    without gaps.

    k-means of whitened principal components of length 1, float [N, D] -> [N, components].
    scikit-learn moves the centre of an empty cluster to the feature that is farthest from its own.
    """
    from sklearn.cluster import KMeans  # takes a second
    from sklearn.decomposition import PCA

    pca = PCA(min(components, *features.shape), random_state=seed)
    reduced = pca.fit_transform(features)
    variance = pca.explained_variance_
    is_real = variance > 1e-6 * variance.sum()  # the others are rounding errors
    if not is_real.any():  # all features are alike
        return np.zeros(len(features), np.int64)
    reduced = reduced[:, is_real] / np.sqrt(variance[is_real])
    reduced /= np.maximum(np.linalg.norm(reduced, axis=1, keepdims=True), 1e-12)
    labels = KMeans(min(count, len(reduced)), n_init=1, max_iter=20, random_state=seed).fit_predict(
        reduced
    )
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)


class DeepCluster(Objective):
    """A linear classifier of clusters that are computed anew, as the classifier is, before each
    epoch.

    An image counts by 1 / the size of its cluster, as if clusters were drawn and then their images.
    The features are those of images without augmentation. Caron et al. show their network gradients
    of grey images (Sobel); here it sees colours, as all encoders do.
    """

    NAME = "deep_cluster"
    SUMMARY = "clusters of its own features (Caron et al., ECCV 2018)"
    VIEW = SeveralCrops(1)
    FIGURES: ClassVar = {
        "loss": Figure("cross-entropy of the clusters (nats)", "{:.3f}"),
        "accuracy": Figure("accuracy among the clusters", "{:.3f}"),
        **SPREAD,
    }
    metric_names = ("accuracy",)
    OF_WHOLE_BATCH = ""
    INDEXED = PERIODIC = True

    def __init__(self, encoder: Network, settings: DeepClusterConfig, precision: str = "float32"):
        super().__init__(encoder, settings, precision)
        self.head = keras.layers.Dense(settings.deep_cluster_clusters, dtype="float32", name="head")

    def prepare(self, images: int, train_steps: int) -> None:
        rows = max(1, images)
        self.cluster, self.weight = tf.zeros([rows], tf.int32), tf.ones([rows])  # of each image
        if images:
            self.cluster = memory.variable(self.cluster, "cluster")
            self.weight = memory.variable(self.weight, "weight")

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
        logits = self.head(tf.nn.relu(latents))
        labels = tf.gather(self.cluster, index)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        loss = tf.reduce_mean(losses * tf.gather(self.weight, index))
        is_right = tf.equal(tf.argmax(logits, 1, output_type=tf.int32), labels)
        return Output(loss, {"accuracy": tf.reduce_mean(tf.cast(is_right, tf.float32))}, latents)

    def between_epochs(
        self, epoch: int, encode_all: Callable[[], np.ndarray]
    ) -> Sequence[tf.Variable]:
        labels = clusters_of(
            encode_all(),
            self.settings.deep_cluster_clusters,
            self.settings.deep_cluster_dim,
            seed=epoch,
        )
        sizes = np.bincount(labels)
        self.cluster.assign(labels.astype(np.int32))
        self.weight.assign((len(labels) / len(sizes) / sizes[labels]).astype(np.float32))
        kernel, bias = self.head.trainable_variables
        kernel.assign(tf.random.stateless_normal(kernel.shape, [epoch, 0], stddev=0.01))
        bias.assign(tf.zeros_like(bias))
        return kernel, bias
