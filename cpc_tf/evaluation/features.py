"""Encodes a dataset once, for classifiers that train on features."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from cpc_tf.data import keys
from cpc_tf.settings import ConfigError
from cpc_tf.training.config import TrainingConfig
from cpc_tf.training.progress import Progress


class Features(NamedTuple):
    """Encoded examples."""

    latents: np.ndarray  # [N, R, C, D], float32
    labels: np.ndarray  # [N], int64


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
    """
    latents, labels, progress, done, shown = None, _room([count], np.int64), Progress(count), 0, -1
    for batch in batches:
        take = min(count - done, batch["label"].shape[0])
        encoded = encode(batch[field])[:take].numpy()
        if latents is None:
            latents = _room([count, *encoded.shape[1:]], np.float32)
        latents[done : done + take], labels[done : done + take] = encoded, batch["label"][:take].numpy()
        done += take
        progress.update(done)
        if title and 4 * done // count > shown:
            shown = 4 * done // count
            print(f"{title}: {progress}", flush=True)
        if done == count:
            break
    return Features(latents, labels)


def _room(shape: list[int], dtype: type) -> np.ndarray:
    try:
        return np.empty(shape, dtype)
    except (MemoryError, ValueError) as error:  # ValueError: more than there are addresses
        raise ConfigError(
            f"--cached_views: {shape[0]:,} encoded images do not fit into memory; use fewer views, or 0"
        ) from error


def feature_batches(features: Features, batch_size: int, seed: int, start_step: int = 0) -> tf.data.Dataset:
    """Shuffled batches without end, each example once an epoch; a function of (seed, step): runs resume exactly.

    Returns:
      {'latents': float32 [B, R, C, D], 'label': int64 [B]}, static shapes.
    """
    latents, labels = tf.constant(features.latents), tf.constant(features.labels)
    size = len(features.labels)

    def index(counter: tf.Tensor) -> tf.Tensor:
        key = keys.key(seed, keys.ORDER, counter // size)
        return tf.random.experimental.index_shuffle(counter % size, key, tf.constant(size - 1, tf.int64))

    def gather(indices: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"latents": tf.gather(latents, indices), "label": tf.gather(labels, indices)}

    indices = tf.data.Dataset.range(start_step * batch_size, tf.int64.max).map(index)
    return indices.batch(batch_size, drop_remainder=True).map(gather).prefetch(2)


def cached_batches(
    encode_views: Callable[[], Features], views: int, training: TrainingConfig
) -> Callable[[int, tf.distribute.InputContext], tf.data.Dataset]:
    """`feature_batches` as `loop.train` wants them: (first step, input context) -> batches.

    Args:
      encode_views: gives the features to train on; called when training begins.
      views: the --cached_views that they are made of.

    Raises:
      ConfigError: when called for several replicas.
    """

    def batches(step: int, context: tf.distribute.InputContext) -> tf.data.Dataset:
        if context.num_replicas_in_sync > 1:
            raise ConfigError(f"--cached_views={views}: works on one device; add --strategy=single or --cached_views=0")
        return feature_batches(encode_views(), training.batch_size, training.seed, step)

    return batches
