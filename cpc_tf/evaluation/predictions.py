"""predictions.csv: what a classifier said of each picture of its test."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cpc_tf.evaluation import label_kinds
from cpc_tf.evaluation.label_kinds import LabelKind
from cpc_tf.texts import csv_lines


def to_csv(
    names: Sequence[str],
    logits: np.ndarray,
    labels: np.ndarray,
    class_names: Sequence[str],
    kind: LabelKind = label_kinds.SINGLE_LABEL,
) -> str:
    """Returns the table: file, its class, the predicted class, probability of the prediction.

    Several labels a picture are separated by semicolons, `cat;dog`, and so are their probabilities.

    Args:
      names: of the pictures, [N].
      logits: [N, C]; the probability is not calibrated.
      labels: those of `Source`.
      class_names: of the labels.
      kind: whether pictures have one label or several.
    """
    rows = ([name, *row] for name, row in zip(names, kind.rows(logits, labels, class_names)))
    return csv_lines([["file", "class", "prediction", "probability"], *rows])
