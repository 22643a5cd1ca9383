"""Encodes a dataset once, for classifiers that train on features."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from cpc_tf.data.source import ORDER, random_key
from cpc_tf.memory import refuse_too_large
from cpc_tf.progress import Progress
from cpc_tf.settings import ConfigError


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
      encode: patches uint8 [B, R, C, P, P, 3], or whatever the field holds, -> latents [B, R, C, D].
      title: begins a line of progress now and then; empty: none.

    Raises:
      ConfigError: there are fewer examples, or they do not fit into memory.
    """
    latents, labels, progress, done, printed = None, _room([count], np.int64), Progress(count), 0, -1
    for batch in batches:
        take = min(count - done, batch["label"].shape[0])
        encoded = encode(batch[field])[:take].numpy()
        if latents is None:
            bytes_ = 4.0 * count * encoded[0].size
            refuse_too_large(
                bytes_, f"{count:,} encoded images", "keeping them", "a smaller --cached_views, or 0, needs less"
            )
            latents = _room([count, *encoded.shape[1:]], np.float32)
            if len(batch["label"].shape) > 1:
                labels = _room([count, *batch["label"].shape[1:]], np.float32)
        latents[done : done + take], labels[done : done + take] = encoded, batch["label"][:take].numpy()
        done += take
        progress.update(done)
        if title and 4 * done // count > printed:
            printed = 4 * done // count
            print(f"{title}: {progress}", flush=True)
        if done == count:
            return Features(latents, labels)
    raise ConfigError(
        f"{title or 'encoding images'}: the data ended after {done:,} of {count:,} images; a file of the dataset is "
        "shorter than when it was counted: put it back, or prepare the dataset again"
    )


def _room(shape: list[int], dtype: type) -> np.ndarray:
    try:
        return np.empty(shape, dtype)
    except (MemoryError, ValueError) as error:  # ValueError: more than there are addresses
        raise ConfigError(
            f"--cached_views: {shape[0]:,} encoded images do not fit into memory; use fewer views, or 0"
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
    """Returns shuffled batches without end, each example once an epoch; steps and arguments as in `pipeline.batches`.

    Returns:
      {'latents': float32 [per_batch, R, C, D], 'label': of the same kind as the features'}, static shapes.
    """
    with tf.device("/cpu:0"):  # where tf.data gathers them
        latents, labels = tf.constant(features.latents), tf.constant(features.labels)
    (host, hosts), size = shard, len(features.labels)
    rows = global_batch // hosts  # of a step

    def index(row: tf.Tensor) -> tf.Tensor:
        """The index of the example in a row of this host."""
        counter = (start_step + row // rows) * global_batch + host * rows + row % rows
        key = random_key(seed, ORDER, counter // size)
        return tf.random.experimental.index_shuffle(counter % size, key, tf.constant(size - 1, tf.int64))

    def gather(indices: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"latents": tf.gather(latents, indices), "label": tf.gather(labels, indices)}

    indices = tf.data.Dataset.range(tf.int64.max // global_batch).map(index)
    return indices.batch(per_batch or rows, drop_remainder=True).map(gather).prefetch(2)
