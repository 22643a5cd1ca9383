"""predictions.csv: what a classifier said of each picture of its test."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from cpc_tf.evaluation import label_kinds
from cpc_tf.evaluation.label_kinds import LabelKind
from cpc_tf.texts import csv_lines, csv_text

FILE = "predictions.csv"  # in the directory of a run


def to_csv(
    names: Sequence[str],
    logits: np.ndarray,
    labels: np.ndarray,
    class_names: Sequence[str],
    kind: LabelKind = label_kinds.ONE,
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


class Predictions(NamedTuple):
    """A prediction for each test image, in the order of the test split."""

    labels: np.ndarray  # int64 [N], the true classes
    guesses: np.ndarray  # int64 [N], the predicted classes
    probabilities: np.ndarray | None = None  # float64 [N], of the guesses; None: not recorded
    files: Sequence[str] = ()  # names of the images, if recorded

    @property
    def pairs(self) -> np.ndarray:
        """(label, guess) of each image, int64 [N, 2]."""
        return np.stack([self.labels, self.guesses], 1)

    def record(self, index: int) -> dict[str, Any]:
        """Returns what is known of an image."""
        file = {"file": self.files[index]} if self.files else {"image": int(index)}
        found = {"label": int(self.labels[index]), "prediction": int(self.guesses[index])}
        return {**file, **found, "probability": float(self.probabilities[index])}


def from_csv(table: str, class_names: Sequence[str]) -> Predictions | None:
    """Returns what `to_csv` wrote of pictures with one label; None if it is not such a table.

    A table of an earlier version has the indices of classes, its column `label` in place of `class`.
    """
    numbers = {name: number for number, name in enumerate(class_names)}
    try:
        rows = list(csv.DictReader(io.StringIO(table, newline="")))  # a name may have a line break in it
        named = bool(rows) and "class" in rows[0]
        column, number_of = ("class", lambda cell: numbers[csv_text(cell)]) if named else ("label", int)
        pairs = [(number_of(row[column]), number_of(row["prediction"])) for row in rows]
        pairs = np.array(pairs, np.int64).reshape(-1, 2)
        known = [float(row["probability"]) for row in rows if "probability" in row]
    except (KeyError, ValueError, TypeError, OverflowError, AttributeError, csv.Error):
        return None
    if not len(pairs) or pairs.min() < 0:
        return None
    probabilities = np.array(known) if len(known) == len(pairs) and 0 <= min(known) <= max(known) <= 1 else None
    files = [csv_text(row.get("file") or "") for row in rows] if "file" in rows[0] else ()
    return Predictions(*pairs.T, probabilities, files)
