"""Instance discrimination with a memory bank: which image of the dataset is this? Wu et al. 2018
(arXiv:1805.01978).
"""

from __future__ import annotations

from typing import ClassVar

import tensorflow as tf

from cpc_tf.data.views import SeveralCrops
from cpc_tf.encoders.network import Network
from cpc_tf.objectives.base import SPREAD, Figure, classify
from cpc_tf.objectives.others.banked import Banked
from cpc_tf.objectives.others.instance_bank_config import InstanceBankConfig


class InstanceBank(Banked):
    """The candidates are the vectors that the bank has of all images.

    Noise-contrastive estimation (their eq. 4 to 8) among `instance_bank_negatives` vectors drawn
    for each image, or the full softmax.
    """

    NAME = "instance_bank"
    SUMMARY = "instance discrimination with a memory bank (Wu et al., CVPR 2018)"
    VIEW = SeveralCrops(1)
    FIGURES: ClassVar = {
        "loss": Figure(
            "loss of the image among those of the bank, with the distance to its vector", "{:.3f}"
        ),
        "distance": Figure("squared distance to the image's vector in the bank", "{:.3f}"),
        **SPREAD,
    }
    metric_names = ("distance",)

    def __init__(self, encoder: Network, settings: InstanceBankConfig, precision: str = "float32"):
        super().__init__(
            encoder,
            settings,
            precision,
            settings.instance_bank_dim,
            settings.instance_bank_momentum,
        )

    def compared(
        self,
        vectors: tf.Tensor,
        view: tf.Tensor,
        index: tf.Tensor,
        step: tf.Tensor | int,
        training: bool,
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        distance = tf.reduce_mean(
            tf.reduce_sum(tf.square(vectors - tf.gather(self.bank.values, index)), 1)
        )
        count = self.settings.instance_bank_negatives
        temperature = self.settings.instance_bank_temperature
        if count:
            loss = self.bank.nce_loss(vectors, index, step, count, temperature)
        else:
            logits = tf.matmul(vectors, self.bank.values, transpose_b=True) / temperature
            loss, _ = classify(logits, tf.cast(index, tf.int32))
        return loss + self.settings.instance_bank_proximal * distance, {"distance": distance}
