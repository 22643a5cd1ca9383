"""Accuracy of logits."""

from __future__ import annotations

import numpy as np

_PIECE = 8192  # examples


def score(logits: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Top-1, top-5 and mean cross-entropy of logits [N, classes] against labels [N]; float64 inside.

    An example whose logits are not all finite is wrong; the loss is not finite, either, and says so.
    """
    found = [_scored(logits[some], labels[some]) for some in pieces(len(labels))]
    finite, rank, own = (np.concatenate(values) for values in zip(*found))
    return {
        "top1": float(np.mean(finite & (rank < 1))),
        "top5": float(np.mean(finite & (rank < 5))),
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
