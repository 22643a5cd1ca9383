"""How long the devices wait for data, measured without a step waiting for its measurement."""

from __future__ import annotations

import math
import time

import tensorflow as tf

from cpc_tf.training import agreement

SHOWN = 0.1  # share of the time of a step


def is_measured(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether waiting is measured. On a TPU's hosts, which need not run this program, there is no clock."""
    return not isinstance(strategy, tf.distribute.TPUStrategy)


def timed(dataset: tf.data.Dataset, measured: bool) -> tf.data.Dataset:
    """Returns {'batch': the dataset's element} and, if `measured`, 'ready': the time at which it was ready."""
    return dataset.map(lambda *batch: {"batch": batch, **({"ready": now()} if measured else {})})


def now(after: tf.Tensor | float = 0.0) -> tf.Tensor:
    """Returns the time once the scalar `after` is computed: seconds, float64 scalar."""
    # tf.timestamp is refused with --deterministic.
    return tf.ensure_shape(tf.numpy_function(lambda _: time.monotonic(), [after], tf.float64), [])


def longest(strategy: tf.distribute.Strategy, share: float) -> tuple[float, str]:
    """Returns the largest share of waiting of all processes and, of several, the words that name its process."""
    hosts = agreement.addresses(strategy)
    if not hosts:
        return share, ""
    millionths = round(1e6 * share) if math.isfinite(share) else 0
    shares = agreement.gathered_of_processes(strategy, [millionths])[:, 0]
    return float(shares.max()) / 1e6, f" at {hosts[shares.argmax()]}"
