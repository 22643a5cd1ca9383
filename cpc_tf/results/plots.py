"""Draws the figures of the project: colours, curves, images."""

from __future__ import annotations

import contextlib
import io
import math
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import tensorflow as tf
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.text import Text

from cpc_tf.files import reason
from cpc_tf.results import glyphs
from cpc_tf.results.blocks import Block, Details, Figure, folded
from cpc_tf.results.methods import fraction, identity
from cpc_tf.results.runs import Run
from cpc_tf.settings import ConfigError


class Theme(NamedTuple):
    """Colours by name, of the page and of what is compared, and `lines` for curves of anything else.

    CPC is blue and pixels are red, as in figure 1 of the paper. No colour stands for two things: `lines` has none of
    the named ones.
    """

    named: Mapping[str, str]
    lines: tuple[str, ...]

    @property
    def css(self) -> str:
        """The colours as variables of a style sheet."""
        return " ".join(f"--{name}: {color};" for name, color in self.named.items())

    def color(self, key: str | int | float) -> Any:
        """Returns the colour of a name, of a curve by index or by another name, or a shade from 0 to 1."""
        if isinstance(key, float):
            return self.shades(0.3 + 0.7 * key)
        index = key if isinstance(key, int) else sum(key.encode())
        return self.named.get(key, self.lines[index % len(self.lines)])

    @property
    def shades(self) -> LinearSegmentedColormap:
        """From the page's colour to CPC's."""
        return LinearSegmentedColormap.from_list("shades", [self.named["page"], self.named["cpc"]])


THEME = Theme(
    {
        # The page, and what stands in a figure beside its data.
        **{"page": "#ffffff", "ink": "#1b1f24", "muted": "#5b6470", "line": "#e3e6ea", "healthy": "#00845f"},
        # What trained an encoder (`Identity.trained_by`), and chance.
        **{"cpc": "#0b5cad", "rotation": "#b0579a", "relative_position": "#2b9bc4", "instance": "#d55e00"},
        **{"pixels": "#c62828", "untrained": "#6b7280", "labels": "#8a6d00", "unknown": "#3d4450", "chance": "#c3c8ce"},
    },
    ("#6a3d9a", "#1b9e9e", "#a65628", "#5f8a1f"),
)
# Frames on photographs.
TRUE, MISSED, RIGHT, WRONG, IGNORED = "#21c77a", "#ff3b30", "#3aa0ff", "#ffb000", "#b8c0c8"
MARKERS = {"pixels": "s", "untrained": "^", "labels": "D"}
Draw = Callable[[Canvas, Theme], None]


class Line(NamedTuple):
    """A curve through `points`, (x, y) or (x, y, low, high) with a band; `color` is that of `Theme.color`."""

    label: str
    points: Sequence[Sequence[float]]
    color: str | int | float
    style: str = "-"

    def draw(self, axis: Axes, theme: Theme) -> Line2D:
        """Draws it on some axes."""
        x, y, *band = np.transpose(self.points) if self.points else ((), ())
        color = theme.color(self.color)
        marker = MARKERS.get(self.color, "o") if band else "." if len(x) <= 12 else ""
        if band:
            axis.fill_between(x, *band, color=color, alpha=0.18, linewidth=0)
        # The marker of a value at the end of the axis, such as 100 %, is drawn whole.
        return axis.plot(x, y, self.style, color=color, marker=marker, markersize=5, linewidth=1.6, clip_on=False)[0]


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

    def draw(self, canvas: Canvas, theme: Theme) -> None:
        """Draws all panels."""
        entries = {}
        for axis, (title, lines) in zip(grid(canvas, len(self.panels), self.columns), self.panels.items()):
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
                shade_healthy(axis, self.healthy[title], theme)
            if axis.get_ylim()[1] > self.most.get(title, math.inf):
                axis.set_ylim(top=self.most[title])
        if len(entries) > 1:
            canvas.legend(entries.values(), entries, loc="outside upper left", ncols=4, fontsize=9)

    def figure(self, name: str, title: str, width: float, row_height: float) -> list[Figure]:
        """Returns a figure for the page, whose description says where the curves end.

        A panel is left out if none of its curves has two points; without any panel there is no figure.
        """
        shown = {panel: own for panel, own in self.panels.items() if any(len(line.points) > 1 for line in own)}
        return [self._replace(panels=shown)._figure(name, title, width, row_height)] if shown else []

    def _figure(self, name: str, title: str, width: float, row_height: float) -> Figure:
        lines = [(panel, line) for panel, own in self.panels.items() for line in own]
        points = [(panel, line.label, x, y) for panel, line in lines for x, y, *_ in line.points]
        columns = ("panel", "curve", self.axes.get("xlabel", "x"), "value")
        ends = [f"{panel} of {line.label}: {line.points[-1][1]:.3g}" for panel, line in lines if line.points]
        height = row_height * math.ceil(len(self.panels) / self.columns)
        alt = f"Curves. At the end: {'; '.join(ends[:12])}."
        return Figure(name, title, png(self.draw, width, height, 160), alt, [dict(zip(columns, p)) for p in points])


