"""Which classes are taken for which: the confusion matrix from predictions.csv."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure as Canvas

from cpc_tf.efficient.label_curve import Curves
from cpc_tf.results import plots
from cpc_tf.results.blocks import Block, Figure, Row, Table
from cpc_tf.results.runs import Run
from cpc_tf.results.values import percent

MOST_NAMED = 40  # classes that a figure can name
PAIRS = 8


def blocks(found: Curves) -> list[Block]:
    """The matrices of the two compared methods at the largest fraction with predictions, and what is confused most."""
    for at, ours in reversed(found.ours.items()):
        methods = [curve[at].method for curve in (found.ours, found.pixels) if at in curve]
        shown = {m.title: counts for m in methods if (counts := matrix(m.runs)) is not None}
        if ours.method.title in shown and len({counts.shape for counts in shown.values()}) == 1:
            size, names = len(shown[ours.method.title]), ours.method.runs[0].get("class_names", [])
            names = names if len(names) == size else [str(i) for i in range(size)]
            return [_figure(shown, names, f"{percent(at)} of the labels"), _pairs(shown, names)]
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


def _figure(shown: Mapping[str, np.ndarray], names: Sequence[str], part: str) -> Figure:
    ticks = range(len(names)) if len(names) <= MOST_NAMED else []
    short = [name if len(name) <= 16 else f"{name[:15]}…" for name in names][: len(ticks)]

    def draw(canvas: Canvas, theme: plots.Theme) -> None:
        canvas.set_layout_engine("compressed")  # the axes are square
        all_axes = canvas.subplots(1, len(shown), squeeze=False)[0]
        size = 8.5 if len(names) <= 20 else 6.5
        for axis, (title, counts) in zip(all_axes, shown.items()):
            image = axis.imshow(100 * _shares(counts), vmin=0, vmax=100, cmap=theme.shades())
            axis.set(title=f"{title}, {part}", xlabel="prediction", ylabel="class" * (axis is all_axes[0]))
            axis.grid(visible=False)
            axis.set_xticks(ticks, short, rotation=90, fontsize=size)
            axis.set_yticks(ticks, short if axis is all_axes[0] else [""] * len(ticks), fontsize=size)
            axis.spines[:].set_visible(True)
        canvas.colorbar(image, ax=list(all_axes), shrink=0.6, pad=0.02).set_label("% of the class")

    data = [
        {"method": title, "class": names[i], "prediction": names[j], "count": int(counts[i, j])}
        for title, counts in shown.items()
        for i, j in zip(*np.nonzero(counts))
    ]
    right = [f"{title}: {100 * np.trace(c) / c.sum():.1f} % on the diagonal" for title, c in shown.items()]
    title = "Confusion matrix of the test images, all runs together; each row sums to 100 %."
    drawn = plots.both(draw, 10 if len(shown) > 1 else 6.5, 5.6)
    return Figure("confusion", title, {"": drawn}, f"Confusion matrices. {', '.join(right)}.", data)


def _pairs(shown: Mapping[str, np.ndarray], names: Sequence[str]) -> Table:
    rows = []
    for title, counts in shown.items():
        shares = _shares(counts) * (1 - np.eye(len(names)))
        rows.append(Row([title], "group"))
        for i, j in zip(*np.unravel_index(np.argsort(-shares, axis=None, kind="stable")[:PAIRS], counts.shape)):
            if shares[i, j]:
                rows.append(Row([names[i], names[j], f"{100 * shares[i, j]:.0f} %", int(counts[i, j])]))
    columns = ["Class", "Taken for", "Of the class", "Images"]
    return Table("confused", "What is confused most", columns, rows, words=(1,))
