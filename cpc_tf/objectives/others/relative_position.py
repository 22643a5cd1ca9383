"""Relative position: which of its eight neighbours is this patch? Doersch et al. 2015 (ICCV)."""

from __future__ import annotations

from typing import ClassVar

import tensorflow as tf

from cpc_tf.core.keras import keras
from cpc_tf.data.views import PatchGrid
from cpc_tf.encoders.network import Network
from cpc_tf.objectives.base import SPREAD, Figure, Objective, Output, classify, standardize
from cpc_tf.objectives.others.relative_position_config import RelativePositionConfig

# (rows down, columns right) of the eight neighbours, row by row.
NEIGHBOURS = [
    (row, column) for row in (-1, 0, 1) for column in (-1, 0, 1) if (row, column) != (0, 0)
]


def pairs(latents: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Pairs each patch inside the grid with each of its eight neighbours.

    Args:
      latents: [B, R, C, D], static shape, R and C at least 3.

    Returns:
      The pairs [8 * B * (R - 2) * (C - 2), 2 * D], patch and neighbour concatenated, and their
      labels: the index of the neighbour in NEIGHBOURS, int32.
    """
    _, rows, columns, dim = latents.shape
    centre = latents[:, 1:-1, 1:-1]  # [B, R-2, C-2, D]
    shifted = [latents[:, 1 + i : rows - 1 + i, 1 + j : columns - 1 + j] for i, j in NEIGHBOURS]
    both = tf.stack(
        [tf.concat([centre, neighbour], -1) for neighbour in shifted]
    )  # [8, B, R-2, C-2, 2*D]
    flat = tf.reshape(both, [-1, 2 * dim])
    return flat, tf.repeat(tf.range(len(NEIGHBOURS)), flat.shape[0] // len(NEIGHBOURS))


class RelativePosition(Objective):
    """A classifier with a hidden layer for each patch (Doersch's fc6) and one for both (fc7).

    The latents pass a batch norm "without the scale and shift" first. A gap between the patches
    (--patch_stride above --patch_size) and jitter keep lines that continue from giving the answer
    away, dropped colours (--augment=colour_drop) keep chromatic aberration from doing so.
    """

    NAME = "relative_position"
    SUMMARY = "prediction of the relative position of patches (Doersch et al., ICCV 2015)"
    VIEW = PatchGrid()
    FIGURES: ClassVar = {
        "loss": Figure("cross-entropy of the eight positions (nats)", "{:.3f}"),
        "accuracy": Figure("accuracy among the eight positions", "{:.3f}"),
        **SPREAD,
    }
    metric_names = ("accuracy",)
    OF_WHOLE_BATCH = "mean and variance of the latents"
    EXCHANGES = True

    def __init__(
        self, encoder: Network, settings: RelativePositionConfig, precision: str = "float32"
    ):
        super().__init__(encoder, settings, precision)
        self.patch = keras.layers.Dense(
            encoder.feature_dim, "relu", dtype=self.dtype_policy, name="patch"
        )
        self.hidden = keras.layers.Dense(
            encoder.feature_dim, "relu", dtype=self.dtype_policy, name="hidden"
        )
        self.head = keras.layers.Dense(len(NEIGHBOURS), dtype="float32", name="head")

    def call(self, view: tf.Tensor, training: bool = False, first: tf.Tensor | int = 0) -> Output:
        """Computes the mean loss of 8 pairs for each patch inside the grid; patches are [B, R, C,
        P, P, 3].
        """
        latents = self.compiled(lambda view: self.encode(view, training))(view)  # [B, R, C, D]
        loss, accuracy = self.compiled(self._classify)(standardize(latents))
        return Output(loss, {"accuracy": accuracy}, latents)

    def _classify(self, latents: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        both, labels = pairs(self.patch(latents))  # [N, 2*D]
        return classify(self.head(self.hidden(both)), labels)
