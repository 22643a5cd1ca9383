"""Which images the best model of a dataset got wrong, and which class it takes for which."""

from __future__ import annotations

import io
import itertools
import os
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure as Canvas
from PIL import Image

from cpc_tf.data import pictures
from cpc_tf.data.pictures import Pictures
from cpc_tf.data.reference import DataRef
from cpc_tf.drawing import plots
from cpc_tf.evaluation.predictions import Predictions
from cpc_tf.report.blocks import Block, FigureBlock, TableBlock, spread
from cpc_tf.report.runs import Run

# images, and px of each
MOST = 12
SIDE = 160
# classes that the axes of a confusion matrix can name, and its cells can count
MOST_NAMED = 40
MOST_COUNTED = 15
PAIRS = 8  # classes in the table of confusions


def surest(run: Run, predictions: Predictions | None) -> list[Block]:
    """Returns the images that a classifier was surest of and got wrong, of those that are still
    in their folder.
    """
    named = DataRef.parse(run["dataset"])
    folder = named.path
    if not named.is_folder or "://" in folder or not _is_sound(run, predictions):
        return []
    if predictions.probabilities is None or not predictions.files:
        return []
    root = os.path.realpath(os.path.expanduser(folder))
    paths = [os.path.realpath(os.path.join(root, file)) for file in predictions.files]
    wrong = np.flatnonzero(predictions.labels != predictions.guesses)
    order = wrong[np.argsort(-predictions.probabilities[wrong], kind="stable")].tolist()
    there = (
        index
        for index in order
        if paths[index].startswith(f"{root}/") and os.path.isfile(paths[index])
    )
    shown = [*itertools.islice(there, MOST)]
    if not shown:
        return []
    files = Pictures([predictions.files[i] for i in shown], [os.fsencode(paths[i]) for i in shown])
    tiles = pictures.thumbnails(files, SIDE, tuple(run["levels"]) if run.get("levels") else None)
    names = run["class_names"]
    captions = [
        (
            (
                f"said {names[predictions.guesses[i]]},"
                f" {100 * predictions.probabilities[i]:.0f}\N{NO-BREAK SPACE}%"
            ),
            f"is {names[predictions.labels[i]]}",
            predictions.files[i],
        )
        for i in shown
    ]
    title = f"Of {len(predictions.labels):,} images {len(wrong):,} were named wrongly"
    title += (
        f"; these are the {len(shown)} that it was surest of." if len(wrong) > len(shown) else "."
    )
    first, *more = map(_png, tiles)
    data = [{**predictions.record(i), "class": names[predictions.labels[i]]} for i in shown]
    alt = "An image that was named wrongly."
    return [
        FigureBlock("mistakes", title, first, alt, data, more, photographs=True, captions=captions)
    ]


def _is_sound(run: Run, predictions: Predictions | None) -> bool:
    """Returns whether there are predictions, all of classes that the run names."""
    return predictions is not None and predictions.pairs.max() < len(run.get("class_names", []))


def _png(tile: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(tile).save(buffer, "PNG")
    return buffer.getvalue()


def confusions(run: Run, predictions: Predictions | None) -> list[Block]:
    """Returns the confusion matrix of a classifier's test; of many classes, whose cells cannot be
    counted, a table of those that it confuses most, too.
    """
    names = run.get("class_names", [])
    if not _is_sound(run, predictions):
        return []
    counts = np.zeros([len(names), len(names)], np.int64)
    np.add.at(counts, tuple(predictions.pairs.T), 1)
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    if len(names) <= MOST_COUNTED:
        return [_matrix(counts, shares, names)]
    wrong = shares * (1 - np.eye(len(names)))
    worst = zip(
        *np.unravel_index(np.argsort(-wrong, axis=None, kind="stable")[:PAIRS], counts.shape)
    )
    rows = [
        {
            "Class": names[i],
            "Taken for": names[j],
            "Of the class, %": spread([wrong[i, j]]),
            "Images": int(counts[i, j]),
        }
        for i, j in worst
        if wrong[i, j]
    ]
    confused = [TableBlock("confused", "What is confused most", rows)] if rows else []
    return [_matrix(counts, shares, names), *confused]


def _matrix(counts: np.ndarray, shares: np.ndarray, names: Sequence[str]) -> FigureBlock:
    named = range(len(names) if len(names) <= MOST_NAMED else 0)
    short = plots.shortened(plots.drawable(tuple(names), "class")[: len(named)])

    def draw(canvas: Canvas, theme: plots.Theme) -> None:
        axis = canvas.subplots()
        image = axis.imshow(100 * shares, vmin=0, vmax=100, cmap=theme.shades)
        axis.set(xlabel="what it said", ylabel="what it is")
        axis.grid(visible=False)
        axis.set_xticks(named, short, rotation=90, fontsize=8)
        axis.set_yticks(named, short, fontsize=8)
        for i, j in zip(*np.nonzero(counts)) if len(names) <= MOST_COUNTED else ():
            ink = theme.named["page" if shares[i, j] > 0.5 else "ink"]
            axis.text(j, i, f"{counts[i, j]:,}", ha="center", va="center", fontsize=8, color=ink)
        canvas.colorbar(image, shrink=0.6, pad=0.02).set_label("% of the class")

    pairs = zip(*np.nonzero(counts))
    data = [
        {"class": names[i], "prediction": names[j], "count": int(counts[i, j])} for i, j in pairs
    ]
    caption = "Confusion matrix: a row for each class, which sums to 100 %."
    alt = f"Confusion matrix: {100 * np.trace(counts) / counts.sum():.1f} % on the diagonal."
    # The fewer classes, the larger the letters: all are shown at one width.
    sizes = {MOST_COUNTED: (4.8, 4.2), 2 * MOST_COUNTED: (5.4, 4.7)}
    inches = next((size for most, size in sizes.items() if len(names) <= most), (6.5, 5.6))
    return FigureBlock("confusion", caption, plots.png(draw, *inches, 200), alt, data)
