"""Which classes are taken for which: the confusion matrix from predictions.csv."""

from __future__ import annotations

import csv
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure as Canvas

from cpc_tf.efficient.label_curve import Curves
from cpc_tf.results import plots
from cpc_tf.results.blocks import Block, Figure, Row, Table, percent, spread
from cpc_tf.results.runs import Run

MOST_NAMED = 40  # classes that a figure can name
PAIRS = 8


def blocks(found: Curves) -> list[Block]:
    """The matrices of the two compared methods at the largest fraction with predictions, and what is confused most."""
    for at in reversed(found.ours):
        points = [curve[at] for curve in (found.ours, found.pixels) if at in curve]
        shown = {p.method.title: counts for p in points if (counts := matrix(p.method.runs)) is not None}
        if points[0].method.title in shown and len({counts.shape for counts in shown.values()}) == 1:
            size, names = len(shown[points[0].method.title]), points[0].method.runs[0].get("class_names", [])
            names = names if len(names) == size else [str(i) for i in range(size)]
            pairs = [row for title, counts in shown.items() for row in _pairs(title, counts, names)]
            columns = ["Class", "Taken for", "Of the class, %", "Images"]
            return [_figure(shown, names, percent(at)), Table("confused", "What is confused most", columns, pairs)]
    return []


def matrix(runs: Sequence[Run]) -> np.ndarray | None:
    """Counts [true class, predicted class] of the test images, over all runs; None without predictions."""
    total = None
    for run in runs:
        found, classes = predictions(run), run.get("num_classes", 0)
        if found and max(map(max, found)) < classes and (total is None or len(total) == classes):
            total = np.zeros([classes, classes], np.int64) if total is None else total
            np.add.at(total, tuple(np.transpose(found)), 1)
    return total


def predictions(run: Run) -> list[tuple[int, int]]:
    """(label, prediction) of each test image, as predictions.csv has them; empty if it does not."""
    try:
        pairs = [(int(row["label"]), int(row["prediction"])) for row in csv.DictReader(run.lines("predictions.csv"))]
    except (KeyError, ValueError, TypeError, csv.Error):
        return []
    return pairs if all(min(pair) >= 0 for pair in pairs) else []


def _shares(counts: np.ndarray) -> np.ndarray:
    return counts / np.maximum(counts.sum(1, keepdims=True), 1)


def _figure(shown: dict[str, np.ndarray], names: Sequence[str], part: str) -> Figure:
    ticks = range(len(names) if len(names) <= MOST_NAMED else 0)
    short = [name if len(name) <= 16 else f"{name[:15]}…" for name in names][: len(ticks)]

    def draw(canvas: Canvas, theme: plots.Theme) -> None:
        axes = canvas.subplots(1, len(shown), sharey=True, squeeze=False)[0]
        for axis, (title, counts) in zip(axes, shown.items()):
            image = axis.imshow(100 * _shares(counts), vmin=0, vmax=100, cmap=theme.shades())
            axis.set(title=f"{title}, {part} of the labels", xlabel="prediction")
            axis.grid(visible=False)
            axis.set_xticks(ticks, short, rotation=90, fontsize=7)
            axis.set_yticks(ticks, short, fontsize=7)
        canvas.colorbar(image, ax=list(axes), shrink=0.6, pad=0.02).set_label("% of the class")

    data = [
        {"method": title, "class": names[i], "prediction": names[j], "count": int(counts[i, j])}
        for title, counts in shown.items()
        for i, j in zip(*np.nonzero(counts))
    ]
    right = [f"{title}: {100 * np.trace(c) / c.sum():.1f} % on the diagonal" for title, c in shown.items()]
    title = "Confusion matrix of the test images, a row a class, all runs together; each row sums to 100 %."
    drawn = plots.both(draw, 5 * len(shown), 5)
    return Figure("confusion", title, *drawn, f"Confusion matrices. {', '.join(right)}.", data)


def _pairs(title: str, counts: np.ndarray, names: Sequence[str]) -> list[Row]:
    shares = _shares(counts) * (1 - np.eye(len(names)))
    rows, order = [Row([title], "group")], np.argsort(-shares, axis=None, kind="stable")[:PAIRS]
    for i, j in zip(*np.unravel_index(order, counts.shape)):
        if shares[i, j]:
            rows.append(Row([names[i], names[j], spread([shares[i, j]]), int(counts[i, j])]))
    return rows
