"""predictions.csv: what a classifier said of each picture of its test."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

import numpy as np

from cpc_tf.evaluation.calibration import probabilities


def to_csv(names: Sequence[str], logits: np.ndarray, labels: np.ndarray) -> str:
    """Returns the table: file, label and prediction (indices of classes), probability of the prediction.

    Args:
      names: of the pictures, [N].
      logits: [N, C]; the probability is their softmax, not calibrated.
      labels: [N].
    """
    shares, guesses, stream = probabilities(logits).max(1), logits.argmax(1), io.StringIO()
    table = csv.writer(stream, lineterminator="\n")
    table.writerow(["file", "label", "prediction", "probability"])
    table.writerows([name, *pair, f"{share:.4f}"] for name, *pair, share in zip(names, labels, guesses, shares))
    return stream.getvalue()
