"""Which classes are taken for which: the confusion matrix from predictions.csv."""

from __future__ import annotations

import csv
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure as Canvas

from cpc_tf.efficient.label_curve import Curves
from cpc_tf.results import glyphs, plots
from cpc_tf.results.blocks import Block, Figure, Row, Table, percent, spread
from cpc_tf.results.runs import Run

MOST_NAMED = 40  # classes that a figure can name
PAIRS = 8


def blocks(found: Curves) -> list[Block]:
    """The matrix of the pre-trained encoder at the largest fraction with predictions, and what is confused most."""
    for at, point in reversed(found.ours.items()):
        counts, title = matrix(point.runs), f"{point.title}, {percent(at)} of the labels"
        if counts is not None:
            names = point.runs[0].get("class_names", [])
            names = names if len(names) == len(counts) else [str(i) for i in range(len(counts))]
            return [_figure(counts, names, title), _pairs(counts, names)]
    return []


def matrix(runs: Sequence[Run]) -> np.ndarray | None:
    """Counts [true class, predicted class] of the test images, over all runs; None without predictions."""
    classes = runs[0].get("num_classes", 0)
    known = [pairs for run in runs if (pairs := predictions(run)) and max(map(max, pairs)) < classes]
    if not known:
        return None
    counts = np.zeros([classes, classes], np.int64)
    np.add.at(counts, tuple(np.concatenate(known).T), 1)
    return counts


def predictions(run: Run) -> list[tuple[int, int]]:
    """(label, prediction) of each test image, as predictions.csv has them; empty if it does not."""
    try:
        pairs = [(int(row["label"]), int(row["prediction"])) for row in csv.DictReader(run.lines("predictions.csv"))]
    except (KeyError, ValueError, TypeError, csv.Error):
        return []
    return pairs if all(min(pair) >= 0 for pair in pairs) else []


def _shares(counts: np.ndarray) -> np.ndarray:
    return counts / np.maximum(counts.sum(1, keepdims=True), 1)


def _figure(counts: np.ndarray, names: Sequence[str], title: str) -> Figure:
    ticks = range(len(names) if len(names) <= MOST_NAMED else 0)
    drawable = glyphs.drawable(tuple(names), "class")[: len(ticks)]
    short = [name if len(name) <= 16 else f"{name[:15]}…" for name in drawable]

    def draw(canvas: Canvas, theme: plots.Theme) -> None:
        axis = canvas.subplots()
        image = axis.imshow(100 * _shares(counts), vmin=0, vmax=100, cmap=theme.shades)
        axis.set(title=title, xlabel="prediction", ylabel="class")
        axis.grid(visible=False)
        axis.set_xticks(ticks, short, rotation=90, fontsize=7)
        axis.set_yticks(ticks, short, fontsize=7)
        canvas.colorbar(image, shrink=0.6, pad=0.02).set_label("% of the class")

    found = zip(*np.nonzero(counts))
    data = [{"class": names[i], "prediction": names[j], "count": int(counts[i, j])} for i, j in found]
    caption = "Confusion matrix of the test images, all runs together; each row sums to 100 %."
    alt = f"Confusion matrix, {title}: {100 * np.trace(counts) / counts.sum():.1f} % on the diagonal."
    return Figure("confusion", caption, *plots.both(draw, 6.5, 5.6), alt, data)


def _pairs(counts: np.ndarray, names: Sequence[str]) -> Table:
    shares = _shares(counts) * (1 - np.eye(len(names)))
    worst = zip(*np.unravel_index(np.argsort(-shares, axis=None, kind="stable")[:PAIRS], counts.shape))
    rows = [Row([names[i], names[j], spread([shares[i, j]]), int(counts[i, j])]) for i, j in worst if shares[i, j]]
    return Table("confused", "What is confused most", ["Class", "Taken for", "Of the class, %", "Images"], rows)
