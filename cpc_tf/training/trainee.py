"""The base of everything that is trained: step, replicas, XLA, clipping, optimizers, averages and checkpoint."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from cpc_tf import native
from cpc_tf.keras import keras
from cpc_tf.settings import ConfigError
from cpc_tf.training.optimizer import PolyakAverage, Schedule
from cpc_tf.training.strategy import wants_xla

# An optimizer and the variables that it trains.
Part = tuple[keras.optimizers.Optimizer, Sequence[tf.Variable]]


class Trainee(tf.Module, abc.ABC):
    """What the loop trains. A subclass makes its model, calls `set_up`, and implements `inputs` and `gradients`.

    Args:
      strategy: where it runs.
      batch_size: examples per step over all replicas.
      xla: 'auto', 'on' or 'off': whether `gradients` is compiled.

    Attributes:
      metric_names: the keys of what `train_step` returns. 'gradient_norm' asks for the norm before clipping.
      rates: the flags of the learning rates, for the advice after divergence.
      strategy: as given.
      step: the number of updates so far, int64.
      trained: the variables that the optimizers change, part after part.
      schedules: name of an optimizer -> its learning rate, if that is not constant.
      checkpoint: what a run saves.

    Raises:
      ConfigError: if the batch cannot be divided among the replicas.
    """

    metric_names: Sequence[str] = ("loss",)
    rates: Sequence[str] = ("learning_rate",)

    def __init__(self, strategy: tf.distribute.Strategy, batch_size: int, xla: str = "off"):
        super().__init__()
        replicas = strategy.num_replicas_in_sync
        if batch_size % replicas:
            raise ConfigError(f"--batch_size={batch_size}: not a multiple of the {replicas} replicas of --strategy")
        self.strategy, self._rows, self._xla = strategy, batch_size // replicas, wants_xla(xla, strategy)

    def set_up(
        self,
        parts: dict[str, Part],
        clip_norm: float = 0.0,
        average_decay: float | None = None,
        averaged: Sequence[tf.Variable] | None = None,
        **saved: Any,
    ):
        """Creates the variables of training and the checkpoint.

        Args:
          parts: name in the checkpoint -> an optimizer and the variables that it trains.
          clip_norm: largest global norm of the gradient; 0: no clipping.
          average_decay: decay of Polyak averages; None: no averages.
          averaged: the variables to average; None: all that are trained.
          **saved: name in the checkpoint -> what else it holds.
        """
        self._parts, self._clip_norm, self.average = list(parts.values()), clip_norm, None
        self.trained = [variable for _, variables in self._parts for variable in variables]
        self._averaged = self.trained if averaged is None else averaged
        with self.strategy.scope():
            for optimizer, variables in self._parts:
                optimizer.build(variables)
            if average_decay is not None:
                saved["average"] = self.average = PolyakAverage(self._averaged, average_decay)
            self.step = tf.Variable(0, trainable=False, dtype=tf.int64, aggregation=tf.VariableAggregation.NONE)
        optimizers = {name: optimizer for name, (optimizer, _) in parts.items()}
        rates = {name: optimizer.get_config()["learning_rate"] for name, optimizer in optimizers.items()}
        self.schedules = {name: Schedule(**rate["config"]) for name, rate in rates.items() if isinstance(rate, dict)}
        self.checkpoint = tf.train.Checkpoint(step=self.step, **optimizers, **saved)
        # XLA compiles no collectives, so they stay outside of this function. A TPU compiles the whole step.
        self._gradients = self.compiled(self.gradients)

    def compiled(self, function):
        """Returns the function, compiled by XLA if this trainee is to be."""
        return tf.function(function, autograph=False, jit_compile=True) if self._xla else function

    @abc.abstractmethod
    def inputs(self, batch: dict[str, tf.Tensor]) -> tuple[tf.Tensor, ...]:
        """Returns the arguments of `gradients`; runs in replica context and is not compiled."""

    @abc.abstractmethod
    def gradients(self, *inputs: tf.Tensor) -> tuple[list[tf.Tensor], dict[str, tf.Tensor]]:
        """Returns the gradients of `trained` on one replica's batch, and float32 scalars to report."""

    def scaled(self, gradients: list[tf.Tensor]) -> list[tf.Tensor]:
        """Returns what the optimizers get, given gradients that are averaged over the replicas and clipped."""
        return gradients

    def train_step(self, batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Updates the variables by one replica's batch, in replica context; returns its metrics, float32 scalars."""
        # Several workers' iterators do not know the batch size, but the rest of the step needs static shapes.
        batch = {name: tf.ensure_shape(x, [self._rows, *x.shape[1:]]) for name, x in batch.items()}
        with native.allowed(not self._xla):  # here, since each replica is traced by a thread of its own
            gradients, metrics = self._gradients(*self.inputs(batch))
        gradients = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.MEAN, gradients)
        norm = tf.linalg.global_norm(gradients)
        if "gradient_norm" in self.metric_names:
            metrics["gradient_norm"] = norm
        if self._clip_norm:
            gradients, _ = tf.clip_by_global_norm(gradients, self._clip_norm, norm)
        gradients = self.scaled(gradients)
        for optimizer, variables in self._parts:
            taken, gradients = gradients[: len(variables)], gradients[len(variables) :]
            optimizer.apply_gradients(zip(taken, variables), skip_gradients_aggregation=True)
        if self.average is not None:
            self.average.update(self._averaged, self.step)
        self.step.assign_add(1)
        return metrics

    @contextlib.contextmanager
    def averaged(self) -> Iterator[None]:
        """Sets the model's weights to their averages, if there are any, and restores them at the end."""
        if self.average is None:
            yield
            return
        raw = [tf.identity(variable) for variable in self._averaged]
        for variable, average in zip(self._averaged, self.average.averages):
            variable.assign(average)
        try:
            yield
        finally:
            for variable, value in zip(self._averaged, raw):
                variable.assign(value)
