"""Draws a comparison: a bar for each encoder, the best first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matplotlib.figure import Figure as Canvas

from cpc_tf.drawing import plots

# Keys of `Theme.color`.
CPC = "cpc"
OTHER = "unknown"  # another objective
REFERENCE = "chance"  # what objectives are compared with


class Ranked(NamedTuple):
    """An encoder's figures.

    Attributes:
      name: of the objective, or of what objectives are compared with.
      values: in percent, of each seed or draw; the bar ends at their mean.
      color: of the bar.
    """

    name: str
    values: Sequence[float]
    color: str

    @property
    def mean(self) -> float:
        """Mean of the values, in percent."""
        return sum(self.values) / len(self.values)


def ranking(panels: Mapping[str, Sequence[Ranked]], xlabel: str) -> bytes:
    """Returns a PNG with a panel for each title."""
    most = max((len(rows) for rows in panels.values()), default=1)

    def fill(canvas: Canvas, theme: plots.Theme) -> None:
        axes = plots.grid(canvas, len(panels), columns=2)
        for axis, (title, rows) in zip(axes, panels.items()):
            bars = sorted(rows, key=lambda row: row.mean)
            for y, row in enumerate(bars):
                ends = [min(row.values), max(row.values)]
                axis.barh(y, row.mean, color=theme.color(row.color), height=0.7)
                axis.plot(ends, [y, y], color=theme.color("ink"), linewidth=1.2)
                axis.text(ends[1], y, f" {row.mean:.1f}", va="center", fontsize=9)
            axis.set_yticks(range(len(bars)), [row.name for row in bars])
            axis.set_ylim(-0.6, len(bars) - 0.4)
            top = max((max(row.values) for row in rows), default=1.0)
            axis.set(title=title, xlabel=xlabel, xlim=(0, 1.15 * top))
            axis.grid(visible=False, axis="y")

    return plots.png(fill, 6 * min(2, len(panels)), 1.2 + 0.32 * most, dpi=110)
