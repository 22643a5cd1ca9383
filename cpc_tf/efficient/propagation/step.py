"""The loss on the pictures without labels of a step: the same for any number of replicas, as in `Trainee`."""

from __future__ import annotations

import tensorflow as tf

from cpc_tf.efficient.propagation import method
from cpc_tf.efficient.propagation.base import Metrics, Unlabelled
from cpc_tf.efficient.propagation.config import PropagationConfig
from cpc_tf.encoders.load import LoadedEncoder
from cpc_tf.encoders.norm import running_statistics_kept
from cpc_tf.keras import keras
from cpc_tf.settings import Settings
from cpc_tf.training.trainee import Rows

# What a step draws; `Classification` has 0.
_DROPOUT, _NOISE = 1, 2


class Propagation:
    """A method of label propagation in the training of a classifier.

    Args:
      config: of a run with --propagation.
      encoder: pictures -> feature maps, trained.
      classifier: feature maps -> logits, a `ResNetClassifier`.
      train_steps: most steps of the training.
    """

    def __init__(self, config: Settings, encoder: LoadedEncoder, classifier: keras.Model, train_steps: int):
        self._config: PropagationConfig = config.propagation
        self._method, self._encoder, self._classifier = method(config.propagation), encoder, classifier
        self._seed, self._steps = config.training.seed, train_steps
        self._batch_size = config.training.batch_size * self._config.unlabelled_ratio
        self.metric_names = ("unlabelled_loss", *self._method.METRICS)

    def loss(self, rows: Rows, views: tf.Tensor) -> tuple[tf.Tensor, Metrics]:
        """Returns the weighted loss, a float32 scalar, and the metrics with `metric_names`.

        Batch norm uses the statistics of each call's pictures; its running ones are those of pictures with labels, but
        for third-party modules, which change theirs in each call.

        Args:
          rows: the pictures with labels that these are beside.
          views: uint8 [B, ratio, *view], ratio pictures beside each of those.
        """
        views = tf.image.convert_image_dtype(views, tf.float32)
        views = tf.reshape(views, [-1, *views.shape[2:]])  # [B, ratio, *view] -> [B*ratio, *view]
        first, count = rows.first * self._config.unlabelled_ratio, views.shape[0]

        def own(drawn: tf.Tensor) -> tf.Tensor:  # [ratio * batch of all replicas, ...] -> [B*ratio, ...]
            return tf.slice(drawn, [first, *[0] * (drawn.shape.rank - 1)], [count, *drawn.shape[1:]])

        def key(purpose: int) -> tf.Tensor:
            return tf.random.experimental.stateless_fold_in(
                tf.stack([tf.cast(self._seed, tf.int64), rows.step]), purpose
            )

        def logits(images: tf.Tensor) -> tf.Tensor:
            width = self._classifier.logits.kernel.shape[0]
            kept = own(self._classifier.dropout(width, key(_DROPOUT), self._batch_size))
            with running_statistics_kept():
                return self._classifier(self._encoder(images, training=True), training=True, kept=kept)

        def noise() -> tf.Tensor:
            return own(tf.random.stateless_normal([self._batch_size, *views.shape[-3:]], key(_NOISE), alg="philox"))

        progress = tf.cast(rows.step, tf.float32) / self._steps
        loss, metrics = self._method.loss(Unlabelled(views, logits, noise, progress), self._config)
        return loss, {"unlabelled_loss": loss, **metrics}
