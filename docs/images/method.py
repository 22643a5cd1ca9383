"""Draws docs/images/method.png: how CPC learns from an image without a label.

PYTHONPATH=. python docs/images/method.py
"""

import pathlib

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import FancyArrowPatch, Rectangle
from skimage import data

from cpc_tf.drawing.plots import THEME

INK, MUTED, CPC, TRUE = (THEME.named[name] for name in ("ink", "muted", "cpc", "healthy"))
CELL, SKIPPED = "#b9d3ec", "#eef0f2"  # paler than these
GRID, PATCH, STRIDE = 5, 80, 48  # of an image of 272 px: neighbouring patches overlap
CONTEXT_ROW, TARGET_ROW, COLUMN = 1, 3, 2
STEP, SIDE = 0.72, 0.64  # distance and side of a drawn patch


def patch(image, row, column):
    return image[row * STRIDE : row * STRIDE + PATCH, column * STRIDE : column * STRIDE + PATCH]


def place(left, row, column):
    """Lower left corner of a cell of a grid that begins at `left`."""
    return left + column * STEP, (GRID - 1 - row) * STEP


def show(axes, pixels, x, y, color=None):
    axes.imshow(pixels, extent=(x, x + SIDE, y, y + SIDE), zorder=2)
    if color:
        axes.add_patch(
            Rectangle((x, y), SIDE, SIDE, fill=False, edgecolor=color, linewidth=3, zorder=3)
        )


def arrow(axes, start, stop, color=INK, bend=0.0):
    style = f"arc3,rad={bend}"
    axes.add_patch(
        FancyArrowPatch(
            start,
            stop,
            connectionstyle=style,
            arrowstyle="-|>",
            mutation_scale=16,
            lw=1.8,
            color=color,
        )
    )


def main():
    cat = data.chelsea()[14:286, 100:372]
    others = [data.astronaut()[:272, 90:362], data.coffee()[60:332, 150:422]]
    figure, axes = plt.subplots(figsize=(12, 4.5), dpi=150)

    for row in range(GRID):
        for column in range(GRID):
            show(axes, patch(cat, row, column), *place(0, row, column))
    axes.text(0, 3.7, "1  An image is cut into\n    overlapping patches.", va="bottom", color=INK)

    arrow(axes, (3.68, 1.76), (4.72, 1.76))
    axes.text(4.2, 1.9, "encoder", ha="center", color=INK)
    axes.text(4.2, 1.62, "each patch\nalone", ha="center", va="top", color=MUTED, fontsize=9)

    left = 4.85
    for row in range(GRID):
        for column in range(GRID):
            color = CELL if row <= CONTEXT_ROW else SKIPPED
            target = (row, column) == (TARGET_ROW, COLUMN)
            axes.add_patch(
                Rectangle(
                    place(left, row, column),
                    SIDE,
                    SIDE,
                    facecolor=color,
                    edgecolor=TRUE if target else "#c3c8ce",
                    linewidth=3 if target else 1,
                )
            )
    x, y = place(left, CONTEXT_ROW, COLUMN)
    axes.text(
        x + SIDE / 2,
        y + SIDE / 2,
        "c",
        ha="center",
        va="center",
        color=CPC,
        fontsize=17,
        fontweight="bold",
    )
    axes.text(
        left,
        3.7,
        "2  A context network sums up\n    the patches down to here (c).",
        va="bottom",
        color=INK,
    )
    target = place(left, TARGET_ROW, COLUMN)
    axes.text(
        target[0] + SIDE / 2,
        target[1] + SIDE / 2,
        "?",
        ha="center",
        va="center",
        color=TRUE,
        fontsize=17,
    )
    arrow(axes, (x + SIDE / 2, y + 0.06), (target[0] + SIDE / 2, target[1] + SIDE + 0.03), CPC)
    axes.text(
        left + 5 * STEP + 0.04,
        1.76,
        "this row is\nskipped: its\npatches\noverlap c's",
        va="center",
        color=MUTED,
        fontsize=9,
    )

    left = 10.0
    caption = (
        "3  From c it predicts the patch below, and must\n    tell it from patches of this and"
        " other images."
    )
    axes.text(left, 3.7, caption, va="bottom", color=INK)
    draw = np.random.default_rng(3)
    true_at = 4
    for i in range(12):
        image = [cat, *others][i % 3]
        row, column = (TARGET_ROW, COLUMN) if i == true_at else draw.integers(0, GRID, 2)
        image = cat if i == true_at else image
        show(
            axes,
            patch(image, row, column),
            left + i % 4 * 0.95,
            2.42 - i // 4 * 0.95,
            TRUE if i == true_at else None,
        )
    axes.text(left, 0.25, "the true patch", color=TRUE, fontweight="bold")
    axes.text(left + 2.0, 0.25, "and negatives", color=MUTED)
    axes.text(
        0,
        -0.2,
        "The same is done upwards, to the left and to the right. No labels are used.",
        va="top",
        color=MUTED,
    )

    axes.set_xlim(-0.1, 14.3)
    axes.set_ylim(-0.55, 4.4)
    axes.set_aspect("equal")
    axes.axis("off")
    figure.savefig(
        pathlib.Path(__file__).with_suffix(".png"),
        bbox_inches="tight",
        pad_inches=0.15,
        facecolor="white",
    )


if __name__ == "__main__":
    main()
