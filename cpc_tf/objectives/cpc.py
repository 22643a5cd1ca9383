"""The CPC objective: the `CPC` and `pixelCNN` listings of appendix A, in one to four directions."""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import tensorflow as tf

from cpc_tf.core.keras import keras
from cpc_tf.core.native import matmul
from cpc_tf.data.views import PatchGrid
from cpc_tf.encoders.layers import Conv
from cpc_tf.encoders.network import Network
from cpc_tf.objectives.base import (
    SPREAD,
    CandidatePool,
    Contrastive,
    Embeddings,
    Figure,
    Output,
    rotate,
)
from cpc_tf.objectives.config import CPCConfig

# Quarter turns (counter-clockwise) that make a direction "down", in the order in which --directions
# adds them.
QUARTER_TURNS = {"down": 0, "up": 2, "right": 3, "left": 1}


class DirectionLoss(NamedTuple):
    """Loss and metrics of one direction; float32 scalars."""

    loss: tf.Tensor  # InfoNCE, summed over offsets; `reduction` is over predictions
    accuracy: tf.Tensor  # fraction of predictions that rank their own target first
    # log(candidates) - mean InfoNCE: a lower bound on the mutual information of context and target,
    # in nats.
    bound: tf.Tensor


def info_nce(
    predictions: tf.Tensor, candidates: CandidatePool, offset: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Computes the cross-entropy of finding each prediction's own target among all targets of its
    group.

        grid = tf.reshape(tf.eye(18), [2, 3, 3, 18])  # two 3x3 grids of targets, all different
        targets = CandidatePool(grid[None], 0)
        losses, correct = info_nce(100 * grid[:, 1:], targets, offset=1)  # all found: losses of 0

    Args:
      predictions: [B, R - offset, C, T]; row r predicts the target of row r + offset.
      candidates: the targets, [G, N, R, C, T].
      offset: rows between context and target, the listing's i + 1.

    Returns:
      losses [G, B / G * (R - offset) * C] and correct (0 or 1) of the same shape, float32.
    """
    groups, images, rows, columns, dim = candidates.values.shape
    predictions = tf.reshape(predictions, [groups, -1, dim])  # [G, B/G*(R-offset)*C, T]
    targets = tf.reshape(candidates.values, [groups, images * rows * columns, dim])  # [G, N*R*C, T]
    logits = matmul(predictions, targets)  # [G, B/G*(R-offset)*C, N*R*C]
    per_image = (rows - offset) * columns
    i = tf.range(predictions.shape[1])
    # The listing's b * col_dim * rows + (i + 1) * rows + col.
    labels = (candidates.first + i // per_image) * rows * columns + offset * columns + i % per_image
    labels = tf.repeat(labels[None], groups, 0)  # [G, B/G*(R-offset)*C]
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    correct = tf.equal(tf.argmax(logits, 2, output_type=tf.int32), labels)
    return losses, tf.cast(correct, tf.float32)


class ContextBlock(keras.layers.Layer):
    """A residual block: a position sees three columns of its own row and of the row above."""

    def __init__(self, width: int, output_width: int, dtype: str, name: str):
        super().__init__(dtype=dtype, name=name)
        self.conv1 = Conv(width, [1, 1], dtype=dtype, name="conv1")
        self.conv2 = Conv(width, [1, 3], padding="same", dtype=dtype, name="conv2")
        self.conv3 = Conv(width, [2, 1], padding="valid", dtype=dtype, name="conv3")
        self.conv4 = Conv(output_width, [1, 1], dtype=dtype, name="conv4")

    def call(self, latents: tf.Tensor) -> tf.Tensor:
        c = tf.nn.relu(self.conv1(latents))
        c = self.conv2(c)
        c = tf.pad(c, [[0, 0], [1, 0], [0, 0], [0, 0]])
        c = tf.nn.relu(self.conv3(c))
        return latents + self.conv4(c)


class PixelCNN(keras.Model):
    """The context network g_phi, the `pixelCNN` listing: [B, R, C, D] -> [B, R, C, D]; row r sees
    rows <= r only.
    """

    def __init__(
        self, blocks: int, width: int, output_width: int, dtype: str, name: str = "context"
    ):
        super().__init__(name=name, dtype=dtype)
        self.blocks = [
            ContextBlock(width, output_width, dtype, f"block{i + 1}") for i in range(blocks)
        ]

    def call(self, latents: tf.Tensor) -> tf.Tensor:
        for block in self.blocks:
            latents = block(latents)
        return tf.nn.relu(latents)


class Direction(keras.layers.Layer):
    """Predicts the rows below on a grid that is rotated so that its direction is down."""

    def __init__(self, config: CPCConfig, latent_dim: int, dtype: str, name: str):
        super().__init__(name=name, dtype=dtype)
        self.config = config
        self.context = PixelCNN(config.context_blocks, config.context_dim, latent_dim, dtype)
        self.target = Conv(config.target_dim, [1, 1], dtype=dtype, name="target")
        self.offsets = range(config.steps_to_ignore + 1, config.steps_to_predict + 1)
        self.heads = [
            Conv(config.target_dim, [1, 1], dtype=dtype, name=f"predict{k}") for k in self.offsets
        ]

    def call(self, latents: tf.Tensor) -> Embeddings:
        """Returns 'targets' [B, R, C, T] and for each offset k the 'predictions{k}' of them, [B, R
        - k, C, T].
        """
        rows = latents.shape[1]
        # The last rows predict nothing, and no other row's context sees them.
        # faster than a slice
        predicting, _ = tf.split(latents, [rows - self.offsets[0], self.offsets[0]], axis=1)
        context = self.context(predicting)
        embeddings = {"targets": tf.cast(self.target(latents), tf.float32)}
        for offset, head in zip(self.offsets, self.heads):
            predictions = tf.cast(head(context)[:, : rows - offset], tf.float32)
            embeddings[f"predictions{offset}"] = predictions * self.config.emb_scale
        return embeddings

    def compare(self, embeddings: Embeddings, targets: CandidatePool) -> DirectionLoss:
        """Computes the loss of these embeddings, given the targets of their groups."""
        loss = 0.0
        means = []
        accuracies = []
        candidates = targets.values.shape[1:4].num_elements()  # N*R*C
        for offset in self.offsets:
            predictions = embeddings[f"predictions{offset}"]
            losses, correct = info_nce(predictions, targets, offset)
            means.append(tf.reduce_mean(losses))
            accuracies.append(tf.reduce_mean(correct))
            of_group = targets.values.shape[1] * predictions.shape[1] * predictions.shape[2]
            loss += means[-1] * (1 if self.config.reduction == "mean" else of_group)
        bound = math.log(candidates) - tf.add_n(means) / len(means)
        return DirectionLoss(loss, tf.add_n(accuracies) / len(accuracies), bound)


class CPC(Contrastive):
    """A context network with its targets and predictions for each direction, on the latents of a
    patch grid.
    """

    NAME = "cpc"
    SUMMARY = "Contrastive Predictive Coding (van den Oord et al., 2018; Hénaff et al., ICML 2020)"
    VIEW = PatchGrid()
    FIGURES: ClassVar = {
        "loss": Figure("InfoNCE loss, summed over directions and offsets (nats)", "{:.3f}"),
        "accuracy": Figure("contrastive accuracy", "{:.3f}"),
        "bound": Figure("InfoNCE bound on mutual information (nats)", "{:.3f}"),
        **SPREAD,
    }

    def __init__(self, encoder: Network, settings: CPCConfig, precision: str = "float32"):
        super().__init__(encoder, settings, precision)
        dtype = self.dtype_policy.name
        self.heads = {
            name: Direction(settings, encoder.feature_dim, dtype, name)
            for name in list(QUARTER_TURNS)[: settings.directions]
        }

    @property
    def metric_names(self) -> list[str]:
        return [
            *(f"{kind}/{name}" for name in self.heads for kind in ("loss", "accuracy")),
            "accuracy",
            "bound",
        ]

    def embed(self, view: tf.Tensor, training: bool = False) -> Embeddings:
        """Encodes patches [B, R, C, P, P, 3]; returns 'latents' [B, R, C, D] and each direction's
        embeddings.
        """
        latents = self.encode(view, training)
        embeddings = {"latents": latents}
        for name, head in self.heads.items():
            of_direction = head(rotate(latents, QUARTER_TURNS[name]))
            embeddings.update({f"{name}/{kind}": values for kind, values in of_direction.items()})
        return embeddings

    def candidates(self) -> list[str]:
        return [f"{name}/targets" for name in self.heads]

    def compare(self, embeddings: Embeddings, pools: dict[str, CandidatePool]) -> Output:
        """Sums the losses of all directions."""
        predictions = {}
        metrics = {}
        for name, head in self.heads.items():
            mine = {
                key.split("/")[1]: values
                for key, values in embeddings.items()
                if key.startswith(f"{name}/")
            }
            predictions[name] = prediction = head.compare(mine, pools[f"{name}/targets"])
            metrics[f"loss/{name}"] = prediction.loss
            metrics[f"accuracy/{name}"] = prediction.accuracy
        for name in ("accuracy", "bound"):
            of_directions = [getattr(each, name) for each in predictions.values()]
            metrics[name] = tf.add_n(of_directions) / len(of_directions)
        return Output(tf.add_n([p.loss for p in predictions.values()]), metrics, None)
