"""An image classifier on feature maps in one of its phases of training (appendix C): one step of it, and its test."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np
import tensorflow as tf

from cpc_tf.efficient.classifier import ResNetClassifier
from cpc_tf.efficient.config import SgdConfig
from cpc_tf.encoders.maps import FeatureMaps
from cpc_tf.keras import keras
from cpc_tf.training.config import OptimizerConfig
from cpc_tf.training.optimizer import LearningRate
from cpc_tf.training.strategy import wants_xla

# 'pixels': everything by SGD. 'frozen': the classifier by SGD. 'fine-tuned': classifier by SGD, encoder by Adam.
SUPERVISED, FROZEN, FINE_TUNED = "supervised", "frozen", "fine-tuned"


class Classification(tf.Module):
    """Encoder and classifier in one phase; implements `training.loop.Trainee`.

    Args:
      encoder: images -> feature maps, built.
      classifier: feature maps -> logits, built.
      phase: 'supervised', 'frozen' or 'fine-tuned'.
      sgd: rates, momentum, decay.
      train_steps: length of the cosine of the rates. Fine-tuning may stop earlier on it, and is constant by default.
      seed: of the dropout.
      strategy: where it runs.
      xla: 'auto', 'on' or 'off'.
    """

    metric_names = ("loss", "accuracy")

    def __init__(
        self,
        encoder: FeatureMaps,
        classifier: ResNetClassifier,
        phase: str,
        sgd: SgdConfig,
        train_steps: int,
        seed: int,
        strategy: tf.distribute.Strategy,
        xla: str = "auto",
    ):
        super().__init__(name="classification")
        self.encoder, self.classifier, self.phase, self.strategy = encoder, classifier, phase, strategy
        self._decay, self._seed = sgd.weight_decay, seed
        by_sgd = list(classifier.trainable_variables)
        by_adam = []
        if phase == SUPERVISED:
            by_sgd = [*encoder.trainable_variables, *by_sgd]
        elif phase == FINE_TUNED:
            by_adam = list(encoder.trainable_variables)
        with strategy.scope():
            tuning = phase == FINE_TUNED
            shape = OptimizerConfig(
                learning_rate=sgd.finetune_rate if tuning else sgd.learning_rate,
                schedule=sgd.finetune_schedule if tuning else "cosine",
                warmup_steps=0 if tuning else sgd.warmup_steps,
            )
            optimizer = keras.optimizers.SGD(LearningRate(shape, train_steps), momentum=sgd.momentum, jit_compile=False)
            self._parts = [(optimizer, by_sgd)]
            if by_adam:
                slower = dataclasses.replace(shape, learning_rate=sgd.encoder_rate)
                adam = keras.optimizers.Adam(LearningRate(slower, train_steps), jit_compile=False)
                self._parts.append((adam, by_adam))
            for part, variables in self._parts:
                part.build(variables)
            self.step = tf.Variable(
                0, trainable=False, dtype=tf.int64, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA
            )
        # The frozen phase leaves the encoder alone: no need to write its gigabytes.
        saved = {} if phase == FROZEN else {"encoder": encoder}
        optimizers = {f"optimizer{i}": part for i, (part, _) in enumerate(self._parts)}
        self.checkpoint = tf.train.Checkpoint(classifier=classifier, step=self.step, **optimizers, **saved)
        self._variables = [variable for _, variables in self._parts for variable in variables]
        if wants_xla(xla, strategy):
            self._gradients = tf.function(self._gradients, autograph=False, jit_compile=True)

    def train_step(self, batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """One update, in replica context. Float32 scalars.

        Args:
          batch: 'image' uint8 [B, S, S, 3] or, when frozen, 'latents' float32 [B, H, W, D]; 'label' int64 [B].
        """
        images = batch["latents"] if "latents" in batch else batch["image"]
        context = tf.distribute.get_replica_context()
        noise = tf.stack([tf.cast(self._seed, tf.int64), self.step])
        noise = tf.random.experimental.stateless_fold_in(noise, context.replica_id_in_sync_group)
        gradients, metrics = self._gradients(images, batch["label"], noise)
        gradients = context.all_reduce(tf.distribute.ReduceOp.MEAN, gradients)
        for optimizer, variables in self._parts:
            taken, gradients = gradients[: len(variables)], gradients[len(variables) :]
            optimizer.apply_gradients(zip(taken, variables), skip_gradients_aggregation=True)
        self.step.assign_add(1)
        return metrics

    def _gradients(self, inputs, labels, noise):
        maps = self._maps(inputs) if self.phase == FROZEN else None
        with tf.GradientTape() as tape:
            if maps is None:
                maps = self._maps(inputs, training=True)
            logits = self.classifier(maps, training=True, noise=noise)  # [B, classes]
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
            kernels = [v for v in self._parts[0][1] if v.shape.rank > 1]
            decay = self._decay * tf.add_n([tf.nn.l2_loss(kernel) for kernel in kernels])
            total = loss + decay
        gradients = tape.gradient(total, self._variables, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        correct = tf.equal(tf.argmax(logits, 1), labels)
        return gradients, {"loss": loss, "accuracy": tf.reduce_mean(tf.cast(correct, tf.float32))}

    def _maps(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Images uint8 [B, S, S, 3] -> feature maps; feature maps stay as they are."""
        if inputs.dtype != tf.uint8:
            return inputs
        return self.encoder(tf.image.convert_image_dtype(inputs, tf.float32), training=training)

    def logits(self, batches: Iterable[dict[str, tf.Tensor]]) -> tuple[np.ndarray, np.ndarray]:
        """(logits float32 [N, classes], labels int64 [N]) of finite batches of {'image' or 'latents', 'label'}."""
        logits, labels = [], []
        for batch in batches:
            maps = batch["latents"] if "latents" in batch else self.encoder.encode(batch["image"])
            logits.append(self.classifier(maps).numpy())
            labels.append(np.asarray(batch["label"]))
        return np.concatenate(logits), np.concatenate(labels)
