"""Instance discrimination with a memory bank: which image of the dataset is this? Wu et al. 2018 (arXiv:1805.01978)."""

from __future__ import annotations

from typing import ClassVar

import tensorflow as tf

from cpc_tf.data.views import SeveralCrops
from cpc_tf.encoders.network import Network
from cpc_tf.keras import keras
from cpc_tf.objectives import memory
from cpc_tf.objectives.base import SPREAD, Figure, Objective, Output, classify
from cpc_tf.objectives.config import InstanceBankConfig


class InstanceBank(Objective):
    """A linear head; the candidates are the vectors that the bank has of all images.

    Noise-contrastive estimation (their eq. 4 to 8) among `bank_negatives` vectors drawn for each image, or the full
    softmax.
    """

    NAME = "instance_bank"
    SUMMARY = "instance discrimination with a memory bank (Wu et al., CVPR 2018)"
    VIEW = SeveralCrops(1)
    FIGURES: ClassVar = {
        "loss": Figure("loss of the image among those of the bank, with the distance to its vector", "{:.3f}"),
        "distance": Figure("squared distance to the image's vector in the bank", "{:.3f}"),
        **SPREAD,
    }
    metric_names = ("distance",)
    OF_WHOLE_BATCH = ""  # an image is compared with the bank
    INDEXED = True

    def __init__(self, encoder: Network, settings: InstanceBankConfig, precision: str = "float32"):
        super().__init__(encoder, settings, precision)
        self.head = keras.layers.Dense(settings.bank_dim, dtype="float32", name="head")

    def prepare(self, images: int, train_steps: int) -> None:
        self.bank = memory.Bank(images, self.settings.bank_dim)

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
        distance = tf.reduce_mean(tf.reduce_sum(tf.square(vectors - tf.gather(self.bank.values, index)), 1))
        count, temperature = self.settings.bank_negatives, self.settings.bank_temperature
        if count:
            loss = self.bank.told_from_noise(vectors, index, step, count, temperature)
        else:
            logits = tf.matmul(vectors, self.bank.values, transpose_b=True) / temperature
            loss, _ = classify(logits, tf.cast(index, tf.int32))
        kept = {"index": tf.cast(index, tf.float32), "vectors": tf.stop_gradient(vectors)}
        return Output(loss + self.settings.bank_proximal * distance, {"distance": distance}, latents, kept)

    def after_step(self, kept: dict[str, tf.Tensor], step: tf.Tensor) -> None:
        self.bank.update(kept["index"], kept["vectors"], self.settings.bank_momentum)
