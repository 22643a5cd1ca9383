"""Is this run healthy? Statistics that show collapse early, and what they mean."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from cpc_tf.core import native
from cpc_tf.pretrain.config import PretrainConfig

SAMPLE = 256  # latents


def sample_latents(latents: tf.Tensor, batch_size: int, first: tf.Tensor | int = 0) -> tf.Tensor:
    """Picks evenly spaced latents of a batch, given those of some of its images.

    Args:
      latents: [B, ..., D], float32, of these images; static shape.
      batch_size: the images of the whole batch.
      first: the index of the first of the B images there.

    Returns:
      [N, D] with N at most SAMPLE; zeros where the latent is of another image. So the samples of
      all parts of a batch add up to that of the batch.
    """
    per_image = latents.shape[1:-1].num_elements()  # latents of an image
    every = max(1, batch_size * per_image // SAMPLE)
    picked = tf.range(0, batch_size * per_image, every)[:SAMPLE] - first * per_image  # [N]
    flat = tf.reshape(latents, [-1, latents.shape[-1]])  # [B*..., D]
    here = (picked >= 0) & (picked < flat.shape[0])
    return tf.where(
        here[:, None], tf.gather(flat, tf.clip_by_value(picked, 0, flat.shape[0] - 1)), 0.0
    )


def latent_statistics(sample: tf.Tensor) -> dict[str, tf.Tensor]:
    """Measures how much latents differ from each other.

    Args:
      sample: [N, D], float32.

    Returns:
      'feature_std': root of (mean variance / mean square) over the sample, from 0 (all equal) to 1
      (centred); 'effective_rank': participation ratio (sum e)^2 / sum e^2 of the covariance's
      eigenvalues, 1 to min(N, D).
    """
    centred = sample - tf.reduce_mean(sample, 0, keepdims=True)
    variance = tf.reduce_mean(tf.square(centred))
    square = tf.reduce_mean(tf.square(sample))
    # The Gram matrix has the covariance's non-zero eigenvalues: its trace and squared norm are
    # their sums.
    gram = native.matmul(centred[None], centred[None])[0]
    rank = tf.math.divide_no_nan(tf.square(tf.linalg.trace(gram)), tf.reduce_sum(tf.square(gram)))
    return {"feature_std": tf.sqrt(tf.math.divide_no_nan(variance, square)), "effective_rank": rank}


# Statistic -> (the latents have collapsed if it is below this, what that means).
COLLAPSED = {
    "feature_std": (0.02, "all patches get nearly the same latents"),
    "effective_rank": (1.5, "the latents vary along a single direction"),
}

# Statistic -> where its healthy range begins (docs/reliability.md).
HEALTHY = {"feature_std": 0.3, "effective_rank": 1.5}


def healthy(config: PretrainConfig) -> dict[str, float]:
    """Returns {metric: where its healthy range begins} of a run that has trained for a while.

    The accuracy of CPC is that of finding a patch among all of a group's images; ten times chance
    is healthy.
    """
    if config.objective.objective != "cpc":
        return HEALTHY
    images = config.objective.negative_images or config.training.batch_size
    return {**HEALTHY, "accuracy": 10 / (images * config.geometry.grid**2)}


class Collapse(NamedTuple):
    """A run whose latents collapsed."""

    step: int  # at which that was certain
    quantity: str  # of COLLAPSED
    value: float  # of the quantity at that step

    def __str__(self) -> str:
        least, meaning = COLLAPSED[self.quantity]
        return f"{meaning} ({self.quantity} {self.value:.4g}, below {least})"


class Health:
    """Watches the records of a pre-training run.

    Args:
      patience: how many bad records in a row are a collapse.
    """

    def __init__(self, patience: int = 3):
        self.patience = patience
        self._bad_records = 0
        self._warned = False

    def check(self, step: int, record: dict[str, float]) -> Collapse | None:
        """Takes the next record; returns the collapse, once, when it is certain."""
        bad = next(
            (name for name, (least, _) in COLLAPSED.items() if record.get(name, least) < least),
            None,
        )
        self._bad_records = self._bad_records + 1 if bad else 0
        if not bad or self._bad_records < self.patience or self._warned:
            return None
        self._warned = True
        return Collapse(step, bad, record[bad])

    def warning(self, step: int, record: dict[str, float]) -> str | None:
        """As `check`; returns a warning for the user."""
        collapse = self.check(step, record)
        return (
            collapse
            and f"step {step}: the features look collapsed: {collapse}. See docs/reliability.md"
        )
