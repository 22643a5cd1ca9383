"""Figures of a test: precision over recall of each class, and images with true and detected
boxes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from cpc_tf.boxes.source import DetectionSource
from cpc_tf.detect.scoring import ImageDetections, Judged, Scene, Scores, Truth, judge
from cpc_tf.drawing import plots

# detections below it are not drawn, where the test recommends no score: most of them are wrong
USUAL_SCORE = 0.5
TILES = 20
COLUMNS = 5
TITLE = 24  # letters of an image's name above it; its counts stand beside
# How each kind of box is drawn. Dashes help colour-blind readers.
KINDS = TRUE, MISSED, DIFFICULT, RIGHT, WRONG = (
    {"color": plots.TRUE, "linestyle": "-", "label": "object, found"},
    {"color": plots.MISSED, "linestyle": "--", "label": "object, missed"},
    {"color": plots.IGNORED, "linestyle": ":", "label": "object, difficult"},
    {"color": plots.RIGHT, "linestyle": "-", "label": "detection, right"},
    {"color": plots.WRONG, "linestyle": "--", "label": "detection, wrong"},
)


class Verdict(NamedTuple):
    """The detections of an image that are drawn, which of them are right, and the objects that they
    miss.
    """

    detected: ImageDetections
    judged: Judged
    missed: np.ndarray  # bool [M], false for difficult ones


def verdict(scene: Scene, iou: float, least_score: float) -> Verdict:
    """Judges the detections of an image with at least this score; a right one overlaps by at least
    `iou`.
    """
    drawn = scene.detected.scores >= least_score
    detected = ImageDetections(*(values[drawn] for values in scene.detected))
    judged = judge(scene.truth, detected, iou)
    return Verdict(detected, judged, ~judged.taken & ~scene.truth.difficult)


def worst(scenes: Sequence[Scene], iou: float, least_score: float) -> list[int]:
    """Returns the indices of the TILES images with most missed objects, among equals the surest
    wrong detections.
    """
    verdicts = [verdict(scene, iou, least_score) for scene in scenes]
    badness = [(v.missed.sum(), v.detected.scores[v.judged.right == 0].sum()) for v in verdicts]
    return sorted(range(len(scenes)), key=badness.__getitem__, reverse=True)[:TILES]


def images_at(source: DetectionSource, indices: Sequence[int]) -> list[np.ndarray]:
    """Returns the images at these indices of a source, uint8 [H, W, 3] each."""
    wanted = tf.constant(indices, tf.int64)
    examples = source.ordered().filter(lambda example: tf.reduce_any(example["counter"] == wanted))
    pairs = examples.map(lambda e: (e["counter"], source.decode(e["encoded"]))).as_numpy_iterator()
    images = {int(counter): image for counter, image in pairs}
    return [images[index] for index in indices]


def draw_sheet(
    scenes: Sequence[Scene],
    images: Sequence[np.ndarray],
    class_names: Sequence[str],
    iou: float = 0.5,
    least_score: float = USUAL_SCORE,
) -> bytes:
    """Draws images (uint8 [H, W, 3] each) with true and detected boxes, as PNG; `iou`,
    `least_score`: see `verdict`.
    """
    columns = min(COLUMNS, len(scenes))
    rows = math.ceil(len(scenes) / columns)
    class_names = plots.drawable(tuple(class_names), "class")
    titles = plots.shortened(plots.drawable(tuple(scene.name for scene in scenes), "image"), TITLE)

    def fill(canvas: Canvas, theme: plots.Theme) -> None:
        for axis, title, scene, image in zip(
            plots.grid(canvas, len(scenes), columns), titles, scenes, images
        ):
            _tile(axis, title, image, scene.truth, verdict(scene, iou, least_score), class_names)
        difficult = any(scene.truth.difficult.any() for scene in scenes)
        kinds = [kind for kind in KINDS if difficult or kind is not DIFFICULT]
        lines = [Line2D([], [], linewidth=2.5, **kind) for kind in kinds]
        canvas.legend(handles=lines, loc="outside upper left", ncols=len(kinds))
        title = (
            f"images with most misses first; detections with a score of at least {least_score:g}"
        )
        canvas.suptitle(title, x=0.99, ha="right", fontsize=10)

    tallest = max(image.shape[0] / image.shape[1] for image in images)
    return plots.png(fill, 3.2 * max(columns, 3), (3.2 * min(tallest, 1) + 0.4) * rows + 0.8)


def _tile(
    axis: Axes,
    title: str,
    image: np.ndarray,
    truth: Truth,
    judged: Verdict,
    class_names: Sequence[str],
) -> None:
    detected, (rights, _), missed = judged
    plots.tile(axis, image, f"{title}: {missed.sum()} missed, {(rights == 0).sum()} wrong")
    for box, label, lost, difficult in zip(*truth[:2], missed, truth.difficult):
        if lost:
            kind = MISSED
            text = class_names[label]
        elif difficult:
            kind = DIFFICULT
            text = ""
        else:
            kind = TRUE
            text = ""
        # Broad, so that it stays visible below a detected box.
        _box(axis, box, kind, 3.2, text)
    for box, score, label, right in zip(*detected, rights):
        kind = (WRONG, RIGHT, DIFFICULT)[int(right)]
        _box(axis, box, kind, 1.4, f"{class_names[label]} {score:.2f}")


def _box(axis: Axes, box: np.ndarray, kind: dict[str, str], width: float, text: str) -> None:
    # Matplotlib has the centre of the first pixel at 0, our boxes at 0.5.
    y1, x1, y2, x2 = box - 0.5
    axis.add_patch(Rectangle((x1, y1), x2 - x1, y2 - y1, fill=False, linewidth=width, **kind))
    y, side = (y2, "bottom") if kind is MISSED else (y1, "top")
    back = {"facecolor": kind["color"], "edgecolor": "none", "pad": 0.8, "alpha": 0.85}
    axis.text(
        x1, y, text, va=side, fontsize=6, color="black", clip_on=True, bbox=back if text else None
    )


def draw_curves(scores: Scores, class_names: Sequence[str]) -> bytes:
    """Draws precision over recall of each class that has an object to find, as PNG."""
    class_names = plots.drawable(tuple(class_names), "class")
    labels = [label for label, curve in enumerate(scores.curves) if curve.objects]
    columns = min(COLUMNS, len(labels))

    def fill(canvas: Canvas, theme: plots.Theme) -> None:
        axes = plots.grid(canvas, len(labels), columns, sharex=True, sharey=True)
        for axis, label in zip(axes, labels):
            curve = scores.curves[label]
            recall = [0.0, *curve.recall]
            precision = [*curve.precision[:1], *curve.precision]
            plots.Line("", [*zip(recall, precision)], "cpc").draw(axis, theme)
            # This area is the average precision over all points.
            best = np.append(curve.best, 0)
            axis.fill_between(
                recall, best, step="post", color=theme.color("cpc"), alpha=0.15, linewidth=0
            )
            axis.set_title(
                f"{class_names[label]}  AP {100 * scores.every[label]:.1f} %", fontsize=9
            )
            axis.set(xlim=(0, 1), ylim=(0, 1.03), xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
            if not len(curve.scores):
                axis.text(0.5, 0.5, "nothing found", ha="center", va="center", fontsize=9)
        canvas.supxlabel("recall", fontsize=9)
        canvas.supylabel("precision", fontsize=9)

    return plots.png(fill, max(2.4 * columns, 4), 2.3 * math.ceil(len(labels) / columns) + 0.5)
