"""The picture of a linear evaluation: accuracies as bars, and what the encoders find similar."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from cpc_tf.evaluation.features import Features
from cpc_tf.results import plots

SHADES = ("cpc", "untrained", "pixels")


class Neighbours(NamedTuple):
    """Test images, uint8 [Q, S, S, 3], and the training images [N, S, S, 3] in which their neighbours are sought."""

    images: np.ndarray
    encoded: Features
    gallery_images: np.ndarray
    gallery: Features

    def nearest(self, query: int, count: int) -> np.ndarray:
        """Indices of the `count` training images whose mean latent is nearest to a test image's by cosine."""
        features, gallery = self.encoded.latents.mean((1, 2)), self.gallery.latents.mean((1, 2))
        centre = gallery.mean(0)
        gallery = gallery - centre
        gallery = gallery / (np.linalg.norm(gallery, axis=1, keepdims=True) + 1e-12)
        return np.argsort(-gallery @ (features[query] - centre))[:count]


def draw(results: dict[str, dict], shown: dict[str, Neighbours], rows: int = 6, count: int = 4) -> bytes:
    """PNG of the results and of `count` neighbours of test images of `rows` classes, by the same titles of encoders."""
    first = next(iter(shown.values()))
    labels = first.encoded.labels
    queries = np.unique(labels, return_index=True)[1]  # the first of each class
    queries = queries[:: max(1, len(queries) // rows)][:rows]

    def fill(canvas: Canvas, theme: plots.Theme) -> None:
        left, right = canvas.subfigures(1, 2, width_ratios=[1, 2.2])
        _bars(left.subplots(), results, theme)
        axes = right.subplots(len(queries), 1 + len(shown) * count, squeeze=False)
        for row, query in zip(axes, queries):
            plots.tile(row[0], first.images[query])
            near = [(n, index) for n in shown.values() for index in n.nearest(query, count)]
            for axis, (neighbours, index) in zip(row[1:], near):
                frame = plots.TRUE if neighbours.gallery.labels[index] == labels[query] else plots.MISSED
                plots.tile(axis, neighbours.gallery_images[index], frame=frame)
        axes[0][0].set_title("test image", fontsize=10, fontweight="normal")
        for axis, title in zip(axes[0][1::count], shown):
            # Wider than its column: the first title alone makes room for all.
            axis.text(0, 1.06, f"nearest training images by {title}", transform=axis.transAxes).set_in_layout(False)

    return plots.png(fill, 14, 6.2, dpi=100)


def _bars(axis: Axes, results: dict[str, dict], theme: plots.Theme) -> None:
    chance = 1 / next(iter(results.values()))["num_classes"]
    values = [*(100 * result["top1"] for result in results.values()), 100 * chance]
    colors = map(theme.color, (*SHADES[: len(results)], "line"))
    axis.bar_label(axis.bar([*results, "chance"], values, color=[*colors]), fmt="%.1f")
    axis.set(ylim=(0, 105), title="top-1 of a linear classifier, %")
    axis.tick_params(axis="x", labelrotation=20)
    axis.grid(visible=False)
