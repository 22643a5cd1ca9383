"""AMDIM: what one view shows predicts places of the other, at many depths. Bachman et al. 2019
(arXiv:1906.00910).
"""

from __future__ import annotations

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
    area_means,
)
from cpc_tf.objectives.others.amdim_config import AMDIMConfig

# Depth -> the side of its grid, at most; that of the features is a place alone.
SIDES = {"features": 1, "coarse": 5, "fine": 7}
# their 1 -> 5, 1 -> 7, 5 -> 5
PREDICTIONS = [
    ("features", "coarse"),
    ("features", "fine"),
    ("coarse", "coarse"),
]


def scored(
    sources: tf.Tensor, candidates: CandidatePool, clip: float
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Computes the contrastive loss of predicting the places of an image's other view, each among
    all of other images.

    Args:
      sources: [B, 2, Q, T], float32: Q places of both views of each image.
      candidates: L places of both views of the groups, [G, N, 2, L, T].
      clip: c of c * tanh(score / c), with score = s . t / sqrt(T).

    Returns:
      The mean over both directions and all pairs of places of an image, the part of them that score
      higher than all places of other images, and the mean square of all scores before they are
      clipped; float32 scalars.
    """
    groups, images, views, places, dim = candidates.values.shape
    count = sources.shape[2]
    queries = tf.transpose(
        tf.reshape(sources, [groups, -1, views, count, dim]), [0, 2, 1, 3, 4]
    )  # [G, 2, B/G, Q, T]
    targets = tf.transpose(tf.reverse(candidates.values, [2]), [0, 2, 1, 3, 4])  # [G, 2, N, L, T]
    queries, targets = (tf.reshape(x, [groups * views, -1, dim]) for x in (queries, targets))
    raw = matmul(queries, targets) / dim**0.5  # [2*G, B/G*Q, N*L]
    scores = tf.reshape(clip * tf.tanh(raw / clip), [groups * views, -1, count, images, places])
    is_positive = (candidates.first + tf.range(scores.shape[1]))[:, None] == tf.range(
        images
    )  # [B/G, N]
    is_positive = is_positive[None, :, None, :, None]
    positive = tf.reduce_sum(tf.where(is_positive, scores, 0.0), 3)  # [2*G, B/G, Q, L]
    negatives = tf.where(is_positive, -1e9, scores)
    # -log softmax
    loss = tf.nn.softplus(tf.reduce_logsumexp(negatives, [3, 4])[..., None] - positive)
    is_correct = positive > tf.reduce_max(negatives, [3, 4])[..., None]
    return (
        tf.reduce_mean(loss),
        tf.reduce_mean(tf.cast(is_correct, tf.float32)),
        tf.reduce_mean(tf.square(raw)),
    )


class EmbeddingHead(keras.layers.Layer):
    """An MLP with one hidden layer, and a linear layer beside it, for each place: [..., C] -> [...,
    T], float32.
    """

    def __init__(self, dim: int, dtype: str, name: str):
        super().__init__(name=name, dtype=dtype)
        self.hidden = keras.layers.Dense(dim, "relu", dtype=dtype)
        self.deep, self.linear = (keras.layers.Dense(dim, dtype="float32") for _ in range(2))

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return self.deep(self.hidden(x)) + self.linear(x)


class AMDIM(Contrastive):
    """Three predictions, each from either view to the other. Mixtures of features, a part of the
    paper, are left out.

    For 5 -> 5 the authors draw one place of a view; here the loss is the mean over all, its
    expected value. 'coarse' is the feature map, 'fine' the endpoint with the next larger grid; if
    there is none, the feature map, too. ours: an `EmbeddingHead` at each depth, where the authors'
    features have none and their embeddings end with batch norm.
    """

    NAME = "amdim"
    SUMMARY = "prediction across views and depths (AMDIM, Bachman et al., NeurIPS 2019)"
    VIEW = SeveralCrops(2)
    FIGURES: ClassVar = {
        "loss": Figure("contrastive loss of three predictions with their penalty (nats)", "{:.3f}"),
        "accuracy": Figure("part of places that score higher than all other images", "{:.3f}"),
        **SPREAD,
    }
    metric_names = ("accuracy", "squared_scores")

    def __init__(self, encoder: Network, settings: AMDIMConfig, precision: str = "float32"):
        super().__init__(encoder, settings, precision)
        self.heads = {
            name: EmbeddingHead(settings.amdim_dim, self.dtype_policy, name) for name in SIDES
        }

    def embed(self, view: tf.Tensor, training: bool = False) -> Embeddings:
        """Returns 'latents' [B, 2, D] of views [B, 2, S, S, 3], and for each depth its L places,
        [B, 2, L, T].
        """
        endpoints = self.endpoints(view, training)
        # [B, 2, D], [B, 2, h, w, D]
        latents = endpoints["features"]
        last = endpoints["feature_map"]
        larger = [x for x in endpoints.values() if x.shape.rank == 5 and x.shape[2] > last.shape[2]]
        fine = min(larger, key=lambda x: x.shape[2], default=last)
        maps = {"features": latents[:, :, None, None], "coarse": last, "fine": fine}
        embeddings = {"latents": latents}
        for name, head in self.heads.items():
            places = area_means(
                maps[name], *(min(side, SIDES[name]) for side in maps[name].shape[2:4])
            )
            places = tf.reshape(places, [*places.shape[:2], -1, places.shape[-1]])  # [B, 2, L, C]
            embeddings[name] = head(places)
        return embeddings

    def candidates(self) -> list[str]:
        return ["coarse", "fine"]

    def compare(self, embeddings: Embeddings, pools: dict[str, CandidatePool]) -> Output:
        """Computes the sum over predictions."""
        clip = self.settings.amdim_clip
        terms = [scored(embeddings[source], pools[target], clip) for source, target in PREDICTIONS]
        loss, accuracy, squares = map(tf.add_n, zip(*terms))
        metrics = {"accuracy": accuracy / len(terms), "squared_scores": squares / len(terms)}
        return Output(loss + self.settings.amdim_penalty * squares, metrics, None)
