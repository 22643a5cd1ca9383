"""predictions.csv in the directory of a run: what its classifier predicted for each test image."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from cpc_tf.core.texts import csv_lines, csv_text
from cpc_tf.evaluation.label_kinds import SINGLE_LABEL, LabelKind

PREDICTIONS = "predictions.csv"


def predictions_csv(
    names: Sequence[str],
    logits: np.ndarray,
    labels: np.ndarray,
    class_names: Sequence[str],
    kind: LabelKind = SINGLE_LABEL,
) -> str:
    """Returns predictions.csv: file, its class, the predicted class, probability of the prediction.

    The classes of a multi-label image are separated by semicolons, `cat;dog`, and so are their
    probabilities.

    Args:
      names: of the images, [N].
      logits: [N, C]; the probability is not calibrated.
      labels: those of `Source`.
      class_names: of the labels.
      kind: whether labels are single or multi-label.
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
        """Returns what is recorded of an image, for JSON."""
        file = {"file": self.files[index]} if self.files else {"image": int(index)}
        classes = {"label": int(self.labels[index]), "prediction": int(self.guesses[index])}
        return {**file, **classes, "probability": float(self.probabilities[index])}


def read_predictions(table: str, class_names: Sequence[str]) -> Predictions | None:
    """Returns what `predictions_csv` wrote of images with one label; None if it is no such
    table.
    """
    numbers = {name: number for number, name in enumerate(class_names)}
    try:
        # a name may have a line break in it
        rows = list(csv.DictReader(io.StringIO(table, newline="")))
        pairs = [[numbers[csv_text(row[name])] for name in ("class", "prediction")] for row in rows]
        pairs = np.array(pairs, np.int64).reshape(-1, 2)
        confidences = [float(row["probability"]) for row in rows if "probability" in row]
    except (KeyError, ValueError, TypeError, OverflowError, AttributeError, csv.Error):
        return None
    if not len(pairs) or pairs.min() < 0:
        return None
    are_sound = len(confidences) == len(pairs) and 0 <= min(confidences) <= max(confidences) <= 1
    files = [csv_text(row.get("file") or "") for row in rows] if "file" in rows[0] else ()
    return Predictions(*pairs.T, np.array(confidences) if are_sound else None, files)
