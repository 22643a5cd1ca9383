"""Applies a function to batches on all replicas of a strategy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from cpc_tf.training.strategy import wants_xla


def on_replicas(function: Callable[..., Any], strategy: tf.distribute.Strategy, xla: str = "off") -> Callable[..., Any]:
    """Returns a function of batches that divides their rows among all replicas.

    A batch is filled up with copies of its last row to the size of the largest so far, so that one program serves the
    last, smaller batch, too. Several processes call it with the same batches; each computes the rows of its own
    replicas and gets all rows.

    Args:
      function: structures of tensors [B, ...] -> a structure of tensors [B, ...]; called in replica context, with
        static shapes.
      strategy: its replicas compute.
      xla: 'auto', 'on' or 'off': whether XLA compiles the function, as --xla.

    Returns:
      The same function of tensors [n, ...], for any n.
    """
    largest, replicas = 0, strategy.num_replicas_in_sync
    if wants_xla(xla, strategy):
        function = tf.function(function, autograph=False, jit_compile=True)

    @tf.function(autograph=False)
    def run(*parts):
        # Not `function` itself: of a compiled tf.function, strategy.run would compile all replicas as one.
        outputs = strategy.run(lambda *rows: function(*rows), parts)
        return tf.nest.map_structure(lambda rows: strategy.gather(rows, axis=0), outputs)

    def apply(*batch):
        nonlocal largest
        count = len(tf.nest.flatten(batch)[0])
        rows = largest = max(largest, -(-count // replicas))  # of a replica

        def divided(values):
            values = tf.convert_to_tensor(values)

            def own(context):
                first = context.replica_id_in_sync_group * rows
                return tf.gather(values, tf.minimum(tf.range(first, first + rows), count - 1))

            return strategy.experimental_distribute_values_from_function(own)

        with tf.device("/cpu:0"):  # each replica gets its own rows alone
            parts = tf.nest.map_structure(divided, batch)
        return tf.nest.map_structure(lambda values: values[:count], run(*parts))

    return apply
