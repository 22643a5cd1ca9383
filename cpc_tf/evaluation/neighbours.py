"""Nearest neighbours among features."""

from __future__ import annotations

import numpy as np


def normalized(features: np.ndarray, centre: np.ndarray | None = None) -> np.ndarray:
    """Returns float32 features [N, D] minus their mean (or `centre`, [D]), of length 1: products are cosines."""
    centred = features - (features.mean(0) if centre is None else centre)
    return (centred / (np.linalg.norm(centred, axis=1, keepdims=True) + 1e-12)).astype(np.float32)


def nearest_neighbour_accuracy(features: np.ndarray, labels: np.ndarray, neighbours: int = 10) -> float | None:
    """Top-1 of a leave-one-out vote of neighbours by cosine among features [N, D]; None if one is not finite."""
    if not np.isfinite(features).all():
        return None
    features = normalized(features)
    similarity = features @ features.T
    np.fill_diagonal(similarity, -np.inf)
    nearest = np.argsort(-similarity, axis=1)[:, : min(neighbours, len(labels) - 1)]  # [N, K]
    votes = np.stack([np.bincount(labels[row], minlength=labels.max() + 1) for row in nearest])
    return float(np.mean(votes.argmax(1) == labels))
