"""Label propagation: the loss that images without labels add while encoder and classifier are
trained together.

Each method of --propagation, in METHODS, cuts views of these images and has a loss on the
predictions for them. The images are a stream beside those with labels, also a function of (seed,
step), and the loss on them is the same for any number of replicas, as in `Trainee`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from cpc_tf.core.keras import keras
from cpc_tf.data import pipeline
from cpc_tf.data.source import Source
from cpc_tf.data.views import PlainAndAugmented, RandomSizedCrop, View
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.efficient.propagation_config import PropagationConfig
from cpc_tf.encoders.layers import running_statistics_kept
from cpc_tf.encoders.load import LoadedEncoder
from cpc_tf.training.trainee import BatchPosition

Metrics = dict[str, tf.Tensor]  # float32 scalars

# Added to the seed, so that order, crops and augmentation are not those of the images with labels.
_SEED = 1 << 36
# What a step draws; `Classification` has 0.
_DROPOUT = 1
_NOISE = 2


class Unlabelled(NamedTuple):
    """What a method is given: the images without labels of a step, or some of them, and the
    classifier.
    """

    # float32 in [0, 1]: images [n, S, S, 3], or two views of each [n, 2, S, S, 3]
    views: tf.Tensor
    # Images float32 [n, S, S, 3] -> logits float32 [n, classes] in training, with the same dropout
    # at each call.
    logits: Callable[[tf.Tensor], tf.Tensor]
    noise: Callable[[], tf.Tensor]  # normal numbers, float32 [n, S, S, 3], the same at each call
    progress: tf.Tensor  # float32 scalar, 0 to 1: which part of the training is done


class PropagationMethod(NamedTuple):
    """A method of label propagation."""

    view: View
    metric_names: tuple[str, ...]
    # Weighted; the metrics are of all names.
    loss: Callable[[Unlabelled, PropagationConfig], tuple[tf.Tensor, Metrics]]


def divergence(target: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """The Kullback-Leibler divergence of predictions from targets, both logits float32 [n,
    classes]: float32 [n].
    """
    odds = tf.nn.log_softmax(logits)
    wanted = tf.nn.log_softmax(target)
    return tf.reduce_sum(tf.exp(wanted) * (wanted - odds), 1)


def pseudo_labels(pictures: Unlabelled, config: PropagationConfig) -> tuple[tf.Tensor, Metrics]:
    """The class that the classifier predicts now counts as the label (Lee 2013).

    Zhai et al. 2019, whose figures the paper quotes, train twice instead:
    --propagation=self_training.

    Returns:
      The weighted cross-entropy of the predicted classes, equation 15 there, and its weight,
      equation 16.
    """
    logits = pictures.logits(pictures.views)
    labels = tf.argmax(logits, 1)  # has no gradient
    share = (pictures.progress - config.pseudo_begin) / (config.pseudo_end - config.pseudo_begin)
    weight = config.pseudo_weight * tf.clip_by_value(share, 0.0, 1.0)
    mean = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
    return weight * mean, {"pseudo_weight": weight}


def vat(pictures: Unlabelled, config: PropagationConfig) -> tuple[tf.Tensor, Metrics]:
    """Virtual adversarial training with entropy minimization (Miyato et al. 2018, "VAT + EntMin").

    The prediction for an image is to stay the same where a small disturbance changes it most, and
    to be a certain one.

    Returns:
      The weighted sum of the mean divergence and the mean entropy, and these.
    """
    logits = pictures.logits(pictures.views)
    disturbed = pictures.views + adversarial(pictures, tf.stop_gradient(logits), config)
    parts = {
        "divergence": tf.reduce_mean(
            divergence(tf.stop_gradient(logits), pictures.logits(disturbed))
        ),
        "entropy": tf.reduce_mean(
            -tf.reduce_sum(tf.nn.softmax(logits) * tf.nn.log_softmax(logits), 1)
        ),
    }
    return config.vat_weight * parts["divergence"] + config.entropy_weight * parts["entropy"], parts


def adversarial(pictures: Unlabelled, target: tf.Tensor, config: PropagationConfig) -> tf.Tensor:
    """Returns the disturbances that change predictions most, float32 [n, S, S, 3], by one power
    iteration.

    Args:
      pictures: undisturbed.
      target: their logits, [n, classes].
      config: the sizes.
    """
    probe = config.vat_probe * _direction(pictures.noise())
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(probe)
        change = tf.reduce_sum(divergence(target, pictures.logits(pictures.views + probe)))
    return tf.stop_gradient(config.vat_radius * _direction(tape.gradient(change, probe)))


def _direction(x: tf.Tensor) -> tf.Tensor:
    """Scales each image of [n, S, S, 3] to a root mean square of 1; zeros stay zeros."""
    # Squares of gradients underflow.
    x = tf.math.divide_no_nan(x, tf.reduce_max(tf.abs(x), [1, 2, 3], keepdims=True))
    return tf.math.divide_no_nan(x, tf.sqrt(tf.reduce_mean(tf.square(x), [1, 2, 3], keepdims=True)))


def uda(pictures: Unlabelled, config: PropagationConfig) -> tuple[tf.Tensor, Metrics]:
    """Unsupervised data augmentation: an augmented image is to have the plain one's prediction (Xie
    et al. 2019).

    Their training signal annealing is left out. The augmentation is that of --augment in place of
    RandAugment.

    Returns:
      The weighted mean divergence, 0 where the prediction is not confident, and the share that is.
    """
    plain = pictures.views[:, 0]
    augmented = pictures.views[:, 1]
    target = tf.stop_gradient(pictures.logits(plain))
    confident = tf.cast(tf.reduce_max(tf.nn.softmax(target), 1) > config.uda_confidence, tf.float32)
    change = divergence(target / config.uda_temperature, pictures.logits(augmented))
    return config.uda_weight * tf.reduce_mean(confident * change), {
        "confident": tf.reduce_mean(confident)
    }


METHODS = {
    "pseudo_labels": PropagationMethod(RandomSizedCrop(), ("pseudo_weight",), pseudo_labels),
    "vat": PropagationMethod(RandomSizedCrop(), ("divergence", "entropy"), vat),
    "uda": PropagationMethod(PlainAndAugmented(), ("confident",), uda),
}


def method_of(config: PropagationConfig) -> PropagationMethod | None:
    """Returns the method of --propagation; None: there is no loss of images without labels."""
    return METHODS.get(config.propagation)


class Propagation:
    """A method of label propagation in the training of a classifier.

    Args:
      config: of a run with --propagation.
      encoder: images -> feature maps, trained.
      classifier: feature maps -> logits, a `ResNetClassifier`.
      train_steps: most steps of the training.
    """

    def __init__(
        self,
        config: EfficientConfig,
        encoder: LoadedEncoder,
        classifier: keras.Model,
        train_steps: int,
    ):
        self._config, self._method = config.propagation, method_of(config.propagation)
        self._encoder = encoder
        self._classifier = classifier
        self._seed = config.training.seed
        self._steps = train_steps
        self._batch_size = config.training.batch_size * self._config.unlabelled_ratio
        self.metric_names = ("unlabelled_loss", *self._method.metric_names)

    def loss(self, rows: BatchPosition, views: tf.Tensor) -> tuple[tf.Tensor, Metrics]:
        """Returns the weighted loss, a float32 scalar, and the metrics with `metric_names`.

        Batch norm uses the statistics of each call's images; its running ones are those of images
        with labels, but for third-party modules, which change theirs in each call.

        Args:
          rows: the images with labels that these are beside.
          views: uint8 [B, ratio, *view], ratio images beside each of those.
        """
        views = tf.image.convert_image_dtype(views, tf.float32)
        views = tf.reshape(views, [-1, *views.shape[2:]])  # [B, ratio, *view] -> [B*ratio, *view]
        first = rows.first * self._config.unlabelled_ratio
        count = views.shape[0]

        def of_rows(
            drawn: tf.Tensor,
        ) -> tf.Tensor:  # [ratio * batch of all replicas, ...] -> [B*ratio, ...]
            return tf.slice(
                drawn, [first, *[0] * (drawn.shape.rank - 1)], [count, *drawn.shape[1:]]
            )

        def key(purpose: int) -> tf.Tensor:
            return tf.random.experimental.stateless_fold_in(
                tf.stack([tf.cast(self._seed, tf.int64), rows.step]), purpose
            )

        def logits(images: tf.Tensor) -> tf.Tensor:
            width = self._classifier.logits.kernel.shape[0]
            mask = of_rows(self._classifier.dropout_mask(width, key(_DROPOUT), self._batch_size))
            with running_statistics_kept():
                return self._classifier(
                    self._encoder(images, training=True), training=True, mask=mask
                )

        def noise() -> tf.Tensor:
            return of_rows(
                tf.random.stateless_normal(
                    [self._batch_size, *views.shape[-3:]], key(_NOISE), alg="philox"
                )
            )

        progress = tf.cast(rows.step, tf.float32) / self._steps
        loss, metrics = self._method.loss(Unlabelled(views, logits, noise, progress), self._config)
        return loss, {"unlabelled_loss": loss, **metrics}


def with_unlabelled(
    labelled: Callable[..., tf.data.Dataset], source: Source, config: EfficientConfig
) -> Callable[..., tf.data.Dataset]:
    """Returns what makes batches of images with labels and of others beside them.

    Args:
      labelled: makes batches as `pipeline.batches` does, given `global_batch`, `per_batch`, `seed`
        and more.
      source: the other images; their labels are not read.
      config: of a run with --propagation.
    """
    view = method_of(config.propagation).view
    ratio = config.propagation.unlabelled_ratio

    def batches(*, global_batch: int, per_batch: int, seed: int, **order) -> tf.data.Dataset:
        others = pipeline.batches(
            source,
            view,
            config.images,
            config.augment,
            global_batch=global_batch * ratio,
            per_batch=per_batch * ratio,
            seed=seed + _SEED,
            **order,
        )
        shape = [per_batch, ratio, *view.shape(config.images)]
        others = others.map(lambda batch: {"unlabelled": tf.reshape(batch[view.key], shape)})
        pictures = labelled(global_batch=global_batch, per_batch=per_batch, seed=seed, **order)
        return tf.data.Dataset.zip((pictures, others)).map(
            lambda pictures, others: {**pictures, **others}
        )

    return batches
