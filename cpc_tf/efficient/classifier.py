"""The image classifier of appendix C: the model, one step of its training in each phase, and its
test.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

import numpy as np
import tensorflow as tf

from cpc_tf.core.keras import keras, policy
from cpc_tf.core.settings import replace
from cpc_tf.efficient.config import ClassifierConfig, EfficientConfig
from cpc_tf.efficient.propagation import Propagation, method_of
from cpc_tf.encoders.layers import has_batch_norm, make_norm
from cpc_tf.encoders.load import LoadedEncoder
from cpc_tf.encoders.networks.resnet import Bottleneck
from cpc_tf.evaluation import label_kinds
from cpc_tf.evaluation.inference import on_replicas
from cpc_tf.evaluation.label_kinds import LabelKind
from cpc_tf.training import optimizer
from cpc_tf.training.config import OptimizerConfig
from cpc_tf.training.optimizer import Schedule
from cpc_tf.training.phases import FINE_TUNED, FROZEN
from cpc_tf.training.trainee import BatchPosition, Trainee

# A phase: everything by SGD. The others are FROZEN, the classifier by SGD, and FINE_TUNED, the
# encoder by Adam, too.
SUPERVISED = "supervised"
ENCODED = 128  # images that a replica encodes at a time without training


class ResNetClassifier(keras.Model):
    """Residual blocks on feature maps, mean-pool, dropout, a linear layer.

    The paper's has 11 blocks of 4096 channels with 1024 inside ("ResNet-33"): 196 M parameters.
    Without blocks the maps are only normalized: a linear classifier or, with norm 'none', the last
    layer of a supervised ResNet.

    Args:
      num_classes: number of logits.
      config: blocks, widths and dropout.
      norm: of the blocks and after them, as `make_norm` has it.
      precision: of the blocks, as `Network` has it; statistics, logits and parameters are float32.
    """

    def __init__(
        self,
        num_classes: int,
        config: ClassifierConfig,
        norm: str = "batch",
        precision: str = "float32",
    ):
        dtype = policy(precision)
        super().__init__(name="classifier", dtype=dtype)
        self.blocks = [
            Bottleneck(
                config.head_width // 4,
                config.head_width,
                stride=1,
                project=i == 0,
                norm=norm,
                order="pre",
                dtype=dtype,
                name=f"block{i + 1}",
            )
            for i in range(config.blocks)
        ]
        self.norm = make_norm(norm, dtype, "norm")
        self.rate = config.dropout
        self.logits = keras.layers.Dense(num_classes, dtype="float32", name="logits")

    def call(
        self, maps: tf.Tensor, training: bool = False, mask: tf.Tensor | None = None
    ) -> tf.Tensor:
        """Feature maps [B, H, W, D] -> logits [B, num_classes], float32.

        Args:
          training: whether to use batch statistics and dropout.
          mask: float32 [B, D], see `dropout_mask`; needed in training.
        """
        x = maps
        for block in self.blocks:
            x = block(x, training=training)
        x = self.norm(x, training=training)
        if self.blocks:
            x = tf.nn.relu(x)
        features = tf.reduce_mean(tf.cast(x, tf.float32), [1, 2])  # [B, D]
        return self.logits(features * mask if training and self.rate else features)

    def dropout_mask(self, width: int, key: tf.Tensor, batch_size: int) -> tf.Tensor:
        """Returns the factors of dropout for the features of a whole batch, [batch_size, width];
        `key` is int64 [2].
        """
        return tf.nn.experimental.stateless_dropout(
            tf.ones([batch_size, width]), self.rate, key, rng_alg="philox"
        )


def build_classifier(
    config: EfficientConfig, phase: str, maps: tf.TensorShape, num_classes: int
) -> ResNetClassifier:
    """Returns the classifier that a phase trains on maps [None, H, W, D] of an encoder, with all
    its variables.

    Fine-tuning has the frozen phase's classifier. A supervised network ends with a norm of its own,
    so without blocks only a linear layer follows.
    """
    settings = config.classifier
    norm = "batch" if settings.norm == "auto" else settings.norm
    norm = "none" if phase == SUPERVISED and not settings.blocks else norm
    classifier = ResNetClassifier(num_classes, settings, norm, config.numerics.precision)
    classifier.build(maps)
    return classifier


class Classification(Trainee):
    """Trains encoder and classifier in one phase.

    Args:
      encoder: images -> feature maps, built.
      classifier: feature maps -> logits, built.
      phase: 'supervised', 'frozen' or 'fine-tuned'.
      config: of this phase.
      train_steps: length of the phase; the longest that may be chosen, if one is to be.
      strategy: where it runs.
      kind: whether labels are single or multi-label.
      cosine: whether the rates are a cosine that ends at `train_steps`; else they are constant.
      drops: steps from each of which on they are a tenth of what they were.

    Raises:
      ConfigError: if the batch cannot be divided among the replicas.
    """

    def __init__(
        self,
        encoder: LoadedEncoder,
        classifier: ResNetClassifier,
        phase: str,
        config: EfficientConfig,
        train_steps: int,
        strategy: tf.distribute.Strategy,
        kind: LabelKind = label_kinds.SINGLE_LABEL,
        cosine: bool = True,
        drops: Sequence[int] = (),
    ):
        self.kind = kind
        self.metric_names = kind.metric_names
        numerics = config.numerics if encoder.compiles else replace(config.numerics, xla="off")
        super().__init__(strategy, config.training.batch_size, numerics)
        self.encoder = encoder
        self.classifier = classifier
        self.phase = phase
        sgd = config.sgd
        self._propagation = None
        if phase != FROZEN and method_of(config.propagation):
            self._propagation = Propagation(config, encoder, classifier, train_steps)
            self.metric_names = (*self.metric_names, *self._propagation.metric_names)
        self._decay = sgd.weight_decay
        self._seed = config.training.seed
        by_sgd = list(classifier.trainable_variables)
        by_adam = list(encoder.trainable_variables)
        if phase == SUPERVISED:
            by_sgd = [*by_adam, *by_sgd]
        self._kernels = [variable for variable in by_sgd if variable.shape.rank > 1]

        # The learning rates.
        if phase == FINE_TUNED:
            self.rates = ("finetune_rate", "encoder_rate")
            peaks = (sgd.finetune_rate, sgd.encoder_rate)
        else:
            peaks = (sgd.learning_rate,)
        warmup = 0 if phase == FINE_TUNED else sgd.warmup_steps
        cosine_steps = train_steps if cosine else 0
        with strategy.scope():
            # What `drop_rates` lowers while it trains. Not saved: the evaluations so far say it.
            self._factor = tf.Variable(
                1.0, trainable=False, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA
            )
        rates = [Schedule(peak, warmup, cosine_steps, drops, self._factor) for peak in peaks]

        # The optimizers.
        # Details of the encoder's Adam; None: Keras' defaults.
        paper = OptimizerConfig() if phase == FINE_TUNED and sgd.encoder_adam == "paper" else None
        self._clipped = (len(by_sgd), paper.clip_norm) if paper else None
        with strategy.scope():
            parts = {"optimizer0": (optimizer.sgd(rates[0], sgd.momentum), by_sgd)}
            if phase == FINE_TUNED:
                details = (paper.beta1, paper.beta2, paper.epsilon) if paper else ()
                parts["optimizer1"] = (optimizer.adam(rates[1], *details), by_adam)
        averages = {"average_decay": paper.average_decay, "averaged": by_adam} if paper else {}

        # What is saved, and what replicas exchange.
        # The frozen phase does not change the encoder, so its gigabytes need not be written.
        saved = {} if phase == FROZEN else {"encoder": encoder.saved()}
        encoder_exchanges = phase != FROZEN and encoder.has_batch_norm
        exchanges = encoder_exchanges or has_batch_norm(classifier)
        of_whole_batch = "batch norm's statistics" if exchanges else ""
        self.set_up(
            parts, of_whole_batch=of_whole_batch, classifier=classifier, **averages, **saved
        )

        # The functions of training and test.
        encode = functools.partial(self._maps, training=phase != FROZEN)
        self._encode = self.compiled(encode) if self.exchanges and not encoder_exchanges else encode
        self._logits = on_replicas(
            lambda x: classifier(self._maps(x)), strategy, ENCODED, numerics.xla
        )

    def drop_rates(self, count: int) -> None:
        """Makes the rates of the following steps a tenth of what they would be, so many times."""
        self._factor.assign(0.1**count)

    def inputs(self, batch: dict[str, tf.Tensor]) -> tuple[tf.Tensor, ...]:
        """Returns images or latents, labels and, with label propagation, images without labels.

        Args:
          batch: 'image' uint8 [B, S, S, 3] or, if frozen, 'latents' float32 [B, H, W, D]; 'label';
            'unlabelled' as `Propagation.loss` takes them.
        """
        inputs = batch["latents"] if "latents" in batch else batch["image"]
        if self._propagation:
            return inputs, batch["label"], batch["unlabelled"]
        return inputs, batch["label"]

    def losses(
        self, rows: BatchPosition, inputs: tf.Tensor, labels: tf.Tensor, *unlabelled: tf.Tensor
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        maps = self._encode(inputs)
        maps = tf.stop_gradient(maps) if self.phase == FROZEN else maps
        seed = tf.stack([tf.cast(self._seed, tf.int64), rows.step])
        key = tf.random.experimental.stateless_fold_in(seed, 0)
        width = self.classifier.logits.kernel.shape[0]
        # Of the batch of all replicas.
        mask = self.classifier.dropout_mask(width, key, self.batch_size)
        mask = tf.slice(mask, [rows.first, 0], [maps.shape[0], width])
        logits = self.classifier(maps, training=True, mask=mask)  # [B, classes]
        metrics = self.kind.metrics(logits, labels)
        squares = tf.add_n([tf.nn.l2_loss(kernel) for kernel in self._kernels])
        total = metrics["loss"] + self._decay * squares
        if self._propagation:
            loss, more = self._propagation.loss(rows, *unlabelled)
            return total + loss, {**metrics, **more}
        return total, metrics

    def scaled(self, gradients: list[tf.Tensor]) -> list[tf.Tensor]:
        if not self._clipped:
            return gradients
        first, clip_norm = self._clipped  # clip encoder gradients only
        clipped, _ = tf.clip_by_global_norm(gradients[first:], clip_norm)
        return [*gradients[:first], *clipped]

    def _maps(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Images uint8 [B, S, S, 3] -> feature maps; feature maps are returned unchanged."""
        if inputs.dtype != tf.uint8:
            return inputs
        return self.encoder(tf.image.convert_image_dtype(inputs, tf.float32), training=training)

    def logits(self, batches: Iterable[dict[str, tf.Tensor]]) -> tuple[np.ndarray, np.ndarray]:
        """Returns logits [N, classes] and labels of finite batches of {'image' or 'latents',
        'label'}.
        """
        logits = []
        labels = []
        with self.averaged():
            for batch in batches:
                logits.append(
                    self._logits(batch["latents"] if "latents" in batch else batch["image"]).numpy()
                )
                labels.append(np.asarray(batch["label"]))
        return np.concatenate(logits), np.concatenate(labels)

    def classes(self, batches: Iterable[dict[str, tf.Tensor]]) -> np.ndarray:
        """Returns the class that is predicted of each image of finite batches of {'image'}, int64
        [N].
        """
        with self.averaged():
            return np.concatenate(
                [self._logits(batch["image"]).numpy().argmax(1) for batch in batches]
            )
