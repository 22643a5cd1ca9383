"""Is this run healthy? Statistics that tell collapse and divergence apart early, and what to say about them."""

from __future__ import annotations

import tensorflow as tf


def latent_statistics(latents: tf.Tensor, sample: int = 256) -> dict[str, tf.Tensor]:
    """How much the latents of a batch differ from each other.

    Args:
      latents: [B, R, C, D], float32; static shape.
      sample: how many of them to look at, evenly spaced.

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


class Health:
    """Watches a pre-training run's records.

    Args:
      patience: how many looks in a row must be bad before it speaks.
    """

    def __init__(self, patience: int = 3):
        self.patience = patience
        self._bad_looks, self._told = 0, False

    def look(self, step: int, record: dict[str, float]) -> str | None:
        """A warning for the user, once, if the record and those before it look collapsed."""
        reason = self._collapse(record)
        self._bad_looks = self._bad_looks + 1 if reason else 0
        if reason and self._bad_looks >= self.patience and not self._told:
            self._told = True
            return f"step {step}: the features look collapsed: {reason}. See docs/is_my_loss_normal.md"
        return None

    @staticmethod
    def _collapse(record: dict[str, float]) -> str | None:
        if record["feature_std"] < 0.02:
            return f"all patches get nearly the same latents (feature_std {record['feature_std']:.4f}, below 0.02)"
        if record["effective_rank"] < 1.5:
            return (
                f"the latents vary along a single direction (effective_rank {record['effective_rank']:.2f}, below 1.5)"
            )
        return None
