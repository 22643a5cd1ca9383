"""The picture of a linear evaluation: accuracies as bars, and what the encoders find similar."""

from __future__ import annotations

import io

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

RIGHT, WRONG = "#2e8b57", "#c0504d"


def nearest(latents: np.ndarray, query: int, count: int) -> np.ndarray:
    """Indices of the `count` examples whose mean latent is nearest to the query's by cosine.

    Args:
      latents: [N, R, C, D].
    """
    features = latents.mean((1, 2))
    features = features - features.mean(0)
    features = features / (np.linalg.norm(features, axis=1, keepdims=True) + 1e-12)
    similarity = features @ features[query]
    similarity[query] = -np.inf
    return np.argsort(-similarity)[:count]


def draw(
    results: dict[str, dict], latents: dict[str, np.ndarray], images: np.ndarray, labels: np.ndarray, queries: int = 6
) -> bytes:
    """Draws the picture as PNG.

    Args:
      results: title -> result of a linear run.
      latents: title -> [N, R, C, D] of the test images, for the encoders whose neighbours are shown.
      images: uint8 [N, S, S, 3], the test images.
      labels: [N].
      queries: how many test images, each of another class.
    """
    neighbours = 4
    figure = Figure(figsize=(14, 6.2), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[1, 2.2])
    _bars(left.subplots(), results)
    axes = right.subplots(queries, 1 + len(latents) * neighbours, squeeze=False)
    classes = np.unique(labels)
    chosen = [np.flatnonzero(labels == c)[0] for c in classes[:: max(1, len(classes) // queries)][:queries]]
    for row in axes:
        for axis in row:
            axis.set_axis_off()
    for row, query in zip(axes, chosen):
        _tile(row[0], images[query], None)
        for i, features in enumerate(latents.values()):
            for j, found in enumerate(nearest(features, query, neighbours)):
                same = labels[found] == labels[query]
                _tile(row[1 + i * neighbours + j], images[found], RIGHT if same else WRONG)
    axes[0][0].set_title("test image", fontsize=10)
    for i, title in enumerate(latents):
        axes[0][1 + i * neighbours].set_title(f"nearest by {title}", fontsize=10, loc="left")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=100)
    return buffer.getvalue()


def _bars(axis: Axes, results: dict[str, dict]) -> None:
    titles = [*results, "chance"]
    chance = 1 / next(iter(results.values()))["num_classes"]
    values = [100 * result["top1"] for result in results.values()] + [100 * chance]
    bars = axis.bar(titles, values, color=["#1f77b4", "#9aa5b1", "#c9ced6", "#e3e6ea"][: len(titles)])
    axis.bar_label(bars, [f"{value:.1f}" for value in values])
    axis.set_ylim(0, 105)
    axis.set_ylabel("top-1 of a linear classifier, %")
    axis.tick_params(axis="x", labelrotation=20)
    axis.spines[["top", "right"]].set_visible(False)


def _tile(axis: Axes, image: np.ndarray, frame: str | None) -> None:
    axis.imshow(image)
    axis.set_axis_on()
    axis.set(xticks=[], yticks=[])
    for spine in axis.spines.values():
        spine.set(visible=frame is not None, color=frame or "black", linewidth=3)
