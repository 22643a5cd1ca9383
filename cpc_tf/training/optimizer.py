"""Adam as in appendix A: clipped by global norm, with Polyak averaging."""

from __future__ import annotations

import math
from collections.abc import Sequence

import tensorflow as tf

from cpc_tf.keras import keras
from cpc_tf.training.config import OptimizerConfig


class LearningRate(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up, then constant or a cosine to zero at `train_steps`."""

    def __init__(self, config: OptimizerConfig, train_steps: int):
        super().__init__()
        self.config, self.train_steps = config, train_steps

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        step = tf.cast(step, tf.float32)
        rate = tf.constant(self.config.learning_rate, tf.float32)
        if self.config.schedule == "cosine":
            span = max(1, self.train_steps - self.config.warmup_steps)
            done = tf.clip_by_value((step - self.config.warmup_steps) / span, 0.0, 1.0)
            rate *= 0.5 * (1.0 + tf.cos(math.pi * done))
        if self.config.warmup_steps:
            rate *= tf.minimum(1.0, (step + 1.0) / self.config.warmup_steps)
        return rate

    def get_config(self) -> dict:
        return {"config": self.config, "train_steps": self.train_steps}


def make_optimizer(config: OptimizerConfig, train_steps: int) -> keras.optimizers.Optimizer:
    """Adam with the paper's constants (appendix A) unless set otherwise."""
    return keras.optimizers.Adam(
        LearningRate(config, train_steps),
        beta_1=config.beta1,
        beta_2=config.beta2,
        epsilon=config.epsilon,
        jit_compile=False,
    )


class PolyakAverage(tf.Module):
    """Running averages of variables: average += (1 - decay) * (variable - average).

    The decay ramps up as min(decay, (1 + step) / (10 + step)), so that a short run's average is not its start.

    Create it in the strategy's scope.
    """

    def __init__(self, variables: Sequence[tf.Variable], decay: float):
        super().__init__(name="average")
        self.decay = decay
        self.averages = [
            tf.Variable(v, trainable=False, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA) for v in variables
        ]

    def update(self, variables: Sequence[tf.Variable], step: tf.Tensor) -> None:
        """Takes in the variables after the update of `step` (from 0)."""
        step = tf.cast(step, tf.float32)
        decay = tf.minimum(self.decay, (1.0 + step) / (10.0 + step))
        for average, variable in zip(self.averages, variables):
            average.assign_add((1.0 - decay) * (variable - average))
