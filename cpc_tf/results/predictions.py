"""What a classifier said of test images: predictions.csv of a run, and predictions.png, a sheet of some of them."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure as Canvas

from cpc_tf.data.config import GeometryConfig, ImageConfig
from cpc_tf.data.pipeline import pipeline
from cpc_tf.data.source import Source, restricted
from cpc_tf.evaluation import counts
from cpc_tf.files import write_file
from cpc_tf.results import glyphs, plots
from cpc_tf.results.blocks import Figure
from cpc_tf.results.runs import Run
from cpc_tf.texts import csv_text

FILE, SHEET = "predictions.csv", "predictions.png"
PER_ROW = 8


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


def read(run: Run) -> Predictions | None:
    """Returns the predictions of a run; None if it has none that can be read, as one with several labels an image.

    A file of an earlier version has the indices of classes, its column `label` in place of `class`.
    """
    numbers = {name: number for number, name in enumerate(run.get("class_names", []))}
    try:
        text = run.read(FILE).decode("utf-8", "replace")
        rows = list(csv.DictReader(io.StringIO(text, newline="")))  # a name may have a line break in it
        named = bool(rows) and "class" in rows[0]
        column, number_of = ("class", lambda cell: numbers[csv_text(cell)]) if named else ("label", int)
        pairs = [(number_of(row[column]), number_of(row["prediction"])) for row in rows]
        pairs = np.array(pairs, np.int64).reshape(-1, 2)
        known = [float(row["probability"]) for row in rows if "probability" in row]
    except (KeyError, ValueError, TypeError, OverflowError, AttributeError, csv.Error):
        return None
    if not len(pairs) or pairs.min() < 0 or run.get("several_labels"):
        return None
    probabilities = np.array(known) if len(known) == len(pairs) and 0 <= min(known) <= max(known) <= 1 else None
    return Predictions(
        *pairs.T, probabilities, [csv_text(row.get("file") or "") for row in rows] if "file" in rows[0] else ()
    )


def sample(found: Predictions, count: int = PER_ROW) -> dict[str, np.ndarray]:
    """Returns {title: indices} of `count` images of each kind: right, surely wrong, and unsure."""
    # As the file has them, so that a run and the report choose the same.
    probabilities, right = found.probabilities.round(4), found.labels == found.guesses
    order = np.argsort(-probabilities, kind="stable")
    rights = np.flatnonzero(right)
    chosen = {
        "right": rights[np.unique(np.linspace(0, len(rights) - 1, count).astype(int))] if len(rights) else rights,
        "wrong, the most confident": order[~right[order]][:count],
        "the least confident": order[::-1][:count],
    }
    return {title: indices for title, indices in chosen.items() if len(indices)}


def draw(
    found: Predictions, images: Callable[[np.ndarray], np.ndarray], class_names: Sequence[str], count: int = PER_ROW
) -> bytes:
    """Returns a PNG of some test images with what was predicted, and how surely.

    Args:
      found: the predictions, with probabilities.
      images: indices [n] -> the images, uint8 [n, S, S, 3]; see `images_of`.
      class_names: of the labels.
      count: images of each kind.
    """
    rows = sample(found, count)
    names = plots.shortened(glyphs.drawable(tuple(class_names), "class"))

    def fill(canvas: Canvas, theme: plots.Theme) -> None:
        for panel, (title, indices) in zip(np.atleast_1d(canvas.subfigures(len(rows), 1)), rows.items()):
            panel.suptitle(title, x=0.004, ha="left", fontsize=12, fontweight="bold")
            axes = panel.subplots(1, count)
            for axis in axes[len(indices) :]:
                axis.set_visible(False)
            for axis, index, image in zip(axes, indices, images(indices)):
                label, guess = found.labels[index], found.guesses[index]
                said = f"{names[guess]} {100 * found.probabilities[index]:.0f} %"
                plots.tile(axis, image, said, plots.TRUE if label == guess else plots.MISSED)
                axis.set_xlabel("" if label == guess else f"is {names[label]}", fontsize=9, color=theme.named["ink"])

    return plots.png(fill, 1.7 * count, 2.35 * len(rows), dpi=110)


def write_sheet(workdir: str, source: Source, geometry: GeometryConfig | ImageConfig) -> None:
    """Writes predictions.png beside the predictions.csv of a run; none of images with several labels.

    Args:
      workdir: the directory of the run.
      source: the test split that the predictions are of.
      geometry: how the test cuts its images.
    """
    found = read(Run({"several_labels": source.several_labels, "class_names": source.class_names}, "", workdir))
    if found is not None and found.probabilities is not None:
        with plots.optional(os.path.join(workdir, SHEET)) as path:
            write_file(path, draw(found, images_of(source, geometry), source.class_names))


def images_of(source: Source, geometry: GeometryConfig | ImageConfig) -> Callable[[np.ndarray], np.ndarray]:
    """Returns a function: indices [n] of examples -> their centre crops as a test sees them, uint8 [n, S, S, 3]."""

    def images(indices: np.ndarray) -> np.ndarray:
        order, back = np.unique(indices, return_inverse=True)
        batches = pipeline.plain_images(restricted(source, order), geometry, 64)
        return np.concatenate([batch["image"] for batch in batches.as_numpy_iterator()])[back]

    return images


def figure(run: Run) -> list[Figure]:
    """Returns the sheet of a run with what it shows as data, if the run left one."""
    png, found = run.read(SHEET), read(run)
    if png[1:4] != b"PNG":
        return []
    rows = sample(found) if found and found.probabilities is not None else {}
    data = [{"row": title, **found.record(index)} for title, indices in rows.items() for index in indices]
    right = found and counts.shown(np.mean(found.labels == found.guesses), len(found.labels))
    title = f"Test images ({run.place}) with the predicted class and its probability. Green frame: right; red: wrong."
    alt = f"Test images in rows: {'; '.join(rows) or 'right and wrong'}.{f' Of all: {right}.' if right else ''}"
    return [Figure("predictions", title, png, alt, data)]
