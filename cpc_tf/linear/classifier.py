"""The linear classifiers of appendix B and of CPC v1: the model, a training step, and the test."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from cpc_tf.core.keras import keras
from cpc_tf.data.views import GREY
from cpc_tf.encoders.layers import BatchNorm, NoNorm
from cpc_tf.encoders.load import GridEncoder
from cpc_tf.evaluation import label_kinds
from cpc_tf.evaluation.inference import on_replicas
from cpc_tf.evaluation.label_kinds import LabelKind
from cpc_tf.linear.config import LinearConfig
from cpc_tf.training.optimizer import Schedule, adam, sgd
from cpc_tf.training.trainee import BatchPosition, Trainee

MOMENTUM = 0.9  # of SGD, as in CPC v1


class LinearClassifier(keras.Model):
    """Batch norm without scale, unless `norm` is False, a 1x1 convolution to the logits, and their
    mean over the grid.

    Without the norm these are the logits of the mean latent, as in CPC v1.
    """

    def __init__(self, num_classes: int, norm: bool = True):
        super().__init__(name="linear")
        self.norm = (
            BatchNorm(scale=False, momentum=0.9, name="norm") if norm else NoNorm(name="norm")
        )
        self.logits = keras.layers.Conv2D(num_classes, [1, 1], name="logits")

    def call(self, latents: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Latents [B, R, C, D] -> logits [B, num_classes], float32."""
        return tf.reduce_mean(self.logits(self.norm(latents, training=training)), [1, 2])


class LinearTraining(Trainee):
    """Trains a `LinearClassifier`. Of Adam the paper states only the rate; the rest is Keras'
    default.

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
        self.kind = kind
        self.metric_names = kind.metric_names
        super().__init__(strategy, config.training.batch_size, config.numerics)
        self.encode = self.compiled(encode)
        keras.utils.set_random_seed(config.training.seed)
        with strategy.scope():
            self.classifier = LinearClassifier(num_classes, config.probe.latent_norm)
            self.classifier.build([None, *latent_shape])
            rate = config.probe.learning_rate
            drops = config.probe.numbers("drop_steps")
            rate = Schedule(rate, drops=drops) if drops else rate
            optimizer = sgd(rate, MOMENTUM) if config.probe.optimizer == "sgd" else adam(rate)
        self.set_up(
            {"optimizer": (optimizer, self.classifier.trainable_variables)},
            of_whole_batch="batch norm's statistics" if config.probe.latent_norm else "",
            classifier=self.classifier,
        )

    def inputs(self, batch: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns latents and labels of a batch of 'latents' or 'patches', and 'label'."""
        latents = batch["latents"] if "latents" in batch else self.encode(batch["patches"])
        return latents, batch["label"]

    def losses(
        self, rows: BatchPosition, latents: tf.Tensor, labels: tf.Tensor
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        logits = self.classifier(latents, training=True)  # [B, classes]
        metrics = self.kind.metrics(logits, labels)
        return metrics["loss"], metrics

    def test(self, batches: tf.data.Dataset, by_channel: bool = False) -> tuple[np.ndarray, ...]:
        """Tests finite batches of {'patches' or 'latents', 'label'}.

        Args:
          by_channel: whether patches are also shown three times, each time with one channel, as
            colour dropping does.

        Returns:
          Logits [N, classes], labels and, if asked for, the mean logits [N, classes] of the three
          channels.
        """

        def logits(batch: dict[str, tf.Tensor]) -> tf.Tensor:
            return self.classifier(self.inputs(batch)[0])

        def of_channels(batch: dict[str, tf.Tensor]) -> tf.Tensor:
            grey = tf.constant(GREY, tf.uint8)
            shown = [
                tf.where(tf.range(3) == channel, batch["patches"], grey) for channel in range(3)
            ]
            return tf.reduce_mean([logits({**batch, "patches": patches}) for patches in shown], 0)

        functions = [
            on_replicas(f, self.strategy, self.rows)
            for f in (logits, *([of_channels] if by_channel else []))
        ]
        tested = []
        for batch in batches:
            first, *others = (function(batch).numpy() for function in functions)
            tested.append((first, batch["label"].numpy(), *others))
        return tuple(np.concatenate(parts) for parts in zip(*tested))
