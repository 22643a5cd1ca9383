"""Measures how the training step's cost grows: python -m benchmarks.scaling --drawing=scaling.png >
table.md

From the preset of benchmarks.train_step one thing at a time is changed: images in a batch, patches
of an image, directions of CPC, encoder. A straight line is fitted to each; its value at zero is the
overhead.
"""

from __future__ import annotations

import matplotlib.figure
import numpy as np
from absl import app, flags

from benchmarks import train_step


def _grid(side: int) -> list[str]:
    size = 16 + 12 * (side - 1)  # patches of 16 px, 12 px apart
    return [f"--resize={size}", f"--image_size={size}"]


# What is changed -> {its value: (encoder, flags)}; an encoder stands for its GFLOP, which are
# counted.
AXES = {
    "images": {count: ("small", [f"--batch_size={count}"]) for count in (8, 16, 32, 64, 128)},
    "patches of an image": {side**2: ("small", _grid(side)) for side in (3, 4, 5, 6, 7)},
    "directions": {count: ("small", [f"--directions={count}"]) for count in (1, 2, 4)},
    "GFLOP of three encoders": {name: (name, []) for name in ("tiny", "small", "medium")},
}


def main(argv) -> None:
    """Prints a table and draws it."""
    del argv
    table(flags.FLAGS.drawing)


def table(drawing: str) -> None:
    """Prints a table and draws it into a PNG, '': nowhere."""
    lines = {}
    print("| changed | ms | line | largest distance from it |\n|---|---|---|---|")
    for axis, points in AXES.items():
        found = [
            (x, train_step.measure(encoder, "bfloat16", given))
            for x, (encoder, given) in points.items()
        ]
        x = np.array([one["gflop"] if isinstance(x, str) else x for x, one in found], float)
        ms = np.array([one["ms"] for _, one in found])
        slope, overhead = fit(x, ms)
        cells = ", ".join(f"{a:.3g}: {b:.0f}" for a, b in zip(x, ms))
        distance = np.abs(ms / (overhead + slope * x) - 1).max()
        print(
            f"| {axis} | {cells} | {overhead:.0f} + {slope:.3g} x | {100 * distance:.0f} % |",
            flush=True,
        )
        lines[axis] = x, ms
    if drawing:
        _draw(lines, drawing)


def fit(x: np.ndarray, ms: np.ndarray) -> np.ndarray:
    """Returns slope and overhead of the line with the smallest relative distances."""
    return np.polyfit(x, ms, 1, w=1 / ms)


def _draw(lines: dict[str, tuple[np.ndarray, np.ndarray]], path: str) -> None:
    figure = matplotlib.figure.Figure(figsize=(10, 2.8), layout="constrained")
    for axes, (axis, (x, ms)) in zip(figure.subplots(1, len(lines)), lines.items()):
        ends = np.array([0, x.max()])
        axes.plot(ends, np.polyval(fit(x, ms), ends), color="0.7")
        axes.plot(x, ms, "o")
        axes.set(xlabel=axis, xlim=(0, None), ylim=(0, None))
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("ms of a step")
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    flags.DEFINE_string("drawing", "", "a PNG to draw the lines into")
    app.run(main)
