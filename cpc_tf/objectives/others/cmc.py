"""CMC: which colours belong to this lightness, and which lightness to these colours? Tian et al.
2019.

Contrastive multiview coding (arXiv:1906.05849) of the views L and ab of an image.
"""

from __future__ import annotations

from typing import ClassVar

import tensorflow as tf

from cpc_tf.core.keras import keras
from cpc_tf.data.views import SeveralCrops
from cpc_tf.encoders.network import Network
from cpc_tf.objectives.base import SPREAD, Figure, Objective, Output
from cpc_tf.objectives.others import memory
from cpc_tf.objectives.others.cmc_config import CMCConfig

VIEWS = ("lightness", "colours")  # in the order of the features of an encoder of Lab


class CMC(Objective):
    """A linear head and a bank for each view; the positive of a view's vector is that of its image
    in the other's bank.

    The encoder has a network for each view (`encoders.networks.lab`). Both are exported as one,
    which takes RGB and gives the features of both, so twice as many as one network. Tian et al.
    test the same.
    """

    NAME = "cmc"
    SUMMARY = "contrastive multiview coding of lightness and colours (Tian et al., ECCV 2020)"
    VIEW = SeveralCrops(1)
    FIGURES: ClassVar = {
        "loss": Figure("loss of both views among those of the other's bank", "{:.3f}"),
        "of_lightness": Figure("loss of the lightness among the colours of the bank", "{:.3f}"),
        **SPREAD,
    }
    metric_names = ("of_lightness",)
    OF_WHOLE_BATCH = ""  # an image is compared with the banks
    INDEXED = True

    def __init__(self, encoder: Network, settings: CMCConfig, precision: str = "float32"):
        super().__init__(encoder, settings, precision)
        self.heads = [
            keras.layers.Dense(settings.cmc_dim, dtype="float32", name=f"head_{view}")
            for view in VIEWS
        ]

    def prepare(self, images: int, train_steps: int) -> None:
        self.banks = [
            memory.Bank(images, self.settings.cmc_dim, seed) for seed in range(len(VIEWS))
        ]

    def call(
        self,
        view: tf.Tensor,
        training: bool = False,
        first: tf.Tensor | int = 0,
        index: tf.Tensor | None = None,
        step: tf.Tensor | int = 0,
    ) -> Output:
        """Computes the sum of the mean losses of both views of B images, [B, 1, S, S, 3] in RGB."""
        latents = self.encode(view[:, 0], training)  # [B, 2*D]
        parts = tf.split(latents, len(VIEWS), 1)
        vectors = [
            tf.math.l2_normalize(head(part), axis=1) for head, part in zip(self.heads, parts)
        ]  # [B, T] each
        count = self.settings.cmc_negatives
        temperature = self.settings.cmc_temperature
        losses = [
            other.nce_loss(anchors, index, step, count, temperature)
            for anchors, other in zip(vectors, reversed(self.banks))
        ]
        kept = {name: tf.stop_gradient(each) for name, each in zip(VIEWS, vectors)}
        kept["index"] = tf.cast(index, tf.int32)
        return Output(tf.add_n(losses), {"of_lightness": losses[0]}, latents, kept)

    def after_step(self, kept: dict[str, tf.Tensor], step: tf.Tensor) -> None:
        for name, bank in zip(VIEWS, self.banks):
            bank.update(kept["index"], kept[name], self.settings.cmc_momentum)
