"""BYOL: what does a slower copy of the network make of another view? Grill et al. 2020
(arXiv:2006.07733).
"""

from __future__ import annotations

import math
from typing import ClassVar

import tensorflow as tf

from cpc_tf.data.views import SeveralCrops
from cpc_tf.encoders.network import Network
from cpc_tf.objectives.base import SPREAD, Figure, Objective, Output
from cpc_tf.objectives.others import memory
from cpc_tf.objectives.others.byol_config import BYOLConfig
from cpc_tf.objectives.others.heads import Head


def distance(predictions: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
    """Returns the mean squared distance of vectors [N, T] that are given length 1, float32 scalar
    (their eq. 2).
    """
    cosine = tf.math.l2_normalize(predictions, axis=1) * tf.math.l2_normalize(targets, axis=1)
    return tf.reduce_mean(2.0 - 2.0 * tf.reduce_sum(cosine, 1))


class BYOL(Objective):
    """Each view predicts the projection of the other one by the target network, a momentum copy; no
    negatives.

    The encoder is exported, the target network is not.
    """

    NAME = "byol"
    SUMMARY = "bootstrap your own latent (Grill et al., NeurIPS 2020)"
    VIEW = SeveralCrops(2)
    FIGURES: ClassVar = {
        "loss": Figure("squared distance of predictions and targets", "{:.3f}"),
        **SPREAD,
    }
    metric_names = ()
    OF_WHOLE_BATCH = "mean and variance in the heads"
    EXCHANGES = True
    FOLLOWS_LENGTH = "the momentum of the target network"

    def __init__(self, encoder: Network, settings: BYOLConfig, precision: str = "float32"):
        super().__init__(encoder, settings, precision)
        widths = (settings.byol_hidden, settings.byol_dim)
        self.projector, self.predictor, self.target_projector = (
            Head(widths, self.dtype_policy, name)
            for name in ("projector", "predictor", "target_projector")
        )
        self.target = memory.copy_of(encoder, precision)
        self.target_projector.trainable = False

    def prepare(self, images: int, train_steps: int) -> None:
        self.train_steps = train_steps

    def begin(self) -> None:
        self._follow(0.0)

    def call(self, view: tf.Tensor, training: bool = False, first: tf.Tensor | int = 0) -> Output:
        """Computes the sum over both directions, of views [B, 2, S, S, 3]."""
        latents = self.compiled(lambda view: self.encode_views(view, training))(view)  # [B, 2, D]
        targets = self.compiled(lambda view: self.encode_views(view, training, self.target))(view)
        losses = []
        for here, there in ((0, 1), (1, 0)):  # each view with the batch's statistics of its own
            prediction = self.predictor(self.projector(latents[:, here]))
            losses.append(
                distance(prediction, tf.stop_gradient(self.target_projector(targets[:, there])))
            )
        return Output(tf.add_n(losses), {}, latents)

    def after_step(self, kept: dict[str, tf.Tensor], step: tf.Tensor) -> None:
        done = tf.cast(step + 1, tf.float32) / self.train_steps
        self._follow(
            1.0 - (1.0 - self.settings.byol_momentum) * (tf.cos(math.pi * done) + 1.0) / 2.0
        )

    def _follow(self, momentum: tf.Tensor | float) -> None:
        memory.follow(
            [self.target, self.target_projector], [self.encoder, self.projector], momentum
        )
