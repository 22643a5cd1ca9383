"""How far probabilities can be trusted: temperature scaling and its error, after Guo et al. 2017 (arXiv:1706.04599)."""

from __future__ import annotations

import numpy as np

from cpc_tf.evaluation.scores import pieces

_COLDEST, _HOTTEST = 0.05, 20.0
_STEPS = 60  # of golden section: to 1e-12 of the range


def probabilities(logits: np.ndarray, temperature: float = 1.0) -> np.ndarray:
    """Returns the softmax of logits [N, C] divided by a temperature: float64 [N, C]."""
    scaled = logits.astype(np.float64) / temperature
    odds = np.exp(scaled - scaled.max(1, keepdims=True))
    return odds / odds.sum(1, keepdims=True)


def fitted_temperature(logits: np.ndarray, labels: np.ndarray) -> float | None:
    """Returns the temperature that minimizes the cross-entropy of logits [N, C] against labels [N], 0.05 to 20.

    None if all predictions are right: then a lower one would always be better, and nothing is known about errors.
    """
    if np.all(logits.argmax(1) == labels):
        return None

    def losses(logits: np.ndarray, labels: np.ndarray, inverse: float) -> np.ndarray:  # [N]
        scaled = logits.astype(np.float64)
        scaled -= scaled.max(1, keepdims=True)
        of_label = scaled[np.arange(len(labels)), labels]
        return np.log(np.exp(inverse * scaled).sum(1)) - inverse * of_label

    def loss(inverse: float) -> float:  # convex in the inverse temperature
        return float(np.mean(np.concatenate([losses(logits[p], labels[p], inverse) for p in pieces(len(labels))])))

    golden, low, high = (5**0.5 - 1) / 2, 1 / _HOTTEST, 1 / _COLDEST
    for _ in range(_STEPS):
        left, right = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, right) if loss(left) < loss(right) else (left, high)
    return 2 / (low + high)


def expected_calibration_error(shares: np.ndarray, labels: np.ndarray, bins: int = 15) -> float:
    """Returns the mean distance between confidence and accuracy, from 0 to 1 (equation 3 of Guo et al.).

    Args:
      shares: probabilities [N, C]; the largest of an example is its confidence.
      labels: [N].
      bins: of equal width between 0 and 1, (low, high]; each counts as many times as it has examples.
    """
    confidence, right = shares.max(1), shares.argmax(1) == labels
    places = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    gaps = np.bincount(places, confidence, bins) - np.bincount(places, right, bins)
    return float(np.abs(gaps).sum() / len(labels))


def measured(
    logits: np.ndarray, labels: np.ndarray, held_out: int = 0, temperature: float | None = None
) -> dict[str, float]:
    """Returns 'calibration' of a result.json.

    Args:
      logits, labels: of the test, [N, C] and [N].
      held_out: how many labels the temperature was to be fitted on.
      temperature: that of `fitted_temperature`.

    Returns:
      'held_out' as given, 'temperature' (1 if there is none), whether it is 'fitted', and the expected calibration
      error on the test without it, 'ece_before', and with it, 'ece', on how many labels, 'tested'.
    """
    used = temperature or 1.0
    before, after = (expected_calibration_error(probabilities(logits, t), labels) for t in (1.0, used))
    return {
        "held_out": held_out,
        "temperature": used,
        "fitted": temperature is not None,
        "ece_before": before,
        "ece": after,
        "tested": len(labels),
    }
