"""Accuracy of logits."""

from __future__ import annotations

import numpy as np


def score(logits: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Top-1, top-5 and mean cross-entropy of logits [N, classes] against labels [N]; float64 inside."""
    logits = logits.astype(np.float64)
    shifted = logits - logits.max(1, keepdims=True)
    log_probabilities = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    own = logits[np.arange(len(labels)), labels][:, None]
    # The label's place among the classes; a tie counts against it, so that constant logits do not look right.
    place = (logits > own).sum(1) + ((logits == own).sum(1) - 1)
    return {
        "top1": float(np.mean(place < 1)),
        "top5": float(np.mean(place < 5)),
        "loss": float(-log_probabilities[np.arange(len(labels)), labels].mean()),
    }
