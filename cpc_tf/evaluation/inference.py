"""Applies a function to batches on all replicas of a strategy, and encodes a dataset once, to train
on features.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from cpc_tf.core.native import jit
from cpc_tf.core.progress import Progress
from cpc_tf.core.settings import ConfigError
from cpc_tf.data.source import ORDER, Select, random_key
from cpc_tf.training import cluster
from cpc_tf.training.strategy import wants_xla


def on_replicas(
    function: Callable[..., Any],
    strategy: tf.distribute.Strategy,
    rows: int,
    xla: str = "off",
    fixed: bool = False,
) -> Callable[..., Any]:
    """Returns a function of batches that divides their rows among all replicas.

    A batch is filled up with copies of its last row until each replica has a power of two of rows,
    so that few programs serve all batches; with XLA, on a TPU, of several processes, or if `fixed`,
    until it has `rows`, so that one does. Several processes call it with the same batches; each
    computes the rows of its own replicas, see `own_images`, and gets all rows.

    Args:
      function: structures of tensors [rows, ...] -> a structure of tensors [rows, ...]; called in
        replica context.
      strategy: its replicas compute.
      rows: of a replica at a time, at most.
      xla: 'auto', 'on' or 'off': whether XLA compiles the function, as --xla.
      fixed: whether the function is always called with `rows`.

    Returns:
      The same function of tensors [n, ...], for any n up to rows * replicas; it raises ValueError
      if there are more.
    """
    replicas = strategy.num_replicas_in_sync
    if wants_xla(xla, strategy):
        function = jit(function)
        fixed = True
    # On a TPU each number of rows would compile for minutes; several processes decode by the place
    # in a whole batch.
    fixed = (
        fixed
        or isinstance(strategy, tf.distribute.TPUStrategy)
        or own_images(strategy, rows) is not None
    )

    # Of partials TensorFlow knows that each is another function; else it would warn that one is
    # traced time and again.
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
    """Returns which images this process computes, by their places in all batches, of `rows` a
    replica; None: all.

    The pixels of the others need not be there: the first process computes the first rows of each
    batch, and so on.
    """
    processes = len(cluster.addresses(strategy))
    if processes < 2:
        return None
    batch = rows * strategy.num_replicas_in_sync
    process = cluster.process(strategy)
    return lambda place: place % batch // (batch // processes) == process


def _run(function: Callable[..., Any], strategy: tf.distribute.Strategy, *parts: Any) -> Any:
    # Not `function` itself: of a compiled tf.function, strategy.run would compile all replicas as
    # one.
    outputs = strategy.run(lambda *rows: function(*rows), parts)
    return tf.nest.map_structure(lambda values: strategy.gather(values, axis=0), outputs)


class Features(NamedTuple):
    """Encoded examples."""

    latents: np.ndarray  # [N, R, C, D], float32
    labels: np.ndarray  # int64 [N], or float32 [N, classes] if they are multi-label


def encode_dataset(
    batches: Iterable[dict[str, tf.Tensor]],
    encode: Callable[[tf.Tensor], tf.Tensor],
    count: int,
    title: str = "",
    field: str = "patches",
) -> Features:
    """The first `count` examples of batches of {field, 'label'}, encoded.

    Args:
      encode: patches uint8 [B, R, C, P, P, 3], or whatever the field holds, -> latents [B, R, C,
        D].
      title: begins a line of progress now and then; empty: none.

    Raises:
      ConfigError: there are fewer examples, or they do not fit into memory.
    """
    latents = None
    labels = _room([count], np.int64)
    progress = Progress(count)
    done = 0
    printed = -1
    for batch in batches:
        take = min(count - done, batch["label"].shape[0])
        encoded = encode(batch[field])[:take].numpy()
        if latents is None:
            latents = _room([count, *encoded.shape[1:]], np.float32)
            if len(batch["label"].shape) > 1:
                labels = _room([count, *batch["label"].shape[1:]], np.float32)
        latents[done : done + take], labels[done : done + take] = (
            encoded,
            batch["label"][:take].numpy(),
        )
        done += take
        progress.update(done)
        if title and 4 * done // count > printed:
            printed = 4 * done // count
            print(f"{title}: {progress}", flush=True)
        if done == count:
            return Features(latents, labels)
    raise ConfigError(
        f"{title or 'encoding images'}: the data ended after {done:,} of {count:,} images; a file"
        " of the dataset is shorter than when it was counted: put it back, or prepare the dataset"
        " again"
    )


def _room(shape: list[int], dtype: type) -> np.ndarray:
    try:
        return np.empty(shape, dtype)
    except (MemoryError, ValueError) as error:  # ValueError: more than there are addresses
        raise ConfigError(
            f"--cached_views: {shape[0]:,} encoded images do not fit into memory; use fewer views,"
            " or 0"
        ) from error


def feature_batches(
    features: Features,
    *,
    global_batch: int,
    seed: int,
    start_step: int = 0,
    shard: tuple[int, int] = (0, 1),
    per_batch: int | None = None,
) -> tf.data.Dataset:
    """Returns shuffled batches without end, each example once an epoch; steps and arguments as in
    `pipeline.batches`.

    Returns:
      {'latents': float32 [per_batch, R, C, D], 'label': of the same kind as the features'}, static
      shapes.
    """
    with tf.device("/cpu:0"):  # where tf.data gathers them
        latents = tf.constant(features.latents)
        labels = tf.constant(features.labels)
    (host, hosts), size = shard, len(features.labels)
    rows = global_batch // hosts  # of a step

    def index(row: tf.Tensor) -> tf.Tensor:
        """The index of the example in a row of this host."""
        counter = (start_step + row // rows) * global_batch + host * rows + row % rows
        key = random_key(seed, ORDER, counter // size)
        return tf.random.experimental.index_shuffle(
            counter % size, key, tf.constant(size - 1, tf.int64)
        )

    def gather(indices: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"latents": tf.gather(latents, indices), "label": tf.gather(labels, indices)}

    indices = tf.data.Dataset.range(tf.int64.max // global_batch).map(index)
    return indices.batch(per_batch or rows, drop_remainder=True).map(gather).prefetch(2)
