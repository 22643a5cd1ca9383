"""The picture of a linear evaluation: accuracies as bars, and what the encoders find similar."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from cpc_tf.evaluation.features import Features
from cpc_tf.results import plots


class Neighbours(NamedTuple):
    """Test images, and the training images in which their neighbours are sought.

    Attributes:
      images: uint8 [Q, S, S, 3], of the test images.
      encoded: of the test images.
      gallery_images: uint8 [N, S, S, 3], of the training images.
      gallery: of the training images.
    """

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
    """Draws the picture as PNG.

    Args:
      results: title -> result of a linear run.
      shown: title -> test images with their neighbours by that encoder; the same images for all.
      rows: how many test images, each of another class.
      count: how many neighbours of each.
    """
    first = next(iter(shown.values()))
    labels = first.encoded.labels
    classes = np.unique(labels)
    queries = [np.flatnonzero(labels == c)[0] for c in classes[:: max(1, len(classes) // rows)][:rows]]

    def fill(canvas: Canvas, theme: plots.Theme) -> None:
        left, right = canvas.subfigures(1, 2, width_ratios=[1, 2.2])
        _bars(left.subplots(), results, theme)
        axes = right.subplots(len(queries), 1 + len(shown) * count, squeeze=False)
        for row, query in zip(axes, queries):
            _tile(row[0], first.images[query], None)
            for i, neighbours in enumerate(shown.values()):
                for j, found in enumerate(neighbours.nearest(query, count)):
                    frame = plots.TRUE if neighbours.gallery.labels[found] == labels[query] else plots.MISSED
                    _tile(row[1 + i * count + j], neighbours.gallery_images[found], frame)
        axes[0][0].set_title("test image", fontsize=10, fontweight="normal")
        for i, title in enumerate(shown):
            axis = axes[0][1 + i * count]
            above = axis.text(0, 1.06, f"nearest training images by {title}", transform=axis.transAxes)
            above.set_in_layout(False)  # it is wider than its column

    return plots.png(fill, 14, 6.2, dpi=100)


def _bars(axis: Axes, results: dict[str, dict], theme: plots.Theme) -> None:
    chance = 1 / next(iter(results.values()))["num_classes"]
    values = [*(100 * result["top1"] for result in results.values()), 100 * chance]
    colors = [theme.color(kind) for kind in ("cpc", "untrained", "pixels")][: len(results)]
    bars = axis.bar([*results, "chance"], values, color=[*colors, theme.grid])
    axis.bar_label(bars, [f"{value:.1f}" for value in values])
    axis.set_ylim(0, 105)
    axis.set_title("top-1 of a linear classifier, %")
    axis.tick_params(axis="x", labelrotation=20)
    axis.grid(visible=False)


def _tile(axis: Axes, image: np.ndarray, frame: str | None) -> None:
    axis.imshow(image)
    axis.set(xticks=[], yticks=[])
    axis.grid(visible=False)
    for spine in axis.spines.values():
        spine.set(visible=frame is not None, color=frame or "black", linewidth=3)
