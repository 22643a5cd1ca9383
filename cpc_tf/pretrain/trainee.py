"""Pre-training: the model with its optimizer and averages, and one step of it in a replica."""

from __future__ import annotations

import tensorflow as tf

from cpc_tf import native
from cpc_tf.encoders.config import make_encoder
from cpc_tf.keras import keras
from cpc_tf.objectives.base import Objective
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.pretrain.diagnostics import latent_statistics
from cpc_tf.pretrain.initial import initialize
from cpc_tf.training.optimizer import adam
from cpc_tf.training.schedules import warm_up
from cpc_tf.training.trainee import Trainee


def build_model(config: PretrainConfig) -> Objective:
    """The objective's model with all its variables, initialized from `config.training.seed`."""
    keras.utils.set_random_seed(config.training.seed)
    precision, objective = config.numerics.precision, config.objective
    model = objective.kind(make_encoder(config.encoder, precision), objective.settings, precision)
    if native.runs_on_cpu():
        model.parts = config.parts
    # Traced, not run: the large encoders would take seconds and gigabytes.
    shape = [1, *objective.kind.VIEW.shape(config.geometry)]
    tf.function(model).get_concrete_function(tf.TensorSpec(shape, tf.uint8))
    return model


class Pretraining(Trainee):
    """What a pre-training run saves, and what it does in a step.

    Args:
      config: the run's settings.
      strategy: where it runs.
      train_steps: the length of the run, for the schedule.

    Raises:
      ConfigError: if the batch cannot be divided among the replicas, or the encoder to begin with does not fit.
    """

    def __init__(self, config: PretrainConfig, strategy: tf.distribute.Strategy, train_steps: int):
        super().__init__(strategy, config.training.batch_size, config.numerics.xla)
        self._view, chosen = config.objective.kind.VIEW, config.optimizer
        self._shape = self._view.shape(config.geometry)
        with strategy.scope():
            self.model = build_model(config)
            if config.initial_encoder:
                initialize(self.model.encoder, config.initial_encoder)
            rate = warm_up(chosen.learning_rate, chosen.schedule, chosen.warmup_steps, train_steps)
            self.optimizer = adam(rate, chosen.beta1, chosen.beta2, chosen.epsilon)
        self.set_up(
            {"optimizer": (self.optimizer, self.model.trainable_variables)},
            clip_norm=chosen.clip_norm,
            average_decay=chosen.average_decay,
            model=self.model,
        )
        if self.model.collectives and strategy.num_replicas_in_sync > 1 and self._xla:
            self._gradients, self.model.compile_encoder = self.gradients, True

    @property
    def metric_names(self) -> list[str]:
        spread = ["feature_std", "effective_rank"] if self.model.LATENTS else []
        return ["loss", "gradient_norm", *spread, *self.model.metric_names]

    def inputs(self, batch: dict[str, tf.Tensor]) -> tuple[tf.Tensor]:
        return (tf.ensure_shape(batch[self._view.key], [None, *self._shape]),)

    def gradients(self, view: tf.Tensor) -> tuple[list[tf.Tensor], dict[str, tf.Tensor]]:
        with tf.GradientTape() as tape:
            output = self.model(view, training=True)
        gradients = tape.gradient(output.loss, self.trained)
        spread = {} if output.latents is None else latent_statistics(output.latents)
        return gradients, {"loss": output.loss, **spread, **output.metrics}
