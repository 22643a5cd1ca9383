"""predictions.csv: what a classifier said of each picture of its test."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cpc_tf.evaluation import label_kinds
from cpc_tf.evaluation.label_kinds import LabelKind
from cpc_tf.texts import csv_lines


def to_csv(names: Sequence[str], logits: np.ndarray, labels: np.ndarray, kind: LabelKind = label_kinds.ONE) -> str:
    """Returns the table: file, label and prediction (indices of classes), probability of the prediction.

    Several labels a picture are separated by semicolons, `0;3`, and so are their probabilities.

    Args:
      names: of the pictures, [N].
      logits: [N, C]; the probability is not calibrated.
      labels: those of `Source`.
      kind: whether pictures have one label or several.
    """
    rows = ([name, *row] for name, row in zip(names, kind.rows(logits, labels)))
    return csv_lines([["file", "label", "prediction", "probability"], *rows])
