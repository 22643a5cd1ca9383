"""Pre-training: the model with its optimizer and averages, and one step of it in a replica."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

import tensorflow as tf

from cpc_tf import native
from cpc_tf.encoders.card import EncoderCard, read_card
from cpc_tf.encoders.config import EncoderConfig, make_encoder
from cpc_tf.encoders.load import saved_values, take_values
from cpc_tf.encoders.network import Network, restore_kernel_norms
from cpc_tf.keras import keras
from cpc_tf.objectives import OBJECTIVES
from cpc_tf.objectives.base import Objective
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.pretrain.diagnostics import latent_statistics
from cpc_tf.settings import ConfigError
from cpc_tf.training.optimizer import adam, warm_up
from cpc_tf.training.trainee import Trainee


class Pretraining(Trainee):
    """The step and the checkpoint of a pre-training run.

    Args:
      config: the run's settings.
      strategy: where it runs.
      train_steps: the length of the run, for the schedule.

    Raises:
      ConfigError: if the batch cannot be divided among the replicas, or --initial_encoder does not fit.
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


def build_model(config: PretrainConfig) -> Objective:
    """Returns the objective's model with all its variables, initialized from `config.training.seed`."""
    keras.utils.set_random_seed(config.training.seed)
    precision, objective = config.numerics.precision, config.objective
    model = objective.kind(make_encoder(config.encoder, precision), objective.settings, precision)
    if native.runs_on_cpu():
        model.parts = config.parts
    # Traced, not run: a large encoder would take seconds and gigabytes.
    shape = [1, *objective.kind.VIEW.shape(config.geometry)]
    tf.function(model).get_concrete_function(tf.TensorSpec(shape, tf.uint8))
    return model


def initialize(encoder: Network, module: str) -> None:
    """Gives an encoder the weights of --initial_encoder, one of our modules.

    The outputs stay the module's. Kernels before a norm get the length of new ones, so that they learn as fast.

    Raises:
      ConfigError: there is no such module, it learned from labels, or it is another network than the run's.
    """
    with _initial_encoder_errors(module):
        card = read_card(module)
        if card.training.trained_by not in OBJECTIVES:
            raise ConfigError("it learned from labels, and pre-training is without; name one that did not")
        for field in dataclasses.fields(EncoderConfig):
            there, here = getattr(card.encoder, field.name), getattr(encoder.config, field.name)
            if there != here and field.name != "recompute":  # changes no value
                raise ConfigError(f"it has --{field.name}={there}, this run --{field.name}={here}")
        take_values(encoder, saved_values(module, module), module)
    restore_kernel_norms(encoder)


def read_initial_card(module: str) -> EncoderCard:
    """Returns the card of --initial_encoder. Raises ConfigError if there is none."""
    with _initial_encoder_errors(module):
        return read_card(module)


@contextlib.contextmanager
def _initial_encoder_errors(module: str) -> Iterator[None]:
    """Renames the flag --encoder in error messages to --initial_encoder."""
    try:
        yield
    except ConfigError as error:
        reason = str(error).replace(f"--encoder={module}: ", "", 1)
        raise ConfigError(f"--initial_encoder={module}: {reason}") from error
