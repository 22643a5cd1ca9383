"""Curves of training and of accuracy, and the pictures that runs left, as figures of the page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.figure import Figure as Canvas

from cpc_tf.drawing import plots
from cpc_tf.drawing.plots import Line
from cpc_tf.report.blocks import Block, Details, Figure, folded
from cpc_tf.report.runs import Run


class Curves(NamedTuple):
    """Panels (title -> curves) in some columns, with one legend above them.

    `axes`: settings of all axes; `ticks`: value -> text; `levels`: title -> value below which there is a warning;
    `healthy`: title -> the least value of the healthy range, which is shaded; `most`: title -> the largest possible
    value, where an axis ends at the latest.
    """

    panels: Mapping[str, Sequence[Line]]
    columns: int
    axes: Mapping[str, Any] = {"xlabel": "step"}
    ticks: Mapping[float, str] = {}
    levels: Mapping[str, float] = {}
    healthy: Mapping[str, float] = {}
    most: Mapping[str, float] = {}

    def draw(self, canvas: Canvas, theme: plots.Theme) -> None:
        """Draws all panels."""
        entries = {}
        for axis, (title, lines) in zip(plots.grid(canvas, len(self.panels), self.columns), self.panels.items()):
            entries |= {line.label: line.draw(axis, theme) for line in lines}
            axis.set(title=title, **self.axes)
            if self.ticks:
                axis.set_xticks([*self.ticks], [*self.ticks.values()], fontsize=8.5)
                axis.minorticks_off()
            if title in self.levels:
                axis.axhline(self.levels[title], color=theme.named["ink"], linewidth=1, linestyle="--")
            if title in {**self.levels, **self.healthy}:
                axis.set_ylim(0, None)
            if title in self.healthy:
                plots.shade_healthy(axis, self.healthy[title], theme)
            if axis.get_ylim()[1] > self.most.get(title, math.inf):
                axis.set_ylim(top=self.most[title])
        if len(entries) > 1:
            canvas.legend(entries.values(), entries, loc="outside upper left", ncols=4, fontsize=9)

    def figure(self, name: str, title: str, width: float, row_height: float) -> list[Figure]:
        """Returns a figure for the page, whose description says where the curves end.

        A panel is left out if none of its curves has two points; without any panel there is no figure.
        """
        panels = {panel: lines for panel, lines in self.panels.items() if any(len(line.points) > 1 for line in lines)}
        if not panels:
            return []
        lines = [(panel, line) for panel, own in panels.items() for line in own]
        points = [(panel, line.label, x, y) for panel, line in lines for x, y, *_ in line.points]
        columns = ("panel", "curve", self.axes.get("xlabel", "x"), "value")
        ends = [f"{panel} of {line.label}: {line.points[-1][1]:.3g}" for panel, line in lines if line.points]
        alt = f"Curves. At the end: {'; '.join(ends[:12])}."
        height = row_height * math.ceil(len(panels) / self.columns)
        drawn = plots.png(self._replace(panels=panels).draw, width, height, 160)
        return [Figure(name, title, drawn, alt, [dict(zip(columns, p)) for p in points])]


def classifier_curves(name: str, title: str, groups: Mapping[str, Sequence[Run]], ordered: bool = False) -> list[Block]:
    """Returns training loss and accuracy, with panels for each phase and a curve for each run.

    Args:
      groups: label of a colour -> runs.
      ordered: whether the groups are steps of one quantity; they are drawn in shades.
    """
    panels: dict[str, list[Line]] = {}
    for index, (group, own) in enumerate(groups.items(), 1):
        color = index / len(groups) if ordered else own[0].identity.trained_by
        for phase, records in [(phase, run.metrics(phase)) for run in own for phase in ("", *run.get("phases", {}))]:
            for key in ("loss", "accuracy") if records else ():
                panels.setdefault(f"{phase} training {key}".strip(), []).append(line(group, records, key, color))
    title = f"Training curves of {title}"
    accuracies = {panel: 1.0 for panel in panels if panel.endswith("accuracy")}
    drawn = Curves(panels, 2, most=accuracies).figure(name, f"{title}.", 9, 2.6)
    return [Details(title, drawn)] if drawn else []


def line(label: str, records: Sequence[dict], key: str, color: str | int | float) -> Line:
    """Returns the curve of one quantity, where it was recorded."""
    return Line(label, [(record["step"], record[key]) for record in records if key in record], color)


def pictures(runs: Sequence[Run], file: str, name: str, title: str, alt: str) -> list[Block]:
    """Returns the picture `file` of the runs of the lowest seed, the first unfolded; {} in `title`: the run's place."""
    found = [(run, drawn) for run in sorted(runs, key=lambda run: run.fraction) if (drawn := run.png(file))]
    first = min((run.get("seed", 0) for run, _ in found), default=0)
    shown = [(title.format(run.place), drawn) for run, drawn in found if run.get("seed", 0) == first]
    return folded([Figure(f"{name}-{i}", caption, drawn, alt) for i, (caption, drawn) in enumerate(shown, 1)], name)
