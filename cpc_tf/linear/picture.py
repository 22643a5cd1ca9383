"""linear.png: accuracies as bars, and the training images that the encoders place nearest to some test images."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cpc_tf.data import catalog
from cpc_tf.data.config import GeometryConfig
from cpc_tf.data.pipeline import pipeline
from cpc_tf.data.pipeline.fetch import fetching
from cpc_tf.data.sources.source import Source
from cpc_tf.encoders.load import load_patch_encoder
from cpc_tf.evaluation.features import Features, encode_dataset
from cpc_tf.results import glyphs, plots

TRAINING_IMAGES, TEST_IMAGES = 1000, 200


class Neighbours(NamedTuple):
    """Test images, uint8 [Q, S, S, 3], and the training images [N, S, S, 3] among which their neighbours are."""

    images: np.ndarray
    encoded: Features
    gallery_images: np.ndarray
    gallery: Features

    def nearest(self, query: int, count: int) -> np.ndarray:
        """Returns the indices of the `count` training images whose mean latent is nearest by cosine similarity."""
        features, gallery = self.encoded.latents.mean((1, 2)), self.gallery.latents.mean((1, 2))
        centre = gallery.mean(0)
        gallery = gallery - centre
        gallery = gallery / (np.linalg.norm(gallery, axis=1, keepdims=True) + 1e-12)
        return np.argsort(-gallery @ (features[query] - centre))[:count]


def neighbours(encoder: str, seed: int, geometry: GeometryConfig, data: catalog.Pair) -> Neighbours:
    """Encodes evenly spaced images of both splits by an --encoder."""
    encode = load_patch_encoder(encoder, seed, geometry.patch_size).patch_latents

    def encoded(source: Source, most: int) -> tuple[np.ndarray, Features]:
        every = max(1, source.num_examples // most)
        images = pipeline.plain_images(source, geometry, 256, every=every)
        patches = pipeline.plain_patches(source, geometry, 64, every=every)
        count = math.ceil(source.num_examples / every)
        with fetching(source):
            pixels = np.concatenate([batch["image"] for batch in images.as_numpy_iterator()])
            return pixels, encode_dataset(patches, encode, count)

    return Neighbours(*encoded(data.test_source, TEST_IMAGES), *encoded(data.source, TRAINING_IMAGES))


def draw(
    results: Mapping[str, dict],
    shown: Mapping[str, Neighbours],
    class_names: Sequence[str],
    rows: int = 6,
    count: int = 4,
) -> bytes:
    """Draws the accuracies, and neighbours of test images, as PNG.

    Args:
      results: title of an encoder -> its result.json.
      shown: title of an encoder -> its neighbours.
      class_names: by label.
      rows: number of test images, each of another class.
      count: number of neighbours of each.
    """
    first = next(iter(shown.values()))
    labels = first.encoded.labels
    queries = np.unique(labels, return_index=True)[1]  # the first of each class
    queries = queries[:: max(1, len(queries) // rows)][:rows]
    named = plots.shortened(glyphs.drawable(tuple(class_names), "class"))

    def fill(canvas: Figure, theme: plots.Theme) -> None:
        left, right = canvas.subfigures(1, 2, width_ratios=[1, 2.2])
        _bars(left.subplots(), results, theme)
        axes = right.subplots(len(queries), 1 + len(shown) * count, squeeze=False)
        for row, query in zip(axes, queries):
            plots.tile(row[0], first.images[query])
            row[0].set_ylabel(named[labels[query]], rotation=0, ha="right", va="center", fontsize=9)
            near = [(own, index) for own in shown.values() for index in own.nearest(query, count)]
            for axis, (own, index) in zip(row[1:], near):
                label = own.gallery.labels[index]
                plots.tile(
                    axis, own.gallery_images[index], frame=plots.TRUE if label == labels[query] else plots.MISSED
                )
                axis.set_xlabel(named[label] if label != labels[query] else "", fontsize=7, labelpad=1)
        axes[0][0].set_title("test image", fontsize=10, fontweight="normal")
        for axis, title in zip(axes[0][1::count], shown):
            # Wider than its column: the first title alone makes room for all.
            axis.text(0, 1.06, f"nearest training images by {title}", transform=axis.transAxes).set_in_layout(False)

    return plots.png(fill, 15, 7, dpi=100)


def _bars(axis: Axes, results: Mapping[str, dict], theme: plots.Theme) -> None:
    chance = 1 / next(iter(results.values()))["num_classes"]
    values = [*(100 * result["top1"] for result in results.values()), 100 * chance]
    colors = [theme.color(result["identity"]["trained_by"]) for result in results.values()]
    axis.bar_label(axis.bar([*results, "chance"], values, color=[*colors, theme.color("line")]), fmt="%.1f")
    axis.set(ylim=(0, 105), title="test top-1 of a linear classifier, %")
    axis.tick_params(axis="x", labelrotation=20)
    axis.grid(visible=False)
