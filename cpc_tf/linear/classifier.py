"""The linear classifier of appendix B: the model, a training step, and the test."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from cpc_tf.encoders.layers import BatchNorm
from cpc_tf.encoders.load import GridEncoder
from cpc_tf.evaluation import label_kinds
from cpc_tf.evaluation.inference import on_replicas
from cpc_tf.evaluation.label_kinds import LabelKind
from cpc_tf.keras import keras
from cpc_tf.linear.config import LinearConfig
from cpc_tf.training.optimizer import adam
from cpc_tf.training.trainee import Rows, Trainee


class LinearClassifier(keras.Model):
    """Batch norm without scale, a 1x1 convolution to the logits, and their mean over the grid."""

    def __init__(self, num_classes: int):
        super().__init__(name="linear")
        self.norm = BatchNorm(scale=False, momentum=0.9, name="norm")
        self.logits = keras.layers.Conv2D(num_classes, [1, 1], name="logits")

    def call(self, latents: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Latents [B, R, C, D] -> logits [B, num_classes], float32."""
        return tf.reduce_mean(self.logits(self.norm(latents, training=training)), [1, 2])


class LinearTraining(Trainee):
    """Trains a `LinearClassifier` with Adam. The paper states only the rate; the rest is Keras' default.

    Args:
      config: settings of the run.
      encode: the frozen encoder, for batches that have no 'latents'.
      latent_shape: (R, C, D).
      kind: whether labels are single or multi-label.
    """

    def __init__(
        self,
        config: LinearConfig,
        encode: GridEncoder,
        latent_shape: tuple[int, int, int],
        num_classes: int,
        strategy: tf.distribute.Strategy,
        kind: LabelKind = label_kinds.SINGLE_LABEL,
    ):
        self.kind, self.metric_names = kind, kind.metric_names
        super().__init__(strategy, config.training.batch_size, config.numerics)
        self.encode = self.compiled(encode)
        keras.utils.set_random_seed(config.training.seed)
        with strategy.scope():
            self.classifier = LinearClassifier(num_classes)
            self.classifier.build([None, *latent_shape])
            optimizer = adam(config.probe.learning_rate)
        self.set_up(
            {"optimizer": (optimizer, self.classifier.trainable_variables)},
            of_whole_batch="batch norm's statistics",
            classifier=self.classifier,
        )

    def inputs(self, batch: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns latents and labels of a batch of 'latents' or 'patches', and 'label'."""
        return batch["latents"] if "latents" in batch else self.encode(batch["patches"]), batch["label"]

    def losses(self, rows: Rows, latents: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        logits = self.classifier(latents, training=True)  # [B, classes]
        metrics = self.kind.metrics(logits, labels)
        return metrics["loss"], metrics

    def test(self, batches: tf.data.Dataset) -> tuple[np.ndarray, np.ndarray]:
        """Returns logits [N, classes] and labels of finite batches of {'patches' or 'latents', 'label'}."""
        logits = on_replicas(lambda batch: self.classifier(self.inputs(batch)[0]), self.strategy, self.rows)
        tested = [(logits(batch).numpy(), batch["label"].numpy()) for batch in batches]
        return tuple(np.concatenate(parts) for parts in zip(*tested))
