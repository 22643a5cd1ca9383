"""Optimizers, schedules of their learning rates, Polyak averages of what they train, and the loss
scale of float16.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Union

import tensorflow as tf

from cpc_tf.core.keras import keras


class Schedule(keras.optimizers.schedules.LearningRateSchedule):
    """A linear warm-up, then a constant rate, a cosine to zero, or a tenth of it after each of some
    steps.

    Args:
      rate: the peak.
      warmup_steps: the length of the warm-up.
      cosine_steps: the step at which a cosine reaches zero; 0: no cosine.
      drops: steps from which on the rate is a tenth of what it was.
      factor: a variable that multiplies the rate; not part of the configuration.
    """

    def __init__(
        self,
        rate: float,
        warmup_steps: int = 0,
        cosine_steps: int = 0,
        drops: Sequence[float] = (),
        factor: tf.Variable | None = None,
    ):
        super().__init__()
        self._factor = factor
        self.rate = rate
        self.warmup_steps = warmup_steps
        self.cosine_steps = cosine_steps
        self.drops = list(drops)

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        step = tf.cast(step, tf.float32)
        rate = tf.constant(self.rate, tf.float32)
        if self.cosine_steps:
            span = max(1, self.cosine_steps - self.warmup_steps)
            done = tf.clip_by_value((step - self.warmup_steps) / span, 0.0, 1.0)
            rate *= 0.5 * (1.0 + tf.cos(math.pi * done))
        for drop in self.drops:
            rate *= tf.where(step >= drop, 0.1, 1.0)
        if self.warmup_steps:
            rate *= tf.minimum(1.0, (step + 1.0) / self.warmup_steps)
        return rate if self._factor is None else rate * self._factor

    def __str__(self) -> str:
        """Returns its shape after the warm-up, as a noun phrase."""
        if self.cosine_steps:
            return f"a cosine that ends at step {self.cosine_steps}"
        if self.drops:
            return f"drops at step {' and '.join(f'{drop:g}' for drop in self.drops)}"
        return "a constant rate"

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments as JSON has them."""
        return {
            name: getattr(self, name) for name in ("rate", "warmup_steps", "cosine_steps", "drops")
        }


def warm_up(rate: float, schedule: str, warmup_steps: int, train_steps: int) -> Schedule:
    """Returns a linear warm-up and then the `schedule`: 'constant', or 'cosine' to zero at
    `train_steps`.
    """
    return Schedule(rate, warmup_steps, cosine_steps=train_steps if schedule == "cosine" else 0)


Rate = Union[float, Schedule]


def sgd(rate: Rate, momentum: float) -> keras.optimizers.Optimizer:
    """Stochastic gradient descent with momentum."""
    return keras.optimizers.SGD(rate, momentum=momentum, jit_compile=False)


def adam(rate: Rate, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-7) -> FusedAdam:
    """Adam, by default with the constants of Keras."""
    return FusedAdam(
        rate, beta_1=beta1, beta_2=beta2, epsilon=epsilon, jit_compile=False, name="Adam"
    )


class FusedAdam(keras.optimizers.Adam):
    """Keras' Adam with one operation per variable instead of twenty; same results and
    checkpoints.
    """

    def apply_gradients(self, *args, **kwargs):
        self._shared = None
        return super().apply_gradients(*args, **kwargs)

    def update_step(self, gradient: tf.Tensor, variable: tf.Variable) -> None:
        if self._shared is None:  # computed once a step for all variables
            step = tf.cast(self.iterations + 1, tf.float32)
            self._shared = (
                tf.pow(self.beta_1, step),
                tf.pow(self.beta_2, step),
                self.learning_rate,
            )
        index = self._index_dict[self._var_key(variable)]
        beta1_power, beta2_power, rate = self._shared
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._momentums[index].handle,
            v=self._velocities[index].handle,
            beta1_power=beta1_power,
            beta2_power=beta2_power,
            lr=rate,
            beta1=self.beta_1,
            beta2=self.beta_2,
            epsilon=self.epsilon,
            grad=gradient,
        )

    def forget(self, variables: Iterable[tf.Variable]) -> None:
        """Sets the first moments of variables to zero, since they begin anew; outside of the
        replicas.

        The second ones stay: they say how large gradients are, and the correction of their start is
        that of all.
        """
        for variable in variables:
            momentum = self._momentums[self._index_dict[self._var_key(variable)]]
            momentum.assign(tf.zeros_like(momentum))


class PolyakAverage(tf.Module):
    """Running averages of variables: average += (1 - decay) * (variable - average).

    The decay of a step is min(decay, (1 + step) / (10 + step)), so that in a short run the initial
    values do not dominate. Must be created in the strategy's scope.
    """

    def __init__(self, variables: Sequence[tf.Variable], decay: float):
        super().__init__(name="average")
        self.decay = decay
        # Each replica updates its own copy. The copies stay equal, since the variables do. With an
        # aggregation every update would be sent to all replicas, which on a TPU costs the
        # variables' size times the replicas.
        self.averages = [
            tf.Variable(v, trainable=False, aggregation=tf.VariableAggregation.NONE)
            for v in variables
        ]

    def update(self, variables: Sequence[tf.Variable], step: tf.Tensor) -> None:
        """Adds the variables after the update of `step`, counted from 0, to their averages."""
        step = tf.cast(step, tf.float32)
        decay = tf.minimum(self.decay, (1.0 + step) / (10.0 + step))
        for average, variable in zip(self.averages, variables):
            average.assign_add((1.0 - decay) * (variable - average))


# the values of Keras
FIRST = 2.0**15
GROWTH = 2000


class LossScale(tf.Module):
    """The scale, a power of two from 1 on, and the number of steps since it changed. Made in the
    strategy's scope.
    """

    def __init__(self):
        super().__init__(name="loss_scale")
        # The replicas' copies stay equal, since all see the same gradients.
        options = {"trainable": False, "aggregation": tf.VariableAggregation.NONE}
        self.value = tf.Variable(FIRST, dtype=tf.float32, **options)
        self.steps = tf.Variable(0, dtype=tf.int32, **options)

    def update_if_finite(
        self, norm: tf.Tensor, update: Callable[..., None], gradients: Sequence[tf.Tensor]
    ) -> tf.Tensor:
        """Calls `update(*gradients)` if the norm of the gradients is finite, and adapts the scale;
        in replica context.

        Returns:
          The norm to report: 0 for a step that was left out, but the infinite norm itself at a
            scale of 1, where the run has diverged and ends.
        """
        finite = tf.math.is_finite(norm)

        def choose(strategy: tf.distribute.Strategy, finite, *gradients) -> None:
            def run() -> tf.Tensor:
                strategy.extended.call_for_each_replica(update, args=gradients)
                return tf.constant(True)

            # Not in the replicas, where a branch cannot update variables.
            tf.cond(strategy.experimental_local_results(finite)[0], run, lambda: tf.constant(False))

        tf.distribute.get_replica_context().merge_call(choose, args=(finite, *gradients))
        norm = tf.where(finite | (self.value <= 1.0), norm, 0.0)
        grows = self.steps + 1 >= GROWTH
        grown = tf.where(grows, 2.0 * self.value, self.value)
        steps = tf.where(finite & ~grows, self.steps + 1, 0)
        self.value.assign(tf.where(finite, grown, tf.maximum(1.0, self.value / 2.0)))
        self.steps.assign(steps)
        return norm
