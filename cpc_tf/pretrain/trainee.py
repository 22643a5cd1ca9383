"""Pre-training: the model with its optimizer and averages, and one step of it in a replica."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import tensorflow as tf

from cpc_tf.encoders.config import make_encoder
from cpc_tf.keras import keras
from cpc_tf.objectives.base import Objective
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.pretrain.diagnostics import latent_statistics
from cpc_tf.settings import ConfigError
from cpc_tf.training.optimizer import PolyakAverage, make_optimizer
from cpc_tf.training.strategy import wants_xla


def build_model(config: PretrainConfig) -> Objective:
    """The objective's model with all its variables, initialized from `config.training.seed`."""
    keras.utils.set_random_seed(config.training.seed)
    precision, objective = config.numerics.precision, config.objective
    model = objective.kind(make_encoder(config.encoder, precision), objective.settings, precision)
    # Traced, not run: the large encoders would take seconds and gigabytes.
    shape = [1, *objective.kind.VIEW.shape(config.geometry)]
    tf.function(model).get_concrete_function(tf.TensorSpec(shape, tf.uint8))
    return model


class Pretraining(tf.Module):
    """What a pre-training run saves, and what it does in a step.

    Args:
      config: the run's settings.
      strategy: where it runs.
      train_steps: the length of the run, for the schedule.

    Raises:
      ConfigError: if the batch cannot be spread over the replicas.
    """

    def __init__(self, config: PretrainConfig, strategy: tf.distribute.Strategy, train_steps: int):
        super().__init__(name="pretraining")
        replicas, batch = strategy.num_replicas_in_sync, config.training.batch_size
        if batch % replicas:
            raise ConfigError(f"--batch_size={batch}: not a multiple of the {replicas} replicas of --strategy")
        self.config, self.strategy = config, strategy
        self._view = config.objective.kind.VIEW
        self._shape = [batch // replicas, *self._view.shape(config.geometry)]
        with strategy.scope():
            self.model = build_model(config)
            self.optimizer = make_optimizer(config.optimizer, train_steps)
            self.optimizer.build(self.model.trainable_variables)
            self.average = PolyakAverage(self.model.trainable_variables, config.optimizer.average_decay)
            self.step = tf.Variable(
                0, trainable=False, dtype=tf.int64, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA
            )
        self.checkpoint = tf.train.Checkpoint(
            model=self.model, optimizer=self.optimizer, average=self.average, step=self.step
        )
        compiled = wants_xla(config.numerics.xla, strategy)
        # Collectives stay outside of what is compiled here; a TPU compiles the whole step.
        self._gradients = (
            tf.function(self._gradients, autograph=False, jit_compile=True) if compiled else self._gradients
        )

    @property
    def metric_names(self) -> list[str]:
        """The keys of what `train_step` returns."""
        spread = ["feature_std", "effective_rank"] if self.model.LATENTS else []
        return ["loss", "gradient_norm", *spread, *self.model.metric_names]

    def train_step(self, batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """One update, in replica context, on the view in `batch` that the objective asks for.

        Returns float32 scalars, of this replica.
        """
        # Several workers' iterators do not know the batch size; everything below wants static shapes.
        gradients, metrics = self._gradients(tf.ensure_shape(batch[self._view.key], self._shape))
        gradients = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.MEAN, gradients)
        gradients, metrics["gradient_norm"] = tf.clip_by_global_norm(gradients, self.config.optimizer.clip_norm)
        variables = self.model.trainable_variables
        self.optimizer.apply_gradients(zip(gradients, variables), skip_gradients_aggregation=True)
        self.average.update(variables, self.step)
        self.step.assign_add(1)
        return metrics

    def _gradients(self, view: tf.Tensor) -> tuple[list[tf.Tensor], dict[str, tf.Tensor]]:
        with tf.GradientTape() as tape:
            output = self.model(view, training=True)
        gradients = tape.gradient(output.loss, self.model.trainable_variables)
        spread = {} if output.latents is None else latent_statistics(output.latents)
        return gradients, {"loss": output.loss, **spread, **output.metrics}

    @contextlib.contextmanager
    def averaged(self) -> Iterator[None]:
        """Within it the model has the averaged weights: those that are evaluated and exported."""
        variables = self.model.trainable_variables
        raw = [tf.identity(v) for v in variables]
        for variable, average in zip(variables, self.average.averages):
            variable.assign(average)
        try:
            yield
        finally:
            for variable, value in zip(variables, raw):
                variable.assign(value)
