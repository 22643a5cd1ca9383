"""linear.png: accuracies as bars, and the training images that the encoders place nearest to some
test images.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import tensorflow as tf

from cpc_tf.augment.operations import Policy
from cpc_tf.data import catalog, pipeline
from cpc_tf.data.config import GeometryConfig
from cpc_tf.data.pipeline import fetching
from cpc_tf.data.source import Source
from cpc_tf.encoders.load import GridEncoder
from cpc_tf.evaluation import label_kinds
from cpc_tf.evaluation.inference import encode_dataset, on_replicas
from cpc_tf.evaluation.neighbours import normalized

if TYPE_CHECKING:  # only `draw` needs Matplotlib
    from matplotlib.figure import Figure

    from cpc_tf.drawing import plots

TRAINING_IMAGES = 1000
TEST_IMAGES = 400


class Neighbours(NamedTuple):
    """Some test images, and training images among which their neighbours are."""

    images: np.ndarray  # uint8 [Q, S, S, 3]
    labels: np.ndarray  # int64 [Q], or float32 [Q, classes] if they are multi-label
    gallery: np.ndarray  # uint8 [N, S, S, 3]
    gallery_labels: np.ndarray  # int64 [N], or float32 [N, classes]
    order: np.ndarray  # int64 [Q, N], indices into the gallery, the nearest first
    features: np.ndarray  # float32 [Q, D], mean latents of the test images


def neighbours(
    encode: GridEncoder,
    strategy: tf.distribute.Strategy,
    rows: int,
    geometry: GeometryConfig,
    policy: Policy,
    data: catalog.Pair,
) -> Neighbours:
    """Finds the neighbours of evenly spaced images by cosine similarity of the mean latents of an
    encoder.

    The encoder sees the images as the classifier's test shows them after training with `policy`.

    Args:
      encode: the encoder.
      strategy: its replicas encode; several processes call this together.
      rows: images of a replica at a time.
      geometry: how images are cut into patches.
      policy: of the training.
      data: what the classifier learned from and was tested on.
    """

    def encode_means(patches: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(encode(patches), [1, 2])  # [B, D]

    means = on_replicas(encode_means, strategy, rows)

    def encoded(source: Source, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        every = max(1, source.num_examples // most)
        images = pipeline.plain_images(source, geometry, 256, every=every)
        batch = rows * strategy.num_replicas_in_sync
        patches = pipeline.plain_patches(source, geometry, batch, every=every, policy=policy)
        with fetching(source):
            pixels = np.concatenate([batch["image"] for batch in images.as_numpy_iterator()])
            features = encode_dataset(patches, means, math.ceil(source.num_examples / every))
        return pixels, features.labels, features.latents

    images, labels, features = encoded(data.test_source, TEST_IMAGES)
    gallery, gallery_labels, others = encoded(data.source, TRAINING_IMAGES)
    centre = others.mean(0)
    order = np.argsort(-normalized(features, centre) @ normalized(others, centre).T)
    return Neighbours(images, labels, gallery, gallery_labels, order, features)


def draw(
    results: Mapping[str, dict],
    neighbours_of: Mapping[str, Neighbours],
    class_names: Sequence[str],
    rows: int = 6,
    count: int = 4,
) -> bytes:
    """Returns a PNG of the accuracies, and of `rows` test images of different classes with `count`
    neighbours each.

    Args:
      results: {title of an encoder: its result.json}.
      neighbours_of: {title of an encoder: its neighbours}.
    """
    from cpc_tf.drawing import plots

    first = next(iter(neighbours_of.values()))
    # The first of each class, or set of classes.
    _, queries = np.unique(first.labels, axis=0, return_index=True)
    queries = queries[:: max(1, len(queries) // rows)][:rows]
    names = plots.shortened(plots.drawable(tuple(class_names), "class"))

    def fill(canvas: Figure, theme: plots.Theme) -> None:
        left, right = canvas.subfigures(1, 2, width_ratios=[1, 3])

        # The accuracies.
        result = next(iter(results.values()))
        kind = label_kinds.of_result(result)
        chance = result.get("map_chance", 1 / result["num_classes"])
        values = [*(100 * result[kind.main] for result in results.values()), 100 * chance]
        colors = [theme.color(result["identity"]["trained_by"]) for result in results.values()]
        bars = left.subplots()
        colors.append(theme.color("chance"))
        bars.bar_label(bars.bar([*results, "chance"], values, color=colors), fmt="%.1f")
        bars.set(
            ylim=(0, 105),
            title=f"{kind.score_names[kind.main]} on test images, linear classifier, %",
        )
        bars.tick_params(axis="x", labelrotation=20)
        bars.grid(visible=False)

        # The test images, each with its neighbours.
        axes = right.subplots(len(queries), 1 + len(neighbours_of) * count, squeeze=False)
        for row, query in zip(axes, queries):
            truth = first.labels[query]
            plots.tile(row[0], first.images[query])
            row[0].set_xlabel(_class_text(names, truth), fontsize=10, fontweight="bold", labelpad=3)
            near = []
            for each in neighbours_of.values():
                near += [(each, index) for index in each.order[query, :count]]
            for axis, (each, index) in zip(row[1:], near):
                label = each.gallery_labels[index]
                frame = plots.TRUE if _are_alike(label, truth) else plots.MISSED
                plots.tile(axis, each.gallery[index], frame=frame)
                axis.set_xlabel(_class_text(names, label), fontsize=10, labelpad=3)
        axes[0][0].set_title("test image", fontsize=11, fontweight="bold")
        for axis, title in zip(axes[0][1::count], neighbours_of):
            # Wider than its column: the first title alone makes room for all.
            style = {"fontsize": 11, "fontweight": "bold", "transform": axis.transAxes}
            axis.text(0, 1.06, f"nearest training images by {title}", **style).set_in_layout(False)

    return plots.png(fill, 17, 1.5 * len(queries) + 0.5, dpi=100)


def _are_alike(label: np.ndarray, other: np.ndarray) -> bool:
    """Returns whether two labels are the same; if they are multi-label, whether they have a class
    in common.
    """
    if label.ndim == 0:
        return label == other
    return np.any(label * other > 0) or not np.any(label + other)


def _class_text(names: Sequence[str], label: np.ndarray) -> str:
    """Returns the name of a class, or of each of a multi-label image."""
    if label.ndim == 0:
        return names[label]
    return ", ".join(names[i] for i in np.flatnonzero(label)) or "no label"
