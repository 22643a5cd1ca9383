"""Optimizers with plain numbers as arguments, and Polyak averages of what they train."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Union

import tensorflow as tf

from cpc_tf.keras import keras
from cpc_tf.training.schedules import Schedule

Rate = Union[float, Schedule]


def adam(rate: Rate, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-7) -> keras.optimizers.Optimizer:
    """Adam; without other arguments with Keras' constants."""
    return FusedAdam(rate, beta_1=beta1, beta_2=beta2, epsilon=epsilon, jit_compile=False, name="Adam")


def sgd(rate: Rate, momentum: float) -> keras.optimizers.Optimizer:
    """Stochastic gradient descent with momentum."""
    return keras.optimizers.SGD(rate, momentum=momentum, jit_compile=False)


class FusedAdam(keras.optimizers.Adam):
    """Keras' Adam with one operation for a variable in place of twenty; the same answer and checkpoint."""

    def apply_gradients(self, *args, **kwargs):
        self._shared = None
        return super().apply_gradients(*args, **kwargs)

    def update_step(self, gradient: tf.Tensor, variable: tf.Variable) -> None:
        if self._shared is None:  # what all variables share, once a step
            step = tf.cast(self.iterations + 1, tf.float32)
            self._shared = (tf.pow(self.beta_1, step), tf.pow(self.beta_2, step), self.learning_rate)
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


class PolyakAverage(tf.Module):
    """Running averages of variables: average += (1 - decay) * (variable - average).

    The decay ramps up as min(decay, (1 + step) / (10 + step)), so that a short run's average is not its start.

    Create it in the strategy's scope.
    """

    def __init__(self, variables: Sequence[tf.Variable], decay: float):
        super().__init__(name="average")
        self.decay = decay
        # Without an aggregation each replica updates its own copy. They stay equal, since the variables do; with one,
        # every update would be sent to all replicas, which on a TPU costs the variables' size times the replicas.
        self.averages = [tf.Variable(v, trainable=False, aggregation=tf.VariableAggregation.NONE) for v in variables]

    def update(self, variables: Sequence[tf.Variable], step: tf.Tensor) -> None:
        """Takes in the variables after the update of `step` (from 0)."""
        step = tf.cast(step, tf.float32)
        decay = tf.minimum(self.decay, (1.0 + step) / (10.0 + step))
        for average, variable in zip(self.averages, variables):
            average.assign_add((1.0 - decay) * (variable - average))
