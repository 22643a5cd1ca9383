"""The base of everything that is trained: step, replicas, XLA, accumulation, optimizers, averages,
checkpoint.

A step has the same answer, to rounding, for any number of replicas and of parts: what is random or
compared is a function of an image's index in the batch of all replicas, see `BatchPosition`.
"""

from __future__ import annotations

import abc
import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from absl import logging

from cpc_tf.core import native
from cpc_tf.core.keras import keras
from cpc_tf.core.settings import ConfigError
from cpc_tf.training.config import NumericsConfig
from cpc_tf.training.optimizer import LossScale, PolyakAverage, Schedule
from cpc_tf.training.strategy import wants_xla

NOT_COMPILED = NumericsConfig(xla="off")
KEPT = "kept"  # among the metrics of a step {name: values} for `Trainee.after_step`


class BatchPosition(NamedTuple):
    """The position of a function's images in the global batch of a step."""

    first: tf.Tensor  # int32 scalar: the index of the first one among the images of all replicas
    step: tf.Tensor  # int64 scalar: the step, from 0


def rows_of(strategy: tf.distribute.Strategy, batch_size: int, numerics: NumericsConfig) -> int:
    """Returns the images of a batch for each replica. Raises ConfigError if these or their parts
    would be unequal.
    """
    replicas = strategy.num_replicas_in_sync
    parts = numerics.accumulate
    if batch_size % replicas:
        raise ConfigError(
            "batch_size", batch_size, f"not a multiple of the {replicas} replicas of --strategy"
        )
    rows = batch_size // replicas
    if rows % parts:
        fitting = [n for n in range(1, rows + 1) if rows % n == 0]
        raise ConfigError(
            "accumulate",
            parts,
            f"the {rows} images that a device has of --batch_size={batch_size} cannot be"
            f" divided into this many parts; {', '.join(map(str, fitting))} would do",
        )
    return rows


