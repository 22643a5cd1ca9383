"""The base of objectives that compare an image with a bank, which has a vector for each image of
the dataset.
"""

from __future__ import annotations

import abc

import tensorflow as tf

from cpc_tf.core.keras import keras
from cpc_tf.encoders.network import Network
from cpc_tf.objectives.base import Objective, Output
from cpc_tf.objectives.config import ObjectiveSettings
from cpc_tf.objectives.others.memory import Bank


class Banked(Objective):
    """A linear head; after each step the vectors of the batch are mixed into the bank.

    Args:
      encoder, settings, precision: see `Objective`.
      dim: the size of the vectors.
      momentum: the weight of what the bank has of an image when the image is seen again.
    """

    OF_WHOLE_BATCH = ""  # an image is compared with the bank
    INDEXED = True

    def __init__(
        self,
        encoder: Network,
        settings: ObjectiveSettings,
        precision: str,
        dim: int,
        momentum: float,
    ):
        super().__init__(encoder, settings, precision)
        self.head = keras.layers.Dense(dim, dtype="float32", name="head")
        self.dim = dim
        self.momentum = momentum

    @abc.abstractmethod
    def compared(
        self,
        vectors: tf.Tensor,
        view: tf.Tensor,
        index: tf.Tensor,
        step: tf.Tensor | int,
        training: bool,
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """Returns the mean loss and metrics of B images: vectors [B, dim] of length 1, of the first
        crop of `view`.
        """

    def prepare(self, images: int, train_steps: int) -> None:
        self.bank = Bank(images, self.dim)

    def call(
        self,
        view: tf.Tensor,
        training: bool = False,
        first: tf.Tensor | int = 0,
        index: tf.Tensor | None = None,
        step: tf.Tensor | int = 0,
    ) -> Output:
        """Computes the mean loss of B images; views are [B, V, S, S, 3]."""
        latents = self.encode(view[:, 0], training)  # [B, D]
        vectors = tf.math.l2_normalize(self.head(latents), axis=1)  # [B, dim]
        loss, metrics = self.compared(vectors, view, index, step, training)
        return Output(
            loss,
            metrics,
            latents,
            {"index": tf.cast(index, tf.int32), "vectors": tf.stop_gradient(vectors)},
        )

    def after_step(self, kept: dict[str, tf.Tensor], step: tf.Tensor) -> None:
        self.bank.update(kept["index"], kept["vectors"], self.momentum)
