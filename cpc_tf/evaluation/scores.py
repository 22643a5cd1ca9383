"""Scores of logits, single-label and multi-label, and of probabilities.

Probabilities are calibrated by temperature scaling, after Guo et al. 2017 (arXiv:1706.04599).
"""

from __future__ import annotations

import numpy as np

from cpc_tf.evaluation.counts import effective_count, interval

LEAST_FOR_TOP5 = 6  # classes: of five, every guess is among the best five
_PIECE = 8192  # examples


def guesses(logits: np.ndarray) -> np.ndarray:
    """Returns the predicted class of each row of logits [N, classes], int64 [N]: -1 if they are not
    all finite.

    Of equal logits the first class is predicted. All figures of a result use this rule.
    """
    return np.where(np.isfinite(logits).all(1), logits.argmax(1), -1)


def score(
    logits: np.ndarray, labels: np.ndarray, groups: np.ndarray | None = None, inflation: float = 1.0
) -> dict[str, float]:
    """Scores logits [N, classes] against labels [N]; float64 inside.

    An example whose logits are not all finite is wrong; the loss is not finite, either, and says
    so.

    Args:
      logits, labels: of the test.
      groups: [N]; the interval counts the examples of a group once. None: all are independent.
      inflation: how much larger the variance of the accuracy is than that of a test on as many
        examples.

    Returns:
      top1: accuracy, from 0 to 1.
      top1_low, top1_high: its 95 % interval, see `interval`.
      effective: how many independent examples they are worth, see `effective_count`; only if that
        is fewer.
      top5: part of the examples whose label is among the best five; only of six classes or more.
      right, tested: how many examples are right, and of how many.
      class_mean: mean of the accuracies of the classes that occur.
      largest_class: accuracy of naming always the class that occurs most.
      loss: mean cross-entropy.
    """

    def judged(logits: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns whether an example's logits are finite, the label's rank and its log-probability:
        [N] each.
        """
        logits = logits.astype(np.float64)
        finite = np.isfinite(logits).all(1)
        with np.errstate(invalid="ignore"):
            shifted = logits - logits.max(1, keepdims=True)
            log_probabilities = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
        label_logits = logits[np.arange(len(labels)), labels][:, None]
        # The label's rank among the classes. Of equal logits the first class comes first, as in
        # `guesses`.
        is_before = np.arange(logits.shape[1]) < labels[:, None]
        rank = (logits > label_logits).sum(1) + ((logits == label_logits) & is_before).sum(1)
        return finite, rank, log_probabilities[np.arange(len(labels)), labels]

    parts = [judged(logits[some], labels[some]) for some in pieces(len(labels))]
    finite, rank, log_probability = (np.concatenate(values) for values in zip(*parts))
    right = finite & (rank < 1)
    count = len(labels)
    occur = np.bincount(labels)
    effective = (count if groups is None else effective_count(groups)) / inflation
    low, high = interval(right.mean() * effective, effective)
    return {
        "top1": float(right.mean()),
        "top1_low": low,
        "top1_high": high,
        **({"effective": effective} if effective < count else {}),
        **(
            {"top5": float(np.mean(finite & (rank < 5)))}
            if logits.shape[1] >= LEAST_FOR_TOP5
            else {}
        ),
        "right": int(right.sum()),
        "tested": count,
        "class_mean": float(np.mean(np.bincount(labels, right)[occur > 0] / occur[occur > 0])),
        "largest_class": float(occur.max() / count),
        "loss": float(-log_probability.mean()),
    }


def pieces(count: int) -> list[slice]:
    """Returns slices of so many rows: logits of a million images in float64 do not fit into
    memory.
    """
    return [slice(start, start + _PIECE) for start in range(0, max(count, 1), _PIECE)]


def multi_label_score(logits: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Scores multi-label logits [N, classes] against labels [N, classes] of 0 and 1; float64
    inside.

    An example whose logits are not all finite ranks last; the loss is not finite, either, and says
    so.

    Returns:
      map: mean of the average precision over the classes that some images have and others have not,
        from 0 to 1.
      map_chance: what a random order of the images is expected to have: the frequencies of the
        classes.
      classes_left_out: number of the other classes: any order has all images of such a class first,
        or none.
      micro_f1: F1 of all pairs of image and class together, at a probability of 0.5.
      tested: number of images.
      loss: mean sigmoid cross-entropy over images and classes.
    """
    logits = logits.astype(np.float64)
    relevant = labels > 0.5
    ranked = np.where(np.isfinite(logits).all(1, keepdims=True), logits, -np.inf)
    counted = np.flatnonzero(relevant.any(0) & ~relevant.all(0))
    precisions = [average_precision(ranked[:, number], relevant[:, number]) for number in counted]
    predicted = ranked > 0
    wrong = np.sum(predicted != relevant)
    right = np.sum(predicted & relevant)
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
    """Returns the sum over thresholds of precision times the increase of recall, as scikit-learn
    does.

    Args:
      scores: [N]; equal ones are one threshold.
      relevant: bool [N], at least one true.
    """
    order = np.argsort(-scores, kind="stable")
    scores = scores[order]
    hits = np.cumsum(relevant[order])
    with np.errstate(invalid="ignore"):  # of infinite scores
        # the last of each threshold
        ends = np.append(np.flatnonzero(scores[1:] != scores[:-1]), len(scores) - 1)
    recall = hits[ends] / hits[-1]
    return float(np.sum(np.diff(recall, prepend=0.0) * hits[ends] / (ends + 1)))


def probabilities(logits: np.ndarray, temperature: float = 1.0) -> np.ndarray:
    """Returns the softmax of logits [N, C] divided by a temperature: float64 [N, C]."""
    scaled = logits.astype(np.float64) / temperature
    odds = np.exp(scaled - scaled.max(1, keepdims=True))
    return odds / odds.sum(1, keepdims=True)


def fitted_temperature(logits: np.ndarray, labels: np.ndarray) -> float:
    """Returns the temperature that minimizes the cross-entropy of logits [N, C] against labels [N],
    0.05 to 20.

    It is raised until the mean confidence is at most (right + 1) / (N + 2), Laplace's rule of
    succession. So a classifier that made no error in a few examples is not certain.
    """

    def losses(logits: np.ndarray, labels: np.ndarray, inverse: float) -> np.ndarray:  # [N]
        scaled = logits.astype(np.float64)
        scaled -= scaled.max(1, keepdims=True)
        label_logits = scaled[np.arange(len(labels)), labels]
        return np.log(np.exp(inverse * scaled).sum(1)) - inverse * label_logits

    def loss(inverse: float) -> float:  # convex in the inverse temperature
        return float(
            np.mean(
                np.concatenate([losses(logits[p], labels[p], inverse) for p in pieces(len(labels))])
            )
        )

    def confidence(inverse: float) -> float:  # increases with the inverse temperature
        parts = [probabilities(logits[p], 1 / inverse).max(1) for p in pieces(len(labels))]
        return float(np.mean(np.concatenate(parts)))

    least = 1 / 20.0
    most = 1 / 0.05
    golden = (5**0.5 - 1) / 2
    low = least
    high = most
    for _ in range(60):  # golden section: to 1e-12 of the range
        left = high - golden * (high - low)
        right = low + golden * (high - low)
        low, high = (low, right) if loss(left) < loss(right) else (left, high)
    inverse = (low + high) / 2
    largest = (np.sum(logits.argmax(1) == labels) + 1) / (len(labels) + 2)
    if confidence(inverse) <= largest:
        return 1 / inverse
    low = least
    high = inverse
    for _ in range(60):  # bisection
        middle = (low + high) / 2
        low, high = (low, middle) if confidence(middle) > largest else (middle, high)
    return 1 / low


def expected_calibration_error(shares: np.ndarray, labels: np.ndarray, bins: int = 15) -> float:
    """Returns the mean distance between confidence and accuracy, from 0 to 1 (equation 3 of Guo et
    al.).

    Args:
      shares: probabilities [N, C]; the largest of an example is its confidence.
      labels: [N].
      bins: of equal width between 0 and 1, (low, high]; each counts as many times as it has
        examples.
    """
    confidence = shares.max(1)
    right = shares.argmax(1) == labels
    places = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    gaps = np.bincount(places, confidence, bins) - np.bincount(places, right, bins)
    return float(np.abs(gaps).sum() / len(labels))


def calibration(
    logits: np.ndarray, labels: np.ndarray, held_out: int = 0, temperature: float | None = None
) -> dict[str, float]:
    """Returns 'calibration' of a result.json.

    Args:
      logits, labels: of the test, [N, C] and [N].
      held_out: how many labels the temperature was to be fitted on.
      temperature: that of `fitted_temperature`.

    Returns:
      'held_out' as given, 'temperature' (1 if there is none), whether it is 'fitted', and the
      expected calibration error on the test without it, 'ece_before', and with it, 'ece', on how
      many labels, 'tested'. With it the predictions have the mean probability 'confidence', and
      this part of them is right: 'right'.
    """
    shares = probabilities(logits, temperature or 1.0)
    before, after = (
        expected_calibration_error(each, labels) for each in (probabilities(logits), shares)
    )
    return {
        "confidence": float(shares.max(1).mean()),
        "right": float(np.mean(shares.argmax(1) == labels)),
        "held_out": held_out,
        "temperature": temperature or 1.0,
        "fitted": temperature is not None,
        "ece_before": before,
        "ece": after,
        "tested": len(labels),
    }
