"""PIRL: an image and its jigsaw have one representation. Misra & van der Maaten 2019
(arXiv:1912.01991).
"""

from __future__ import annotations

from typing import ClassVar

import tensorflow as tf

from cpc_tf.core.keras import keras
from cpc_tf.data.views import SeveralCrops
from cpc_tf.encoders.network import Network
from cpc_tf.objectives.base import SPREAD, Figure
from cpc_tf.objectives.others.banked import Banked
from cpc_tf.objectives.others.pirl_config import PIRLConfig

CELLS = 3  # on a side of the jigsaw


def nce_loss(
    positives: tf.Tensor, vectors: tf.Tensor, negatives: tf.Tensor, temperature: float
) -> tf.Tensor:
    """Returns the mean of -log h(p, v) - sum over n of log(1 - h(n, v)), float32 scalar (their eq.
    3, 4).

    h(m, v) = e(m, v) / (e(m, v) + sum over n of e(n, v)), with e = exp(cosine / temperature).

    Args:
      positives: [B, T], of length 1: p, the vectors that the bank has of the images.
      vectors: [B, T], of length 1: v.
      negatives: [B, M, T], of length 1: n, vectors that it has of other images.
    """
    near = tf.reduce_sum(positives * vectors, 1, keepdims=True) / temperature  # [B, 1]
    far = tf.einsum("bt,bmt->bm", vectors, negatives) / temperature  # [B, M]
    others = tf.reduce_logsumexp(far, 1, keepdims=True)
    right = tf.nn.softplus(others - near)  # -log h(p, v) = log(1 + exp(others - near))
    wrong = tf.nn.softplus(far - others)  # -log(1 - h(n, v)) = log(1 + e(n, v) / sum)
    return tf.reduce_mean(right[:, 0] + tf.reduce_sum(wrong, 1))


class PIRL(Banked):
    """A head for the image, one for each cell of a jigsaw and one for all nine; both vectors are
    compared with a bank.

    The jigsaw is a second crop, cut into 3 x 3 cells, which the encoder sees one by one and the
    heads in random order.
    """

    NAME = "pirl"
    SUMMARY = "pretext-invariant representations by jigsaws (Misra & van der Maaten, CVPR 2020)"
    VIEW = SeveralCrops(2)
    FIGURES: ClassVar = {
        "loss": Figure("loss of image and jigsaw against the bank", "{:.3f}"),
        "jigsaw": Figure("loss of the jigsaw", "{:.3f}"),
        **SPREAD,
    }
    metric_names = ("jigsaw",)

    def __init__(self, encoder: Network, settings: PIRLConfig, precision: str = "float32"):
        super().__init__(encoder, settings, precision, settings.pirl_dim, settings.pirl_momentum)
        self.cell, self.jigsaw = (
            keras.layers.Dense(settings.pirl_dim, dtype="float32", name=name)
            for name in ("cell", "jigsaw")
        )

    def compared(
        self,
        vectors: tf.Tensor,
        view: tf.Tensor,
        index: tf.Tensor,
        step: tf.Tensor | int,
        training: bool,
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        side = view.shape[2] // CELLS
        batch = view.shape[0]
        images = self.bank.values.shape[0]
        rows = tf.stack(
            tf.split(view[:, 1, : CELLS * side, : CELLS * side], CELLS, 1), 1
        )  # [B, 3, S/3, S, 3]
        cells = tf.concat(tf.split(rows, CELLS, 3), 1)  # [B, 9, S/3, S/3, 3]
        of_cells = self.cell(self.encode(cells, training))  # [B, 9, T]

        def draw(
            image: tf.Tensor,
        ) -> tuple[tf.Tensor, tf.Tensor]:  # functions of the image and the step alone
            seed = tf.stack([tf.cast(step, tf.int64), image])
            # Of whole numbers: XLA draws other fractions.
            order = tf.argsort(tf.random.stateless_uniform([CELLS**2], seed, None, None, tf.int32))
            return order, tf.random.stateless_uniform(
                [self.settings.pirl_negatives], seed, 0, images, tf.int32
            )

        signature = (
            tf.TensorSpec([CELLS**2], tf.int32),
            tf.TensorSpec([self.settings.pirl_negatives], tf.int32),
        )
        order, noise = tf.map_fn(draw, index, fn_output_signature=signature)
        shuffled = tf.reshape(tf.gather(of_cells, order, batch_dims=1), [batch, -1])  # [B, 9*T]
        jigsaws = tf.math.l2_normalize(self.jigsaw(shuffled), axis=1)  # [B, T]
        positives = tf.gather(self.bank.values, index)
        negatives = tf.gather(self.bank.values, noise)
        of_image, of_jigsaw = (
            nce_loss(positives, each, negatives, self.settings.pirl_temperature)
            for each in (vectors, jigsaws)
        )
        loss = self.settings.pirl_jigsaw * of_jigsaw + (1.0 - self.settings.pirl_jigsaw) * of_image
        return loss, {"jigsaw": of_jigsaw}
