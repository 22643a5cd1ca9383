"""Draws a comparison: a bar for each method, the best first, and lines for what it is compared
with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matplotlib.figure import Figure as Canvas

from cpc_tf.drawing import plots


class Ranked(NamedTuple):
    """A method's figure.

    Attributes:
      name: of the method.
      value: in percent.
      band: from where to where it reaches, in percent; None: one value.
      color: a key of `Theme.color`.
      is_reference: whether it is no method, but a line that methods are compared with.
    """

    name: str
    value: float
    band: tuple[float, float] | None
    color: str
    is_reference: bool = False


def ranking(panels: Mapping[str, Sequence[Ranked]], xlabel: str) -> bytes:
    """Returns a PNG with a panel for each title."""
    most = max((len(rows) for rows in panels.values()), default=1)

    def fill(canvas: Canvas, theme: plots.Theme) -> None:
        axes = plots.grid(canvas, len(panels), columns=2)
        for axis, (title, rows) in zip(axes, panels.items()):
            bars = sorted((row for row in rows if not row.is_reference), key=lambda row: row.value)
            for y, row in enumerate(bars):
                axis.barh(y, row.value, color=theme.color(row.color), height=0.7)
                end = row.value
                if row.band:
                    low, high = row.band
                    axis.plot([low, high], [y, y], color=theme.color("ink"), linewidth=1.2)
                    end = high
                axis.text(end, y, f" {row.value:.1f}", va="center", fontsize=9)
            for row in rows:
                if row.is_reference:
                    axis.axvline(row.value, color=theme.color("muted"), linestyle="--", linewidth=1)
                    axis.text(
                        row.value,
                        len(bars) - 0.3,
                        row.name,
                        ha="center",
                        va="bottom",
                        fontsize=8,
                        color=theme.color("muted"),
                    )
            axis.set_yticks(range(len(bars)), [row.name for row in bars])
            axis.set_ylim(-0.6, len(bars) + 0.4)
            top = max((row.band[1] if row.band else row.value for row in rows), default=1.0)
            axis.set(title=title, xlabel=xlabel, xlim=(0, min(100, 1.12 * top)))

    return plots.png(fill, 6 * min(2, len(panels)), 1.4 + 0.32 * most, dpi=110)
