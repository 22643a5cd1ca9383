"""The embedding map: images in two dimensions, those with similar features near each other."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple, Optional

import numpy as np
import tensorflow as tf
from matplotlib import colormaps
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure as Canvas

from cpc_tf.core.files import optional_picture, write_file
from cpc_tf.core.progress import waiting_for
from cpc_tf.core.settings import ConfigError
from cpc_tf.core.texts import csv_records
from cpc_tf.drawing import plots

# in the directory of a run
PICTURE = "map.png"
DATA = "map.csv"
PCA_MAP, TSNE_MAP = METHODS = ("pca", "tsne")
MOST = 2000  # images on a map: more take t-SNE minutes, and their dots cover each other
SAMPLE = 400  # test images that a run's map shows
THUMBNAIL = 64  # px
# cells, each with one thumbnail at most
_ROWS = 16
_COLUMNS = 22
_EDGES = (0.08, 0.92)  # shares of the width between which a name is centred
_INSET = 0.02  # share of the width and height that names keep from the edges
_COMPONENTS = 50  # of t-SNE, a usual value
# likewise, with few and with many images: 30 neighbours of 300 are classes, not neighbours
_PERPLEXITY = (
    5,
    30,
)
_CLASSES = 19  # with a colour of their own

# A class, its name, its colour; None for those that have no colour of their own.
Entry = tuple[Optional[int], str, tuple[float, ...]]


def draw(
    features: np.ndarray,
    thumbnails: np.ndarray,
    labels: Sequence[int] | None = None,
    class_names: Sequence[str] = (),
    method: str = PCA_MAP,
    seed: int = 0,
) -> bytes:
    """Returns a PNG with thumbnails on a map; with labels, framed in the colours of named classes.

    The map is divided into cells; a cell shows the image that is nearest to its middle. A class has
    its name where most of its images are.

    Args:
      features: float [N, D].
      thumbnails: uint8 [N, t, t, 3].
      labels: class of each image, -1 if it is not known; None: there are no labels.
      class_names: of the labels.
      method: 'pca', the two directions of largest variance, or 'tsne', which keeps neighbours
        together and says nothing about larger distances.
      seed: of t-SNE.

    Raises:
      ConfigError: the features are not finite.
    """
    return draw_at(places(features, method, seed), thumbnails, labels, class_names)


class Places(NamedTuple):
    """Where images are on a map."""

    where: np.ndarray  # float [N, 2]
    title: str


def draw_at(
    places: Places,
    thumbnails: np.ndarray,
    labels: Sequence[int] | None = None,
    class_names: Sequence[str] = (),
) -> bytes:
    """Returns the PNG of `draw` for images at these places; other arguments as there."""
    where = places.where
    colors, entries = _colors(len(where), labels, class_names)
    low = where.min(0)
    high = where.max(0)
    extent = np.maximum(high - low, 1e-9)
    cell = extent / (_COLUMNS, _ROWS)

    def fill(canvas: Canvas, theme: plots.Theme) -> None:
        axis = canvas.subplots()
        sides = [low[0], low[0] + cell[0] * _COLUMNS, low[1], low[1] + cell[1] * _ROWS]
        axis.imshow(
            _sheet(where, low, cell, thumbnails, colors, framed=bool(entries)),
            aspect="auto",
            extent=sides,
        )
        look = {"fontsize": 13, "va": "center"}
        frame = {"boxstyle": "round", "facecolor": theme.named["page"], "linewidth": 2.5}
        for label, name, color in entries:
            if label is not None:
                middle = _middle(where[np.equal(labels, label)])
                # At an edge the name stands inwards, where it is not cut.
                share = (middle - low) / extent
                ha = ("left", "center", "right")[np.digitize(share[0], _EDGES)]
                inside = low + np.clip(share, _INSET, 1 - _INSET) * extent
                axis.text(*inside, name, ha=ha, bbox={**frame, "edgecolor": color}, **look)
        rest = [f"grey: {name}" for label, name, _ in entries if label is None]
        axis.set(
            xlim=sides[:2],
            ylim=sides[2:],
            xticks=[],
            yticks=[],
            xlabel="; ".join([places.title, *rest]),
        )
        axis.grid(visible=False)
        axis.spines[:].set_visible(False)

    return plots.png(fill, 13, 9.5)


def _middle(where: np.ndarray) -> np.ndarray:
    """Returns the place of an image, of [N, 2], that is near most of them: of two heaps in one of
    them.
    """
    apart = np.linalg.norm(where[:, None] - where, axis=2)
    return where[np.sqrt(apart).sum(1).argmin()]


def places(features: np.ndarray, method: str = PCA_MAP, seed: int = 0) -> Places:
    """Returns where a map shows images with features [N, D]; arguments and errors as those of
    `draw`.
    """
    of = f"of {features.shape[1]:,} features of {len(features):,} images"
    if not np.isfinite(features).all():
        raise ConfigError(
            "some features are not finite, so there is no map of them: did the encoder's training"
            " finish?"
        )
    # here, since it takes a third of the start of a program
    from sklearn import (
        decomposition,
        manifold,
    )

    count = min(_COMPONENTS, *features.shape)
    pca = decomposition.PCA(count, svd_solver="randomized", random_state=seed)
    with np.errstate(invalid="ignore"):  # of images that are all alike: no variance to divide by
        components = pca.fit_transform(features.astype(np.float64))  # [N, count]
    if method == TSNE_MAP and len(features) > 3 and np.ptp(components) > 0:
        perplexity = min(np.clip(len(features) / 40, *_PERPLEXITY), (len(features) - 1) / 3)
        tsne = manifold.TSNE(perplexity=perplexity, init="pca", random_state=seed)
        with waiting_for(f"t-SNE of {len(features)} images"):
            return Places(tsne.fit_transform(components), f"t-SNE {of}")
    variance = 100 * np.nan_to_num(pca.explained_variance_ratio_[:2]).sum()
    where = np.pad(components[:, :2], ((0, 0), (0, max(0, 2 - count))))
    return Places(where, f"PCA ({variance:.0f} % of the variance) {of}")


def write(
    workdir: str,
    features: np.ndarray,
    images: np.ndarray,
    labels: np.ndarray,
    class_names: Sequence[str],
) -> None:
    """Writes map.png and map.csv of test images into the directory of a run; what the machine fails
    is a warning.

    Args:
      workdir: the directory.
      features: float [N, D].
      images: uint8 [N, S, S, 3].
      labels: int64 [N]; of multi-label images float [N, classes], without colours.
      class_names: of the labels.
    """
    with optional_picture(os.path.join(workdir, PICTURE)) as path:
        tsne = places(features, TSNE_MAP)
        small = (
            tf.image.resize(images, [min(THUMBNAIL, images.shape[1])] * 2, "area")
            .numpy()
            .round()
            .astype(np.uint8)
        )
        single = labels if labels.ndim == 1 else None
        write_file(path, draw_at(tsne, small, single, class_names))
        rows = [{"x": round(float(x), 3), "y": round(float(y), 3)} for x, y in tsne.where]
        if single is not None:
            rows = [{**row, "label": int(label)} for row, label in zip(rows, single)]
        write_file(os.path.join(workdir, DATA), csv_records(rows))


def _colors(
    count: int, labels: Sequence[int] | None, class_names: Sequence[str]
) -> tuple[np.ndarray, list[Entry]]:
    """Returns the colour of each image, float [count, 3], and what the colours mean."""
    grey = to_rgb(plots.IGNORED)
    theme = plots.THEME
    if labels is None:
        return np.tile(to_rgb(theme.named["cpc"]), (count, 1)), []
    labels = np.asarray(labels)
    present, counts = np.unique(labels[labels >= 0], return_counts=True)
    colored = sorted(present[np.argsort(-counts, kind="stable")][:_CLASSES])
    palette = theme.lines if len(colored) <= len(theme.lines) else colormaps["tab20"].colors
    color_of = {label: to_rgb(color) for label, color in zip(colored, palette)}
    names = plots.shortened(plots.drawable(tuple(class_names), "class"))
    entries: list[Entry] = [(label, names[label], color) for label, color in color_of.items()]
    rest = [
        name
        for name, any_of in (
            ("no label", (labels < 0).any()),
            ("others", len(present) > len(colored)),
        )
        if any_of
    ]
    entries += [(None, " or ".join(rest), grey)] if rest else []
    return np.array([color_of.get(label, grey) for label in labels.tolist()]), entries


def _sheet(
    where: np.ndarray,
    low: np.ndarray,
    cell: np.ndarray,
    thumbnails: np.ndarray,
    colors: np.ndarray,
    framed: bool,
) -> np.ndarray:
    """Returns the thumbnails in their cells, transparent elsewhere: uint8 [rows * t, columns * t,
    4].
    """
    at = np.clip(
        ((where - low) / cell).astype(int), 0, (_COLUMNS - 1, _ROWS - 1)
    )  # [N, 2], column and row from below
    away = np.linalg.norm((where - low) / cell - at - 0.5, axis=1)
    side = thumbnails.shape[1]
    sheet = np.full([_ROWS, side, _COLUMNS, side, 4], (255, 255, 255, 0), np.uint8)
    for index in np.argsort(-away, kind="stable"):  # the nearest to the middle comes last
        column, row = at[index]
        tile = np.dstack([thumbnails[index], np.full([side, side], 255, np.uint8)])
        edge = max(1, side // 16)
        tile[:, :edge] = tile[:, -edge:] = tile[:edge] = tile[-edge:] = (
            (*np.round(255 * colors[index]), 255) if framed else (255, 255, 255, 255)
        )
        sheet[_ROWS - 1 - row, :, column] = tile
    return sheet.reshape(_ROWS * side, _COLUMNS * side, 4)
