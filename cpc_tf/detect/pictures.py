"""Pictures of a test: precision over recall of each class, and images with true and found boxes, worst misses first."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import NamedTuple

import matplotlib
import numpy as np
import tensorflow as tf
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from cpc_tf.data.decode import decode
from cpc_tf.data.source import DetectionSource
from cpc_tf.detect.average_precision import Found, Judged, judge
from cpc_tf.detect.scoring import Scene, Scores

# Detections below this score are not drawn: most of them are wrong, and hide the picture.
SHOWN = 0.5
TILES, COLUMNS = 20, 5
INK, GRID, BLUE = "#1b1f24", "#e3e6ea", "#0b5cad"
# What became of a box: (colour, dashes, in words). Told apart by dashes, too, for the colour-blind.
TRUE, MISSED, DIFFICULT = (
    ("#21c77a", "-", "true, found"),
    ("#ff3b30", "--", "true, missed"),
    ("#b8c0c8", ":", "difficult"),
)
RIGHT, WRONG = ("#3aa0ff", "-", "found, right"), ("#ffb000", "--", "found, wrong")
KINDS = (TRUE, MISSED, DIFFICULT, RIGHT, WRONG)


class Verdict(NamedTuple):
    """An image's detections of a score of at least SHOWN, and what they are worth."""

    found: Found
    judged: Judged
    missed: np.ndarray  # bool [M]: objects that none of these has; not the difficult ones

    @property
    def badness(self) -> tuple[float, float]:
        """Objects missed, then the scores of wrong detections."""
        return float(self.missed.sum()), float(self.found.scores[self.judged.right == 0].sum())


def verdict(scene: Scene, iou: float) -> Verdict:
    """How good the detections of an image are; `iou` is the overlap at which one is right."""
    shown = scene.found.scores >= SHOWN
    found = Found(*(values[shown] for values in scene.found))
    judged = judge(scene.truth, found, iou)
    return Verdict(found, judged, ~judged.taken & ~scene.truth.difficult)


def worst(scenes: Sequence[Scene], iou: float, count: int = TILES) -> list[int]:
    """Places of the images with most objects missed, and among equals with the surest wrong detections."""
    badness = [verdict(scene, iou).badness for scene in scenes]
    return sorted(range(len(scenes)), key=lambda place: badness[place], reverse=True)[:count]


def images_at(source: DetectionSource, places: Sequence[int]) -> list[np.ndarray]:
    """The images at these places of a source, uint8 [H, W, 3] each, in the order of the places."""
    wanted = tf.constant(places, tf.int64)
    examples = source.ordered().filter(lambda example: tf.reduce_any(example["counter"] == wanted))
    images = {
        int(counter): image
        for counter, image in examples.map(lambda e: (e["counter"], decode(e["encoded"]))).as_numpy_iterator()
    }
    return [images[place] for place in places]


def draw_sheet(
    scenes: Sequence[Scene], images: Sequence[np.ndarray], class_names: Sequence[str], iou: float = 0.5
) -> bytes:
    """Images with their true and found boxes, as PNG.

    Args:
      scenes: what is on them and what was found.
      images: uint8 [H, W, 3] each.
      class_names: of the labels.
      iou: overlap at which a detection is right.
    """
    columns = min(COLUMNS, len(scenes))
    rows = math.ceil(len(scenes) / columns)
    with matplotlib.rc_context({"text.parse_math": False}):  # a name may have a $ in it
        figure = Figure(figsize=(3.2 * max(columns, 3), 3 * rows + 0.8), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for axis in axes:
            axis.set_axis_off()
        for axis, scene, image in zip(axes, scenes, images):
            _tile(axis, scene, image, class_names, iou)
        lines = [Line2D([], [], color=c, linestyle=dashes, linewidth=2.5) for c, dashes, _ in KINDS]
        figure.legend(
            lines, [words for _, _, words in KINDS], loc="outside upper left", ncols=len(KINDS), frameon=False
        )
        figure.suptitle(
            f"worst misses first; detections of a score of at least {SHOWN}", x=0.99, ha="right", fontsize=10
        )
        return _png(figure)


def _tile(axis: Axes, scene: Scene, image: np.ndarray, class_names: Sequence[str], iou: float) -> None:
    found, judged, missed = verdict(scene, iou)
    axis.imshow(image)
    wrong = int((judged.right == 0).sum())
    axis.set_title(f"{scene.name}: {missed.sum()} missed, {wrong} wrong", fontsize=8, color=INK)
    for box, label, lost, difficult in zip(scene.truth.boxes, scene.truth.labels, missed, scene.truth.difficult):
        kind = MISSED if lost else DIFFICULT if difficult else TRUE
        # Broad, so that the box found within shows no less.
        _box(axis, box, kind, 3.2)
        if lost:
            _words(axis, box[2], box[1], class_names[label], kind, "bottom")
    for box, score, label, right in zip(*found, judged.right):
        kind = {1: RIGHT, 0: WRONG, -1: DIFFICULT}[int(right)]
        _box(axis, box, kind, 1.4)
        _words(axis, box[0], box[1], f"{class_names[label]} {score:.2f}", kind, "top")


def _box(axis: Axes, box: np.ndarray, kind: tuple[str, str, str], width: float) -> None:
    y1, x1, y2, x2 = box - 0.5  # the centre of the first pixel is at 0 in the picture, and at 0.5 in our boxes
    colour, dashes, _ = kind
    axis.add_patch(Rectangle((x1, y1), x2 - x1, y2 - y1, fill=False, color=colour, linestyle=dashes, linewidth=width))


def _words(axis: Axes, y: float, x: float, words: str, kind: tuple[str, str, str], side: str) -> None:
    back = {"facecolor": kind[0], "edgecolor": "none", "pad": 0.8, "alpha": 0.85}
    axis.text(x, y, words, va=side, fontsize=6, color="black", clip_on=True, bbox=back)


def draw_curves(scores: Scores, class_names: Sequence[str]) -> bytes:
    """Precision over recall of each class that has an object to be found, as PNG."""
    known = [label for label, curve in enumerate(scores.curves) if curve.objects]
    columns = min(COLUMNS, len(known))
    rows = math.ceil(len(known) / columns)
    with matplotlib.rc_context({"text.parse_math": False}):
        figure = Figure(figsize=(max(2.4 * columns, 4), 2.3 * rows + 0.5), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).ravel()
        for axis in axes[len(known) :]:
            axis.set_axis_off()
        for axis, label in zip(axes, known):
            curve = scores.curves[label]
            best = np.maximum.accumulate(curve.precision[::-1])[::-1]
            recall = np.concatenate([[0.0], curve.recall])
            # The area that is the average precision over all points.
            axis.fill_between(recall, np.append(best, 0.0), step="post", color=BLUE, alpha=0.15, linewidth=0)
            if len(curve.scores):
                axis.plot(recall, np.append(curve.precision[:1], curve.precision), color=BLUE, linewidth=1.4)
            else:
                axis.text(0.5, 0.5, "nothing found", ha="center", va="center", fontsize=9, color=INK)
            axis.set_title(
                f"{class_names[label]}  {100 * scores.every[label]:.1f} %", fontsize=9, loc="left", color=INK
            )
            axis.set(xlim=(0, 1), ylim=(0, 1.03), xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
            axis.grid(color=GRID)
            axis.set_axisbelow(True)
            axis.spines[["top", "right"]].set_visible(False)
        figure.supxlabel("recall", fontsize=9)
        figure.supylabel("precision", fontsize=9)
        return _png(figure)


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=120, metadata={"Software": None})
    return buffer.getvalue()
