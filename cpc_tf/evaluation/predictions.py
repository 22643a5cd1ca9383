"""predictions.csv: what a classifier said of each picture of its test."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cpc_tf.evaluation import label_kinds
from cpc_tf.evaluation.label_kinds import LabelKind
from cpc_tf.texts import csv_lines

COLUMNS = ("file", "class", "predicted", "probability")


def to_csv(
    files: Sequence[str],
    logits: np.ndarray,
    labels: np.ndarray,
    class_names: Sequence[str],
    kind: LabelKind = label_kinds.ONE,
) -> str:
    """Returns the table: each picture's file, its class, the predicted one, and the probability of that.

    Several classes of a picture are separated by semicolons, `cat;dog`, and so are their probabilities. With classes
    corrected it is a table for --labels.

    Args:
      files: names of the pictures, [N].
      logits: [N, C]; the probability is not calibrated.
      labels: those of `Source`.
      class_names: [C].
      kind: whether pictures have one label or several.
    """
    rows = ([file, *row] for file, row in zip(files, kind.rows(logits, labels, class_names)))
    return csv_lines([COLUMNS, *rows])