class Trainee(tf.Module, abc.ABC):
    """What the loop trains. A subclass makes its model, calls `set_up`, and implements `inputs` and
    `losses`.

    Args:
      strategy: where it runs.
      batch_size: examples per step over all replicas.
      numerics: precision, XLA, and the parts of a batch whose gradients are accumulated.

    Attributes:
      metric_names: names of metrics. 'gradient_norm' asks for the norm before clipping.
      rates: the flags of the learning rates, for the advice after divergence.
      follows_length: what beside the learning rates is a function of the length of the run, in
        words; may be empty.
      strategy, batch_size, numerics: as given.
      rows: the images of a replica.
      step: the number of updates so far, int64.
      trained: the variables of the optimizers, one optimizer after the other.
      schedules: name of an optimizer -> its learning rate, if that is not constant.
      loss_scale: of float16; None for other precisions.
      checkpoint: what a run saves.

    Raises:
      ConfigError: if the batch cannot be divided among the replicas, or a replica's images into the
        parts.
    """

    metric_names: Sequence[str] = ("loss",)
    rates: Sequence[str] = ("learning_rate",)
    follows_length = ""

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        batch_size: int,
        numerics: NumericsConfig = NOT_COMPILED,
    ):
        super().__init__()
        self.strategy = strategy
        self.batch_size = batch_size
        self.numerics = numerics
        self.rows = rows_of(strategy, batch_size, numerics)
        self._xla = wants_xla(numerics.xla, strategy)
        with strategy.scope():
            self.loss_scale = LossScale() if numerics.precision == "float16" else None

    def set_up(
        self,
        optimizers: dict[str, tuple[keras.optimizers.Optimizer, Sequence[tf.Variable]]],
        clip_norm: float = 0.0,
        average_decay: float | None = None,
        averaged: Sequence[tf.Variable] | None = None,
        of_whole_batch: str = "",
        **saved: Any,
    ):
        """Creates the variables of training and the checkpoint.

        Args:
          optimizers: name in the checkpoint -> an optimizer and the variables that it trains.
          clip_norm: largest global norm of the gradient; 0: no clipping.
          average_decay: decay of Polyak averages; None: no averages.
          averaged: the variables to average; None: all that are trained.
          of_whole_batch: what `losses` computes from the images of all replicas and parts, e.g.
            "batch norm's statistics"; empty if the loss of a batch is the mean of the losses of its
            parts.
          **saved: name in the checkpoint -> what else it holds.
        """
        self._optimizers = list(optimizers.values())
        self._clip_norm = clip_norm
        self.average = None
        trained = []
        for _, variables in self._optimizers:
            trained += variables
        self.trained = trained
        self._averaged = self.trained if averaged is None else averaged

        # The variables of training.
        with self.strategy.scope():
            for optimizer, variables in self._optimizers:
                optimizer.build(variables)
            if average_decay is not None:
                saved["average"] = self.average = PolyakAverage(self._averaged, average_decay)
            self.step = tf.Variable(
                0, trainable=False, dtype=tf.int64, aggregation=tf.VariableAggregation.NONE
            )
        if self.loss_scale:
            saved["loss_scale"] = self.loss_scale

        # The checkpoint, and the learning rates that are not constant.
        schedules = {}
        for name, (optimizer, _) in optimizers.items():
            saved[name] = optimizer
            rate = optimizer.get_config()["learning_rate"]
            if isinstance(rate, dict):
                schedules[name] = Schedule(**rate["config"])
        self.schedules = schedules
        self.checkpoint = tf.train.Checkpoint(step=self.step, **saved)

        # The gradients.
        if of_whole_batch and self.numerics.accumulate > 1:
            raise ConfigError(
                "accumulate",
                self.numerics.accumulate,
                f"{of_whole_batch} need all images of a step at once, and cannot be computed"
                " part by part; leave it out",
            )
        self.compile_gradients(self._accumulated, exchanges=bool(of_whole_batch))
        if self.exchanges and self._xla:
            logging.warning(
                "--xla: compiles parts of a step, since %s are exchanged between devices",
                of_whole_batch,
            )

    def compile_gradients(self, gradients: Callable, exchanges: bool) -> None:
        """Sets how a step computes its gradients: `gradients(rows, *inputs)`, and whether it
        exchanges values.

        XLA compiles no exchange between replicas: then only what is `compiled` in it is. A TPU
        compiles the whole step.
        """
        self.exchanges = exchanges and self.strategy.num_replicas_in_sync > 1
        self._gradients = gradients if self.exchanges else self.compiled(gradients)

    @property
    def reported(self) -> list[str]:
        """The keys of what `train_step` returns."""
        return [*self.metric_names, *(["loss_scale"] if self.loss_scale else [])]

    def compiled(self, function: Callable) -> Callable:
        """Returns the function, compiled by XLA if this trainee is to be."""
        return native.jit(function) if self._xla else function

    @abc.abstractmethod
    def inputs(self, batch: dict[str, tf.Tensor]) -> tuple[tf.Tensor, ...]:
        """Returns the arguments of `losses` after `rows`, with one row an image; it is not
        compiled.
        """

    @abc.abstractmethod
    def losses(
        self, rows: BatchPosition, *inputs: tf.Tensor
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """Returns the loss to minimize and what `finished` is given, float32, of some of a
        replica's images.

        What is under `KEPT`, {name: float32 or int32}, which a TPU sums, goes to `after_step`
        instead: see there.
        """

    def scaled(self, gradients: list[tf.Tensor]) -> list[tf.Tensor]:
        """Returns what the optimizers get, given gradients that are averaged over the replicas and
        clipped.
        """
        return gradients

    def finished(self, metrics: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns the metrics to report, in replica context, given those of `losses`: means of
        scalars over the parts, sums of others.
        """
        return metrics

    def after_step(self, kept: dict[str, tf.Tensor]) -> None:
        """Changes what no gradient trains, after the optimizers' update; in replica context.

        Args:
          kept: what `losses` returned under `KEPT`: the sums over all parts and replicas. Those of
            some images hold zeros in the rows of the others, see `placed`.
        """

    def gradients(
        self, rows: BatchPosition, *inputs: tf.Tensor
    ) -> tuple[list[tf.Tensor], dict[str, tf.Tensor]]:
        """Returns the gradients of `trained`, times the loss scale, and the metrics of `losses`."""
        with tf.GradientTape() as tape:
            loss, metrics = self.losses(rows, *inputs)
            loss = self.upscaled(loss)
        return (
            tape.gradient(loss, self.trained, unconnected_gradients=tf.UnconnectedGradients.ZERO),
            metrics,
        )

    def upscaled(self, loss: tf.Tensor) -> tf.Tensor:
        """Returns the loss times the loss scale, if there is one."""
        return loss * self.loss_scale.value if self.loss_scale else loss

    def _accumulated(
        self, rows: BatchPosition, *inputs: tf.Tensor
    ) -> tuple[list[tf.Tensor], dict[str, tf.Tensor]]:
        """Returns the mean of `gradients` over the parts, computed one after the other."""
        parts = self.numerics.accumulate
        size = self.rows // self.numerics.accumulate
        if parts == 1:
            return self.gradients(rows, *inputs)
        divided = in_parts(inputs, parts)

        def add(part: tf.Tensor, sums):
            of_part = [values[part] for values in divided]
            of_this = self.gradients(rows._replace(first=rows.first + part * size), *of_part)
            return part + 1, tf.nest.map_structure(tf.add, sums, of_this)

        # The shapes of the metrics without the gradients: those are the variables', and take
        # longest to trace.
        _, specs = specs_of(self.losses, rows, *(values[0] for values in divided))
        of_metrics = tf.nest.map_structure(lambda spec: tf.zeros(spec.shape, spec.dtype), specs)
        zeros = [tf.zeros(v.shape) for v in self.trained], of_metrics
        _, sums = tf.while_loop(
            lambda part, _: part < parts, add, (0, zeros), maximum_iterations=parts
        )
        gradients, metrics = sums
        metrics = tf.nest.map_structure(
            lambda total: total / parts if total.shape.rank == 0 else total, metrics
        )
        return [total / parts for total in gradients], metrics

    def train_step(self, batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Updates the variables by one replica's batch, in replica context; returns its metrics,
        float32 scalars.
        """
        # Several workers' iterators do not know the batch size, but the rest of the step needs
        # static shapes.
        batch = {name: tf.ensure_shape(x, [self.rows, *x.shape[1:]]) for name, x in batch.items()}
        replica = tf.distribute.get_replica_context()
        rows = BatchPosition(
            tf.cast(replica.replica_id_in_sync_group, tf.int32) * self.rows, tf.identity(self.step)
        )
        # Here, since each replica is traced by a thread of its own.
        with native.tracing(compiled=isinstance(self.strategy, tf.distribute.TPUStrategy)):
            gradients, metrics = self._gradients(rows, *self.inputs(batch))
            kept = metrics.pop(KEPT, {})
            metrics = self.finished(metrics)
        # One by one: of a list TensorFlow makes one tensor, which values of several types cannot
        # be.
        names = [*kept]
        sums = [replica.all_reduce(tf.distribute.ReduceOp.SUM, kept[name]) for name in names]
        gradients = replica.all_reduce(tf.distribute.ReduceOp.MEAN, gradients)
        if self.loss_scale:
            gradients = [gradient / self.loss_scale.value for gradient in gradients]
        norm = tf.linalg.global_norm(gradients)
        if self._clip_norm:
            gradients, _ = tf.clip_by_global_norm(gradients, self._clip_norm, norm)
        gradients = self.scaled(gradients)

        def update(*given: tf.Tensor) -> None:
            self._update(given[: len(gradients)])
            self.after_step(dict(zip(names, given[len(gradients) :])))

        if self.loss_scale:
            metrics["loss_scale"] = tf.identity(self.loss_scale.value)
            norm = self.loss_scale.update_if_finite(norm, update, [*gradients, *sums])
        else:
            update(*gradients, *sums)
        if "gradient_norm" in self.metric_names:
            metrics["gradient_norm"] = norm
        self.step.assign_add(1)
        return metrics

    def _update(self, gradients: Sequence[tf.Tensor]) -> None:
        for optimizer, variables in self._optimizers:
            taken = gradients[: len(variables)]
            gradients = gradients[len(variables) :]
            optimizer.apply_gradients(zip(taken, variables), skip_gradients_aggregation=True)
        if self.average is not None:
            self.average.update(self._averaged, self.step)

    @contextlib.contextmanager
    def averaged(self) -> Iterator[None]:
        """Exchanges the model's weights and their averages, if there are any, and exchanges them
        back at the end.
        """
        if self.average is None:
            yield
            return
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    @functools.cached_property
    def _exchange(self) -> Callable[[], None]:
        return tf.function(lambda: self.strategy.run(self._exchange_own), autograph=False)

    def _exchange_own(self) -> None:
        """Exchanges the copies of a replica: no weight is sent to another device or to the host."""
        for variable, average in zip(self._averaged, self.average.averages):
            value = variable.read_value()
            variable.assign(average)
            average.assign(value)


def in_parts(inputs: Sequence[tf.Tensor], parts: int) -> list[tf.Tensor]:
    """Returns each [B, ...] as [parts, B / parts, ...]."""
    return [tf.reshape(x, [parts, x.shape[0] // parts, *x.shape[1:]]) for x in inputs]


def placed(values: tf.Tensor, batch_size: int, first: tf.Tensor | int) -> tf.Tensor:
    """Returns [batch_size, ...]: the values [B, ...] of some images from the row `first` on, and
    zeros elsewhere.
    """
    rows = tf.range(batch_size) - first
    here = tf.reshape((rows >= 0) & (rows < values.shape[0]), [-1, *[1] * (values.shape.rank - 1)])
    picked = tf.gather(values, tf.clip_by_value(rows, 0, values.shape[0] - 1))
    return tf.where(here, picked, tf.zeros_like(picked))


def specs_of(function: Callable, *args: Any) -> Any:
    """Returns shapes and dtypes of what a function of tensors returns, without computing it."""
    outputs = tf.function(function, autograph=False).get_concrete_function(*args).structured_outputs
    return tf.nest.map_structure(lambda x: tf.TensorSpec(x.shape, x.dtype), outputs)
