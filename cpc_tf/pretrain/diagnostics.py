"""Is this run healthy? Statistics that show collapse early, and what they mean."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf


def latent_statistics(latents: tf.Tensor, sample: int = 256) -> dict[str, tf.Tensor]:
    """How much the latents of a batch differ from each other.

    Args:
      latents: [B, R, C, D], float32; static shape.
      sample: how many of them are taken, evenly spaced.

    Returns:
      'feature_std': root of (mean variance / mean square) over the sample, 0 (all the same) to 1 (centred);
      'effective_rank': participation ratio (sum e)^2 / sum e^2 of the covariance's eigenvalues, 1 to min(sample, D).
    """
    flat = tf.reshape(latents, [-1, latents.shape[-1]])  # [B*R*C, D]
    flat = flat[:: max(1, flat.shape[0] // sample)][:sample]
    centred = flat - tf.reduce_mean(flat, 0, keepdims=True)
    variance, square = tf.reduce_mean(tf.square(centred)), tf.reduce_mean(tf.square(flat))
    # The Gram matrix has the covariance's non-zero eigenvalues: its trace and squared norm are their sums.
    gram = tf.matmul(centred, centred, transpose_b=True)
    rank = tf.math.divide_no_nan(tf.square(tf.linalg.trace(gram)), tf.reduce_sum(tf.square(gram)))
    return {"feature_std": tf.sqrt(tf.math.divide_no_nan(variance, square)), "effective_rank": rank}


# Quantity -> (below which value the latents collapsed, what that means).
COLLAPSED = {
    "feature_std": (0.02, "all patches get nearly the same latents"),
    "effective_rank": (1.5, "the latents vary along a single direction"),
}


class Collapse(NamedTuple):
    """The latents of a run collapsed.

    Attributes:
      step: at which that was certain.
      quantity: of COLLAPSED, that shows it.
      value: of the quantity then.
    """

    step: int
    quantity: str
    value: float

    def __str__(self) -> str:
        least, meaning = COLLAPSED[self.quantity]
        return f"{meaning} ({self.quantity} {self.value:.4g}, below {least})"


class Health:
    """Watches a pre-training run's records.

    Args:
      patience: how many records in a row must be bad before there is a warning.
    """

    def __init__(self, patience: int = 3):
        self.patience = patience
        self._bad_records, self._warned = 0, False

    def check(self, step: int, record: dict[str, float]) -> Collapse | None:
        """What is wrong, once, if the record and those before it look collapsed."""
        bad = next((name for name, (least, _) in COLLAPSED.items() if record.get(name, least) < least), None)
        self._bad_records = self._bad_records + 1 if bad else 0
        if not bad or self._bad_records < self.patience or self._warned:
            return None
        self._warned = True
        return Collapse(step, bad, record[bad])

    def look(self, step: int, record: dict[str, float]) -> str | None:
        """A warning for the user, once, if the record and those before it look collapsed."""
        found = self.check(step, record)
        return found and f"step {step}: the features look collapsed: {found}. See docs/is_my_loss_normal.md"
