"""Keys of stateless random numbers: whatever is random is a function of (seed, what for, counters) and nothing else."""

from __future__ import annotations

import tensorflow as tf

# What for. A number each, so that the crop tells nothing about the order or the mirror.
ORDER, SHARDS, WINDOW, CROP, MIRROR, VIEW = range(1, 7)


def key(seed: int, purpose: int, *counters: tf.Tensor | int) -> tf.Tensor:
    """A seed for `tf.random.stateless_*`, int64 [2].

    Args:
      seed: the seed of the run.
      purpose: one of the constants above.
      *counters: int64 scalars, such as the epoch or the example counter.
    """
    value = tf.stack([tf.cast(seed, tf.int64), tf.constant(purpose, tf.int64)])
    for counter in counters:
        value = tf.random.experimental.stateless_fold_in(value, tf.cast(counter, tf.int64))
    return value
