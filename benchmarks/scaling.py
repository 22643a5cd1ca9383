"""Measures how the training step's cost grows: python -m benchmarks.scaling --drawing=scaling.png > table.md

From the preset of benchmarks.train_step one thing at a time is changed: images in a batch, patches of an image,
directions of CPC, encoder. A straight line is fitted to each; what it costs at zero is the overhead.
"""

from __future__ import annotations

from typing import NamedTuple

import matplotlib.figure
import numpy as np
from absl import app, flags

from benchmarks import train_step

_DRAWING = flags.DEFINE_string("drawing", "", "a PNG to draw the lines into")


class Point(NamedTuple):
    """A step that is measured."""

    x: float  # what is changed
    flags: list[str]
    encoder: str = "small"


def _grid(side: int) -> list[str]:
    size = 16 + 12 * (side - 1)  # patches of 16 px, 12 px apart
    return [f"--resize={size}", f"--image_size={size}"]


AXES = {
    "images": [Point(count, [f"--batch_size={count}"]) for count in (8, 16, 32, 64, 128)],
    "patches of an image": [Point(side**2, _grid(side)) for side in (3, 4, 5, 6, 7)],
    "directions": [Point(count, [f"--directions={count}"]) for count in (1, 2, 4)],
    "GFLOP of three encoders": [Point(0, [], name) for name in ("tiny", "small", "medium")],
}


def main(argv) -> None:
    """Prints a table and draws it."""
    found = {axis: np.array([_measure(point, axis) for point in points]) for axis, points in AXES.items()}
    print("| changed | ms | line | largest distance from it |\n|---|---|---|---|")
    for axis, points in found.items():
        slope, overhead = line(*points.T)
        cells = ", ".join(f"{x:.3g}: {ms:.0f}" for x, ms in points)
        distance = distances(*points.T).max()
        print(f"| {axis} | {cells} | {overhead:.0f} + {slope:.3g} x | {100 * distance:.0f} % |")
    if _DRAWING.value:
        _draw(found, _DRAWING.value)


def line(x: np.ndarray, ms: np.ndarray) -> np.ndarray:
    """Slope and overhead of the line with the smallest relative distances."""
    return np.polyfit(x, ms, 1, w=1 / ms)


def distances(x: np.ndarray, ms: np.ndarray) -> np.ndarray:
    """Of each point from the line, as a share of the line."""
    return np.abs(ms / np.polyval(line(x, ms), x) - 1)


def _measure(point: Point, axis: str) -> tuple[float, float]:
    """(x, median milliseconds of a step)."""
    found = train_step.measure(point.encoder, "bfloat16", point.flags)
    return found["gflop"] if axis.startswith("GFLOP") else point.x, found["ms"]


def _draw(found: dict[str, np.ndarray], path: str) -> None:
    figure = matplotlib.figure.Figure(figsize=(10, 2.8), layout="constrained")
    for axes, (axis, points) in zip(figure.subplots(1, len(found)), found.items()):
        x, ms = points.T
        ends = np.array([0, x.max()])
        axes.plot(ends, np.polyval(line(x, ms), ends), color="0.7")
        axes.plot(x, ms, "o")
        axes.set_xlabel(axis, fontsize=9)
        axes.set_ylim(0)
        axes.set_xlim(0)
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("ms of a step")
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    app.run(main)