def grid(canvas: Canvas, count: int, columns: int, **share: bool) -> Sequence[Axes]:
    """Returns `count` axes in at most `columns` columns."""
    columns = min(columns, count)
    axes = canvas.subplots(math.ceil(count / columns), columns, squeeze=False, **share).ravel()
    for axis in axes[count:]:
        axis.set_visible(False)
    return axes[:count]


def shade_healthy(axis: Axes, least: float, theme: Theme) -> None:
    """Shades what is healthy: from a value on upwards, which leaves the limits of the axis as they are."""
    low, high = axis.get_ylim()
    axis.axhspan(least, max(high, least), color=theme.named["healthy"], alpha=0.12, linewidth=0, label="healthy range")
    axis.set_ylim(low, max(high, 1.1 * least))


@contextlib.contextmanager
def optional(path: str) -> Iterator[str]:
    """Gives a path to write a picture to. A run does not need it: what the machine fails is a warning.

    That is an image that cannot be read, a missing font or a full disk. Other errors are raised.
    """
    try:
        yield path
    except (OSError, ImportError, ConfigError, tf.errors.OpError) as error:  # ImportError: PIL without FreeType
        print(f"warning: {path} is not drawn: {reason(error)}", file=sys.stderr, flush=True)


def tile(axis: Axes, image: np.ndarray, title: str = "", frame: str | None = None) -> None:
    """Shows an image with a title and, if it has a colour, a frame."""
    axis.imshow(image)
    axis.set(xticks=[], yticks=[])
    axis.set_title(title, fontsize=8, fontweight="normal")
    axis.grid(visible=False)
    axis.spines[:].set(visible=frame is not None, color=frame or "black", linewidth=3)


def shortened(names: Iterable[str], letters: int = 16, ends: bool = False) -> list[str]:
    """Returns names that are at most so many letters wide; Chinese and Japanese ones count twice.

    `ends`: whether the end is kept, which tells more of a file.
    """

    def width(text: str) -> int:
        return sum(1 + (unicodedata.east_asian_width(letter) in "WF") for letter in text)

    def cut(name: str) -> str:
        if width(name) <= letters:
            return name
        while width(name) >= letters:
            name = name[1:] if ends else name[:-1]
        return f"…{name}" if ends else f"{name}…"

    return [*map(cut, names)]


def png(draw: Draw, width: float, height: float, dpi: int = 120) -> bytes:
    """Returns a figure of so many inches as PNG, in the colours and the type of the project."""
    style = {
        "font.sans-serif": ("Inter", "Helvetica Neue", "Arial", "Liberation Sans", "DejaVu Sans"),
        "axes.titlesize": 11,
        "axes.titlelocation": "left",
        "axes.titleweight": "bold",
        "axes.formatter.useoffset": False,
        "grid.color": THEME.named["line"],
        "text.parse_math": False,  # a path or a class may have a $ in its name
        **dict.fromkeys(("axes.grid", "axes.axisbelow"), True),
        **dict.fromkeys(("axes.spines.top", "axes.spines.right", "legend.frameon"), False),
        **dict.fromkeys(("figure.facecolor", "axes.facecolor"), THEME.named["page"]),
        **dict.fromkeys(("text.color", "axes.labelcolor", "axes.titlecolor"), THEME.named["ink"]),
        **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), THEME.named["muted"]),
    }
    with matplotlib.rc_context(style):
        canvas = Canvas(figsize=(width, height), layout="constrained")
        draw(canvas, THEME)
        # Matplotlib looks for letters that these fonts lack in the further ones.
        matplotlib.rcParams["font.sans-serif"] += glyphs.families(text.get_text() for text in canvas.findobj(Text))
        buffer = io.BytesIO()
        canvas.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
    return buffer.getvalue()


def classifier_curves(name: str, title: str, groups: Mapping[str, Sequence[Run]], ordered: bool = False) -> list[Block]:
    """Returns training loss and accuracy, with panels for each phase and a curve for each run.

    Args:
      groups: label of a colour -> runs.
      ordered: whether the groups are steps of one quantity; they are drawn in shades.
    """
    panels: dict[str, list[Line]] = {}
    for index, (group, own) in enumerate(groups.items(), 1):
        color = index / len(groups) if ordered else identity(own[0]).trained_by
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
    found = [(run, drawn) for run in sorted(runs, key=fraction) if (drawn := run.read(file))[1:4] == b"PNG"]
    first = min((run.get("seed", 0) for run, _ in found), default=0)
    shown = [(title.format(run.place), drawn) for run, drawn in found if run.get("seed", 0) == first]
    return folded([Figure(f"{name}-{i}", caption, drawn, alt) for i, (caption, drawn) in enumerate(shown, 1)], name)
