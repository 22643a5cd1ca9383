"""Instance discrimination with a memory bank: which image of the dataset is this? Wu et al. 2018 (arXiv:1805.01978)."""

from __future__ import annotations

from typing import ClassVar

import tensorflow as tf
from scipy.special import hyp0f1

from cpc_tf.data.views import SeveralCrops
from cpc_tf.encoders.network import Network
from cpc_tf.keras import keras
from cpc_tf.objectives import memory
from cpc_tf.objectives.base import SPREAD, Figure, Objective, Output, classify
from cpc_tf.objectives.config import InstanceBankConfig


class InstanceBank(Objective):
    """A linear head; the candidates are the vectors that the bank has of all images.

    Noise-contrastive estimation (their eq. 4 to 8) among `bank_negatives` vectors drawn for each image, or the full
    softmax. Z, which Wu et al. estimate from the first batch and keep, is here what that estimates: its mean over
    random vectors, the start of the bank.
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
        if self.settings.bank_negatives:
            loss = self._estimated(vectors, index, step)
        else:
            logits = tf.matmul(vectors, self.bank.values, transpose_b=True) / self.settings.bank_temperature
            loss, _ = classify(logits, tf.cast(index, tf.int32))
        kept = {"index": tf.cast(index, tf.float32), "vectors": tf.stop_gradient(vectors)}
        return Output(loss + self.settings.bank_proximal * distance, {"distance": distance}, latents, kept)

    def _estimated(self, vectors: tf.Tensor, index: tf.Tensor, step: tf.Tensor | int) -> tf.Tensor:
        """Returns the mean loss of noise-contrastive estimation of vectors [B, T], whose images are `index`, [B]."""
        count, temperature = self.settings.bank_negatives, self.settings.bank_temperature
        images = self.bank.values.shape[0]

        def draw(image: tf.Tensor) -> tf.Tensor:  # a function of the image and the step alone
            seed = tf.stack([tf.cast(step, tf.int64), image])
            return tf.random.stateless_uniform([count], seed, maxval=images, dtype=tf.int32)

        noise = tf.map_fn(draw, index, fn_output_signature=tf.TensorSpec([count], tf.int32))  # [B, M]
        candidates = tf.gather(
            self.bank.values, tf.concat([tf.cast(index, tf.int32)[:, None], noise], 1)
        )  # [B, 1+M, T]
        # Z / images: the mean of exp(v . f / temperature) over random f of length 1.
        mean = float(hyp0f1(vectors.shape[1] / 2, 0.25 / temperature**2))
        ratio = tf.exp(tf.einsum("bt,bmt->bm", vectors, candidates) / temperature) / mean  # P(i|v) times the images
        data = tf.math.log(ratio[:, 0] / (ratio[:, 0] + count))
        return -tf.reduce_mean(data + tf.reduce_sum(tf.math.log(count / (ratio[:, 1:] + count)), 1))

    def after_step(self, kept: dict[str, tf.Tensor], step: tf.Tensor) -> None:
        self.bank.update(kept["index"], kept["vectors"], self.settings.bank_momentum)
