"""An image classifier on feature maps in one of its phases of training (appendix C): one step of it, and its test."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import tensorflow as tf

from cpc_tf.efficient.classifier import ResNetClassifier
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.encoders.load import LoadedEncoder
from cpc_tf.training import optimizer
from cpc_tf.training.config import OptimizerConfig
from cpc_tf.training.optimizer import warm_up
from cpc_tf.training.trainee import Trainee

# 'supervised': everything by SGD. 'frozen': the classifier by SGD. 'fine-tuned': classifier by SGD, encoder by Adam.
SUPERVISED, FROZEN, FINE_TUNED = "supervised", "frozen", "fine-tuned"


class Classification(Trainee):
    """Encoder and classifier in one phase.

    Args:
      encoder: images -> feature maps, built.
      classifier: feature maps -> logits, built.
      phase: 'supervised', 'frozen' or 'fine-tuned'.
      config: of this phase.
      train_steps: length of the cosine of the rates. Fine-tuning may stop earlier on it, and is constant by default.
      strategy: where it runs.

    Raises:
      ConfigError: if the batch cannot be divided among the replicas.
    """

    metric_names = ("loss", "accuracy")

    def __init__(
        self,
        encoder: LoadedEncoder,
        classifier: ResNetClassifier,
        phase: str,
        config: EfficientConfig,
        train_steps: int,
        strategy: tf.distribute.Strategy,
    ):
        super().__init__(strategy, config.training.batch_size, config.numerics.xla)
        self.encoder, self.classifier, self.phase, sgd = encoder, classifier, phase, config.sgd
        self._decay, self._seed = sgd.weight_decay, config.training.seed
        by_sgd, by_adam = list(classifier.trainable_variables), list(encoder.trainable_variables)
        if phase == SUPERVISED:
            by_sgd = [*by_adam, *by_sgd]
        self._kernels = [variable for variable in by_sgd if variable.shape.rank > 1]
        if phase == FINE_TUNED:
            self.rates, schedule = ("finetune_rate", "encoder_rate"), sgd.finetune_schedule
            rates = [warm_up(rate, schedule, 0, train_steps) for rate in (sgd.finetune_rate, sgd.encoder_rate)]
        else:
            rates = [warm_up(sgd.learning_rate, "cosine", sgd.warmup_steps, train_steps)]
        # Of the encoder's Adam; None: Keras' own details.
        paper = OptimizerConfig() if phase == FINE_TUNED and sgd.encoder_adam == "paper" else None
        self._clipped = (len(by_sgd), paper.clip_norm) if paper else None
        with strategy.scope():
            parts = {"optimizer0": (optimizer.sgd(rates[0], sgd.momentum), by_sgd)}
            if phase == FINE_TUNED:
                details = (paper.beta1, paper.beta2, paper.epsilon) if paper else ()
                parts["optimizer1"] = (optimizer.adam(rates[1], *details), by_adam)
        averages = {"average_decay": paper.average_decay, "averaged": by_adam} if paper else {}
        # The frozen phase leaves the encoder alone: no need to write its gigabytes.
        saved = {} if phase == FROZEN else {"encoder": encoder.saved()}
        self.set_up(parts, classifier=classifier, **averages, **saved)

    def inputs(self, batch: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Of 'image' uint8 [B, S, S, 3] or, when frozen, 'latents' float32 [B, H, W, D]; 'label' int64 [B]."""
        images = batch["latents"] if "latents" in batch else batch["image"]
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        noise = tf.random.experimental.stateless_fold_in(tf.stack([tf.cast(self._seed, tf.int64), self.step]), replica)
        return images, batch["label"], noise

    def gradients(self, inputs: tf.Tensor, labels: tf.Tensor, noise: tf.Tensor):
        maps = self._maps(inputs) if self.phase == FROZEN else None
        with tf.GradientTape() as tape:
            if maps is None:
                maps = self._maps(inputs, training=True)
            logits = self.classifier(maps, training=True, noise=noise)  # [B, classes]
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
            total = loss + self._decay * tf.add_n([tf.nn.l2_loss(kernel) for kernel in self._kernels])
        gradients = tape.gradient(total, self.trained, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        correct = tf.equal(tf.argmax(logits, 1), labels)
        return gradients, {"loss": loss, "accuracy": tf.reduce_mean(tf.cast(correct, tf.float32))}

    def scaled(self, gradients: list[tf.Tensor]) -> list[tf.Tensor]:
        if not self._clipped:
            return gradients
        first, clip_norm = self._clipped  # of the encoder's: each component has the details it had
        clipped, _ = tf.clip_by_global_norm(gradients[first:], clip_norm)
        return [*gradients[:first], *clipped]

    def _maps(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Images uint8 [B, S, S, 3] -> feature maps; feature maps stay as they are."""
        if inputs.dtype != tf.uint8:
            return inputs
        return self.encoder(tf.image.convert_image_dtype(inputs, tf.float32), training=training)

    def logits(self, batches: Iterable[dict[str, tf.Tensor]]) -> tuple[np.ndarray, np.ndarray]:
        """(logits float32 [N, classes], labels int64 [N]) of finite batches of {'image' or 'latents', 'label'}."""
        logits, labels = [], []
        with self.averaged():
            for batch in batches:
                maps = batch["latents"] if "latents" in batch else self.encoder.encode(batch["image"])
                logits.append(self.classifier(maps).numpy())
                labels.append(np.asarray(batch["label"]))
        return np.concatenate(logits), np.concatenate(labels)
