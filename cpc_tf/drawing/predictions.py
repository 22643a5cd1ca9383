"""predictions.png: a sheet of some test images with the predictions of a classifier."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.figure import Figure as Canvas

from cpc_tf.core.files import optional_picture, read_text, write_file
from cpc_tf.data import pipeline
from cpc_tf.data.config import GeometryConfig, ImageConfig
from cpc_tf.data.source import Source, restricted
from cpc_tf.drawing import plots
from cpc_tf.evaluation.predictions import PREDICTIONS, Predictions, read_predictions

SHEET = "predictions.png"
# images of a kind, and beside each other
EACH = 8
PER_ROW = 4


def sample(predictions: Predictions, count: int = EACH) -> dict[str, np.ndarray]:
    """Returns {title: indices} of `count` images of each kind: right, surely wrong, and unsure."""
    # As the file has them, so that a run and the report choose the same.
    probabilities = predictions.probabilities.round(4)
    right = predictions.labels == predictions.guesses
    order = np.argsort(-probabilities, kind="stable")
    rights = np.flatnonzero(right)
    rows = {
        "right": (
            rights[np.unique(np.linspace(0, len(rights) - 1, count).astype(int))]
            if len(rights)
            else rights
        ),
        "wrong, the most confident": order[~right[order]][:count],
        "the least confident": order[::-1][:count],
    }
    return {title: indices for title, indices in rows.items() if len(indices)}


def draw(
    predictions: Predictions,
    images: Callable[[np.ndarray], np.ndarray],
    class_names: Sequence[str],
    count: int = EACH,
) -> bytes:
    """Returns a PNG of some test images with their predictions and probabilities.

    Args:
      predictions: of all test images, with probabilities.
      images: indices [n] -> the images, uint8 [n, S, S, 3]; see `images_of`.
      class_names: of the labels.
      count: images of each kind.
    """
    rows = sample(predictions, count)
    names = plots.shortened(plots.drawable(tuple(class_names), "class"))
    heights = [math.ceil(len(indices) / PER_ROW) for indices in rows.values()]

    def fill(canvas: Canvas, theme: plots.Theme) -> None:
        panels = np.atleast_1d(canvas.subfigures(len(rows), 1, height_ratios=heights))
        for panel, height, (title, indices) in zip(panels, heights, rows.items()):
            panel.suptitle(title, x=0.004, ha="left", fontsize=13, fontweight="bold")
            axes = panel.subplots(height, PER_ROW).ravel()
            for axis in axes[len(indices) :]:
                axis.set_visible(False)
            for axis, index, image in zip(axes, indices, images(indices)):
                label = predictions.labels[index]
                guess = predictions.guesses[index]
                title = f"{names[guess]} {100 * predictions.probabilities[index]:.0f} %"
                plots.tile(axis, image, title, plots.TRUE if label == guess else plots.MISSED)
                axis.set_title(title, fontsize=9.5, fontweight="normal")
                axis.set_xlabel(
                    "" if label == guess else f"is {names[label]}",
                    fontsize=9.5,
                    color=theme.named["ink"],
                )

    return plots.png(fill, 1.8 * PER_ROW, 2.3 * sum(heights) + 0.3 * len(rows), dpi=120)


def write_sheet(workdir: str, source: Source, geometry: GeometryConfig | ImageConfig) -> None:
    """Writes predictions.png beside the predictions.csv of a run; none of multi-label images.

    Args:
      workdir: the directory of the run.
      source: the test split that the predictions are of.
      geometry: how the test cuts its images.
    """
    if source.multi_label:
        return
    with optional_picture(os.path.join(workdir, SHEET)) as path:
        predictions = read_predictions(
            read_text(os.path.join(workdir, PREDICTIONS)), source.class_names
        )
        if predictions is not None and predictions.probabilities is not None:
            write_file(path, draw(predictions, images_of(source, geometry), source.class_names))


def images_of(
    source: Source, geometry: GeometryConfig | ImageConfig
) -> Callable[[np.ndarray], np.ndarray]:
    """Returns a function: indices [n] of examples -> their centre crops as a test sees them, uint8
    [n, S, S, 3].
    """

    def images(indices: np.ndarray) -> np.ndarray:
        order, back = np.unique(indices, return_inverse=True)
        batches = pipeline.plain_images(restricted(source, order), geometry, 64)
        return np.concatenate([batch["image"] for batch in batches.as_numpy_iterator()])[back]

    return images
