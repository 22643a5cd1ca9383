"""Applies a function to batches on all replicas of a strategy."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from cpc_tf.data.source import Select
from cpc_tf.native import jit
from cpc_tf.training import cluster
from cpc_tf.training.strategy import wants_xla


def on_replicas(
    function: Callable[..., Any], strategy: tf.distribute.Strategy, rows: int, xla: str = "off", fixed: bool = False
) -> Callable[..., Any]:
    """Returns a function of batches that divides their rows among all replicas.

    A batch is filled up with copies of its last row until each replica has a power of two of rows, so that few programs
    serve all batches; with XLA, on a TPU, of several processes, or if `fixed`, until it has `rows`, so that one does.
    Several processes call it with the same batches; each computes the rows of its own replicas, see `own_images`, and
    gets all rows.

    Args:
      function: structures of tensors [rows, ...] -> a structure of tensors [rows, ...]; called in replica context.
      strategy: its replicas compute.
      rows: of a replica at a time, at most.
      xla: 'auto', 'on' or 'off': whether XLA compiles the function, as --xla.
      fixed: whether the function is always called with `rows`.

    Returns:
      The same function of tensors [n, ...], for any n up to rows * replicas; it raises ValueError if there are more.
    """
    replicas = strategy.num_replicas_in_sync
    if wants_xla(xla, strategy):
        function, fixed = jit(function), True
    # On a TPU each number of rows would compile for minutes; several processes decode by the place in a whole batch.
    fixed = fixed or isinstance(strategy, tf.distribute.TPUStrategy) or own_images(strategy, rows) is not None

    # Of partials TensorFlow knows that each is another function; else it would warn that one is traced time and again.
    run = tf.function(functools.partial(_run, function, strategy), autograph=False)

    def apply(*batch):
        count = len(tf.nest.flatten(batch)[0])
        if count > rows * replicas:
            raise ValueError(f"{count} rows, and the replicas take {rows * replicas} at a time")
        each = rows if fixed else min(rows, 1 << (-(-count // replicas) - 1).bit_length())

        def divided(values):
            values = tf.convert_to_tensor(values)

            def of_replica(context):
                first = context.replica_id_in_sync_group * each
                return tf.gather(values, tf.minimum(tf.range(first, first + each), count - 1))

            return strategy.experimental_distribute_values_from_function(of_replica)

        with tf.device("/cpu:0"):  # so that a replica's device gets the replica's own rows only
            parts = tf.nest.map_structure(divided, batch)
        return tf.nest.map_structure(lambda values: values[:count], run(*parts))

    return apply


def own_images(strategy: tf.distribute.Strategy, rows: int) -> Select:
    """Returns which images this process computes, by their places in all batches, of `rows` a replica; None: all.

    The pixels of the others need not be there: the first process computes the first rows of each batch, and so on.
    """
    processes = len(cluster.addresses(strategy))
    if processes < 2:
        return None
    batch, process = rows * strategy.num_replicas_in_sync, cluster.process(strategy)
    return lambda place: place % batch // (batch // processes) == process


def _run(function: Callable[..., Any], strategy: tf.distribute.Strategy, *parts: Any) -> Any:
    # Not `function` itself: of a compiled tf.function, strategy.run would compile all replicas as one.
    outputs = strategy.run(lambda *rows: function(*rows), parts)
    return tf.nest.map_structure(lambda values: strategy.gather(values, axis=0), outputs)
