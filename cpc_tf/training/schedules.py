"""Learning rates as functions of the step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from cpc_tf.keras import keras


class Schedule(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up, then constant, a cosine to zero, or a tenth after each of some steps.

    Args:
      rate: the peak.
      warmup_steps: steps of the warm-up.
      cosine_steps: the step at which a cosine reaches zero; 0: no cosine.
      drops: steps from which on the rate is a tenth of what it was.
    """

    def __init__(self, rate: float, warmup_steps: int = 0, cosine_steps: int = 0, drops: Sequence[float] = ()):
        super().__init__()
        self.rate, self.warmup_steps, self.cosine_steps, self.drops = rate, warmup_steps, cosine_steps, list(drops)

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
        return rate

    def __str__(self) -> str:
        """Its shape after the warm-up, as a noun phrase."""
        if self.cosine_steps:
            return f"a cosine that ends at step {self.cosine_steps}"
        return f"drops at step {' and '.join(f'{drop:g}' for drop in self.drops)}" if self.drops else "a constant rate"

    def get_config(self) -> dict[str, Any]:
        """The arguments, as JSON has them, too."""
        return {name: getattr(self, name) for name in ("rate", "warmup_steps", "cosine_steps", "drops")}


def warm_up(rate: float, schedule: str, warmup_steps: int, train_steps: int) -> Schedule:
    """A linear warm-up, then what `schedule` says: 'constant', or 'cosine' to zero at `train_steps`."""
    return Schedule(rate, warmup_steps, cosine_steps=train_steps if schedule == "cosine" else 0)
