"""Scores of classifiers whose pictures have several labels each: mean average precision and micro-F1."""

from __future__ import annotations

import numpy as np


def score(logits: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Scores logits [N, classes] against labels [N, classes] of 0 and 1; float64 inside.

    An example whose logits are not all finite ranks last; the loss is not finite, either, and says so.

    Returns:
      map: mean of the average precision over the classes with positives, from 0 to 1.
      map_chance: what a random order of the pictures is expected to have.
      classes_left_out: number of classes without positives, of which there is no average precision.
      micro_f1: F1 of all pairs of picture and class together, at a probability of 0.5.
      tested: number of pictures.
      loss: mean sigmoid cross-entropy over pictures and classes.
    """
    logits, relevant = logits.astype(np.float64), labels > 0.5
    ranked = np.where(np.isfinite(logits).all(1, keepdims=True), logits, -np.inf)
    counted = np.flatnonzero(relevant.any(0))
    precisions = [average_precision(ranked[:, number], relevant[:, number]) for number in counted]
    found = ranked > 0
    wrong, right = np.sum(found != relevant), np.sum(found & relevant)
    with np.errstate(invalid="ignore"):
        losses = np.maximum(logits, 0) - logits * labels + np.log1p(np.exp(-np.abs(logits)))
    return {
        "map": float(np.mean(precisions)) if precisions else 0.0,
        "map_chance": float(relevant[:, counted].mean()) if precisions else 0.0,
        "classes_left_out": relevant.shape[1] - len(counted),
        "micro_f1": float(2 * right / max(2 * right + wrong, 1)),
        "tested": len(labels),
        "loss": float(losses.mean()),
    }


def average_precision(scores: np.ndarray, relevant: np.ndarray) -> float:
    """Returns the sum over thresholds of precision times the increase of recall, as scikit-learn does.

    Args:
      scores: [N]; equal ones are one threshold.
      relevant: bool [N], at least one true.
    """
    order = np.argsort(-scores, kind="stable")
    scores, found = scores[order], np.cumsum(relevant[order])
    with np.errstate(invalid="ignore"):  # of infinite scores
        ends = np.append(np.flatnonzero(scores[1:] != scores[:-1]), len(scores) - 1)  # the last of each threshold
    recall = found[ends] / found[-1]
    return float(np.sum(np.diff(recall, prepend=0.0) * found[ends] / (ends + 1)))
