"""The linear protocol of appendix B on a frozen encoder: one step of it, and its test."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from cpc_tf.encoders.load import GridEncoder
from cpc_tf.evaluation.scores import score
from cpc_tf.keras import keras
from cpc_tf.linear.classifier import LinearClassifier


class LinearTraining(tf.Module):
    """A linear classifier with its Adam; implements `training.loop.Trainee`.

    Args:
      encode: the frozen encoder; not used for batches that bring 'latents'.
      latent_shape: (R, C, D).
      num_classes: how many.
      learning_rate: Adam's; the paper does not say more, so the rest is Adam's default.
      seed: of the initial weights.
      strategy: where it runs.
    """

    metric_names = ("loss", "accuracy")

    def __init__(
        self,
        encode: GridEncoder,
        latent_shape: tuple[int, int, int],
        num_classes: int,
        learning_rate: float,
        seed: int,
        strategy: tf.distribute.Strategy,
    ):
        super().__init__(name="linear_training")
        self.encode, self.strategy = encode, strategy
        keras.utils.set_random_seed(seed)
        with strategy.scope():
            self.classifier = LinearClassifier(num_classes)
            self.classifier.build([None, *latent_shape])
            self.optimizer = keras.optimizers.Adam(learning_rate, jit_compile=False)
            self.optimizer.build(self.classifier.trainable_variables)
        self.checkpoint = tf.train.Checkpoint(classifier=self.classifier, optimizer=self.optimizer)

    def train_step(self, batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """One update, in replica context; 'latents' or 'patches', and 'label' int64 [B]. Float32 scalars."""
        latents = batch["latents"] if "latents" in batch else self.encode(batch["patches"])
        with tf.GradientTape() as tape:
            logits = self.classifier(latents, training=True)  # [B, classes]
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["label"], logits)
            loss = tf.reduce_mean(losses)
        variables = self.classifier.trainable_variables
        gradients = tf.distribute.get_replica_context().all_reduce("MEAN", tape.gradient(loss, variables))
        self.optimizer.apply_gradients(zip(gradients, variables), skip_gradients_aggregation=True)
        correct = tf.equal(tf.argmax(logits, 1), batch["label"])
        return {"loss": loss, "accuracy": tf.reduce_mean(tf.cast(correct, tf.float32))}

    def test(self, batches: tf.data.Dataset) -> dict[str, float]:
        """Top-1, top-5 and mean cross-entropy on finite batches of {'patches' or 'latents', 'label'}."""
        logits, labels = [], []
        for batch in batches:
            latents = batch["latents"] if "latents" in batch else self.encode(batch["patches"])
            logits.append(self.classifier(latents).numpy())
            labels.append(batch["label"].numpy())
        return score(np.concatenate(logits), np.concatenate(labels))
