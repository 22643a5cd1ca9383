"""Which classes are taken for which: the confusion matrix from predictions.csv."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure as Canvas

from cpc_tf.reporting import formats, methods, plots
from cpc_tf.reporting.blocks import Block, Figure, Row, Table
from cpc_tf.reporting.collect import Run

MOST_NAMED = 40  # classes that a figure can name
PAIRS = 8


def blocks(runs: Sequence[Run]) -> list[Block]:
    """The matrices of CPC and of pixels at the largest fraction with predictions, and what is confused most."""
    known = [run for run in runs if run.file("predictions.csv")]
    by_method = methods.by_method(known)
    cpc = methods.main_method(by_method, "cpc")
    if not cpc:
        return []
    at = max(methods.fraction(run) for run in by_method[cpc])
    shown, chosen = {}, {}
    for role in ("cpc", "pixels"):
        method = methods.main_method(by_method, role)
        same = [run for run in by_method.get(method, []) if methods.fraction(run) == at]
        counts = matrix(same)
        if counts is not None:
            shown[method.name], chosen[method.name] = counts, same
    if not shown:
        return []
    names = next((run["class_names"] for same in chosen.values() for run in same if run.get("class_names")), [])
    size = len(next(iter(shown.values())))
    names = names if len(names) == size else [str(i) for i in range(size)]
    return [_figure(shown, names, at), _pairs(shown, names)]


def matrix(runs: Sequence[Run]) -> np.ndarray | None:
    """Counts [true class, predicted class] of the test images, over all runs; None without predictions."""
    total = None
    for run in runs:
        pairs, classes = run.predictions(), run.get("num_classes", 0)
        if not pairs or max(max(pair) for pair in pairs) >= classes:
            continue
        counts = np.zeros([classes, classes], np.int64)
        np.add.at(counts, tuple(np.transpose(pairs)), 1)
        if total is None or total.shape == counts.shape:
            total = counts if total is None else total + counts
    return total


def _shares(counts: np.ndarray) -> np.ndarray:
    return counts / np.maximum(counts.sum(1, keepdims=True), 1)


def _figure(shown: dict[str, np.ndarray], names: Sequence[str], fraction: float) -> Figure:
    few = len(names) <= MOST_NAMED
    short = [name if len(name) <= 16 else f"{name[:15]}…" for name in names]

    def draw(canvas: Canvas, theme: plots.Theme) -> None:
        canvas.set_layout_engine("compressed")  # the axes are square
        all_axes = canvas.subplots(1, len(shown), squeeze=False)[0]
        for axis, (title, counts) in zip(all_axes, shown.items()):
            image = axis.imshow(100 * _shares(counts), vmin=0, vmax=100, cmap=theme.shades())
            axis.set_title(f"{title}, {formats.percent(fraction)} of the labels")
            axis.grid(visible=False)
            size = 8.5 if len(names) <= 20 else 6.5
            places = range(len(names)) if few else []
            axis.set_xticks(places, short if few else [], rotation=90, fontsize=size)
            axis.set_yticks(places, short if few and axis is all_axes[0] else [""] * len(places), fontsize=size)
            axis.set_xlabel("prediction")
            axis.spines[:].set_visible(True)
        all_axes[0].set_ylabel("class")
        bar = canvas.colorbar(image, ax=list(all_axes), shrink=0.6, pad=0.02)
        bar.set_label("% of the class", color=theme.ink)
        bar.outline.set_edgecolor(theme.muted)

    drawn = {"": plots.both(draw, 10 if len(shown) > 1 else 6.5, 5.6)}
    data = [
        {"method": title, "class": names[i], "prediction": names[j], "count": int(counts[i, j])}
        for title, counts in shown.items() for i, j in zip(*np.nonzero(counts))
    ]  # fmt: skip
    right = ", ".join(f"{title}: {100 * np.trace(c) / c.sum():.1f} % on the diagonal" for title, c in shown.items())
    title = "Confusion matrix of the test images, all runs together; each row sums to 100 %."
    return Figure("confusion", title, drawn, f"Confusion matrices. {right}.", data)


def _pairs(shown: dict[str, np.ndarray], names: Sequence[str]) -> Table:
    rows, data = [], []
    for title, counts in shown.items():
        off = counts - np.diag(np.diag(counts))
        share = _shares(counts)
        order = np.argsort(-np.where(off > 0, share, 0), axis=None, kind="stable")[:PAIRS]
        rows.append(Row([title], "group"))
        for i, j in zip(*np.unravel_index(order, counts.shape)):
            if off[i, j]:
                rows.append(Row([names[i], names[j], f"{100 * share[i, j]:.0f} %", str(counts[i, j])]))
                data.append({"method": title, "class": names[i], "prediction": names[j],
                             "share": round(float(share[i, j]), 6), "count": int(counts[i, j])})  # fmt: skip
    columns = ["Class", "Taken for", "Of the class", "Images"]
    return Table("confused", "What is confused most", columns, rows, data, words=(1,))
