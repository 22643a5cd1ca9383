"""Pictures without labels beside those with labels: a stream of their own, also a function of (seed, step)."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from cpc_tf.data.pipeline import pipeline
from cpc_tf.data.source import Source
from cpc_tf.efficient.propagation import method
from cpc_tf.settings import Settings

# Added to the seed, so that order, crops and augmentation are not those of the pictures with labels.
_SEED = 1 << 36


def beside(
    labelled: Callable[..., tf.data.Dataset], source: Source, config: Settings
) -> Callable[..., tf.data.Dataset]:
    """Returns what makes batches of pictures with labels and of others beside them.

    Args:
      labelled: makes batches as `pipeline.batches` does, given `global_batch`, `per_batch`, `seed` and more.
      source: the other pictures; their labels are not read.
      config: of a run with --propagation.
    """
    view, ratio = method(config.propagation).VIEW, config.propagation.unlabelled_ratio

    def batches(*, global_batch: int, per_batch: int, seed: int, **order) -> tf.data.Dataset:
        others = pipeline.batches(
            source,
            view,
            config.images,
            config.augment,
            global_batch=global_batch * ratio,
            per_batch=per_batch * ratio,
            seed=seed + _SEED,
            **order,
        )
        shape = [per_batch, ratio, *view.shape(config.images)]
        others = others.map(lambda batch: {"unlabelled": tf.reshape(batch[view.key], shape)})
        own = labelled(global_batch=global_batch, per_batch=per_batch, seed=seed, **order)
        return tf.data.Dataset.zip((own, others)).map(lambda own, others: {**own, **others})

    return batches
