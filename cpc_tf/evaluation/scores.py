"""Accuracy of logits, with what it takes to judge it."""

from __future__ import annotations

import numpy as np

from cpc_tf.evaluation.counts import interval

LEAST_FOR_TOP5 = 6  # classes: of five, every guess is among the best five
_PIECE = 8192  # examples


def score(logits: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Scores logits [N, classes] against labels [N]; float64 inside.

    An example whose logits are not all finite is wrong; the loss is not finite, either, and says so.

    Returns:
      top1: accuracy, from 0 to 1.
      top1_low, top1_high: its 95 % interval, see `interval`.
      top5: part of the examples whose label is among the best five; only of six classes or more.
      right, tested: how many examples are right, and of how many.
      class_mean: mean of the accuracies of the classes that occur.
      largest_class: accuracy of naming always the class that occurs most.
      loss: mean cross-entropy.
    """
    found = [_scored(logits[some], labels[some]) for some in pieces(len(labels))]
    finite, rank, own = (np.concatenate(values) for values in zip(*found))
    right, count, occur = finite & (rank < 1), len(labels), np.bincount(labels)
    low, high = interval(int(right.sum()), count)
    return {
        "top1": float(right.mean()),
        "top1_low": low,
        "top1_high": high,
        **({"top5": float(np.mean(finite & (rank < 5)))} if logits.shape[1] >= LEAST_FOR_TOP5 else {}),
        "right": int(right.sum()),
        "tested": count,
        "class_mean": float(np.mean(np.bincount(labels, right)[occur > 0] / occur[occur > 0])),
        "largest_class": float(occur.max() / count),
        "loss": float(-own.mean()),
    }


def pieces(count: int) -> list[slice]:
    """Returns slices of so many rows: logits of a million pictures in float64 do not fit into memory."""
    return [slice(start, start + _PIECE) for start in range(0, max(count, 1), _PIECE)]


def _scored(logits, labels):
    """Returns whether an example's logits are finite, the label's rank and its logarithmic probability: [N] each."""
    logits = logits.astype(np.float64)
    finite = np.isfinite(logits).all(1)
    with np.errstate(invalid="ignore"):
        shifted = logits - logits.max(1, keepdims=True)
        log_probabilities = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    own = logits[np.arange(len(labels)), labels][:, None]
    # The label's rank among the classes; a tie counts against it, so that constant logits do not look right.
    rank = (logits > own).sum(1) + ((logits == own).sum(1) - 1)
    return finite, rank, log_probabilities[np.arange(len(labels)), labels]
