"""Dynamic loss scaling (Micikevicius et al. 2018, arXiv:1710.03740): small gradients do not vanish in float16.

The loss is multiplied by the scale before its gradient is computed, and the gradient is divided by it. If a gradient
overflows, the step changes no weight and the scale is halved. After `GROWTH` steps without overflow it is doubled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

FIRST, GROWTH = 2.0**15, 2000  # the values of Keras


class LossScale(tf.Module):
    """The scale, a power of two from 1 on, and the number of steps since it changed. Made in the strategy's scope."""

    def __init__(self):
        super().__init__(name="loss_scale")
        # The replicas' copies stay equal, since all see the same gradients.
        own = {"trainable": False, "aggregation": tf.VariableAggregation.NONE}
        self.value = tf.Variable(FIRST, dtype=tf.float32, **own)
        self.steps = tf.Variable(0, dtype=tf.int32, **own)

    def update_if_finite(
        self, norm: tf.Tensor, update: Callable[..., None], gradients: Sequence[tf.Tensor]
    ) -> tf.Tensor:
        """Calls `update(*gradients)` if the norm of the gradients is finite, and adapts the scale; in replica context.

        Returns:
          The norm to report: 0 for a step that was left out, but the infinite norm itself at a scale of 1, where the
          run has diverged and ends.
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
