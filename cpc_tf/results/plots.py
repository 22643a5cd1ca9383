"""The colours of all pictures of the project, its curves and its images."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure as Canvas

from cpc_tf.results.blocks import Figure

FONTS = ("Inter", "Helvetica Neue", "Arial", "Liberation Sans", "DejaVu Sans")
MOST_POINTS = 2000  # of a curve


class Theme(NamedTuple):
    """Colours for light pages and print, or for dark pages.

    Those by name are of the page and of methods: CPC is blue and pixels are red, as in figure 1 of the paper. Further
    curves have `lines`, which colour-blind readers can tell apart (after Okabe and Ito).
    """

    named: Mapping[str, str]
    lines: tuple[str, ...]

    @property
    def css(self) -> str:
        """The colours as variables of a style sheet."""
        return " ".join(f"--{name}: {color};" for name, color in self.named.items())

    def color(self, key: str | int | float) -> Any:
        """Of a method or a part of the page by name, of a curve by index, or a shade of CPC's colour from 0 to 1."""
        if isinstance(key, str):
            return self.named.get(key, self.lines[sum(key.encode()) % len(self.lines)])
        return self.lines[key % len(self.lines)] if isinstance(key, int) else self.shades(0.3)(key)

    def shades(self, faint: float = 0.0) -> LinearSegmentedColormap:
        """From the page's colour (or some way from it) to CPC's."""
        full = LinearSegmentedColormap.from_list("shades", [self.named["page"], self.named["cpc"]])
        return LinearSegmentedColormap.from_list("shades", full(np.linspace(faint, 1, 64)))


NAMES = ("page", "ink", "muted", "line", "cpc", "pixels", "untrained", "labels", "unknown")
LIGHT = Theme(
    dict(zip(NAMES, "#ffffff #1b1f24 #5b6470 #e3e6ea #0b5cad #c62828 #6b7280 #8a6d00 #5b6470".split())),
    ("#0b5cad", "#d55e00", "#00845f", "#b0579a", "#8a6d00", "#2b9bc4", "#5b6470"),
)
DARK = Theme(
    dict(zip(NAMES, "#14181d #e8ebee #a0a9b4 #2c343d #6cb2f7 #ff8577 #a7afb9 #e0c341 #a0a9b4".split())),
    ("#6cb2f7", "#ff9a4d", "#3fcf9f", "#e08fcb", "#e0c341", "#7fd8f5", "#a0a9b4"),
)
# On photographs, whose colours are any: what is right, what is missed, what is wrong, and what does not count.
TRUE, MISSED, RIGHT, WRONG, IGNORED = "#21c77a", "#ff3b30", "#3aa0ff", "#ffb000", "#b8c0c8"
MARKERS = {"pixels": "s", "untrained": "^", "labels": "D"}


class Line(NamedTuple):
    """A curve; `color`: see Theme.color; `low` and `high`: of a band around it."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    color: str | int | float
    style: str = "-"
    low: Sequence[float] = ()
    high: Sequence[float] = ()


class Panel(NamedTuple):
    """Axes with curves; below `level` values are a warning; `ticks`: value -> text; `finish` is called at the end."""

    title: str
    lines: Sequence[Line]
    x_label: str = "step"
    level: float | None = None
    ticks: Mapping[float, str] | None = None
    finish: Callable[[Axes, Theme], Any] = lambda axis, theme: None


def panels(canvas: Canvas, theme: Theme, shown: Sequence[Panel], columns: int, legend: str = "", **share: bool) -> None:
    """Draws curves in panels, with one legend at a side ('right center', 'upper left'; '': none)."""
    columns, entries = min(columns, len(shown)), {}
    axes = canvas.subplots(-(-len(shown) // columns), columns, squeeze=False, **share)
    for axis, panel in zip_longest(axes.flat, shown):
        if panel is None:
            axis.set_visible(False)
            continue
        for line in panel.lines:
            color, step = theme.color(line.color), max(1, len(line.x) // MOST_POINTS)
            marker = MARKERS.get(line.color, "o") if len(line.low) else "." if len(line.x) <= 12 else ""
            style = {"color": color, "marker": marker, "markersize": 5, "linewidth": 1.6}
            (entries[line.label],) = axis.plot(line.x[::step], line.y[::step], line.style, **style)
            if len(line.low):
                axis.fill_between(line.x, line.low, line.high, color=color, alpha=0.18, linewidth=0)
        if panel.level is not None:
            axis.axhline(panel.level, color=theme.named["pixels"], linewidth=1, linestyle="--")
            axis.set_ylim(0, None)
        axis.set(title=panel.title, xlabel=panel.x_label)
        panel.finish(axis, theme)
        if panel.ticks:
            axis.set_xticks(list(panel.ticks), list(panel.ticks.values()), fontsize=8.5)
            axis.minorticks_off()
    if legend and len(entries) > 1:
        columns = 4 if "upper" in legend else 1
        canvas.legend(entries.values(), entries, loc=f"outside {legend}", ncols=columns, fontsize=9)


def curves(
    name: str, title: str, shown: Sequence[Panel], columns: int, size: tuple[float, float], legend: str = ""
) -> Figure:
    """A figure of curves, `columns` panels side by side, `size` inches a row; its text says where the curves end."""
    lines = [(panel, line) for panel in shown for line in panel.lines]
    points = [(panel, line.label, x, y) for panel, line in lines for x, y in zip(line.x, line.y)]
    data = [{"panel": p.title, "curve": label, p.x_label or "x": x, "value": y} for p, label, x, y in points]
    ends = [f"{panel.title} of {line.label}: {line.y[-1]:.3g}" for panel, line in lines if len(line.y)]
    width, height = size[0], size[1] * -(-len(shown) // columns)
    drawn = both(lambda canvas, theme: panels(canvas, theme, shown, columns, legend), width, height)
    return Figure(name, title, *drawn, f"Curves. At the end: {'; '.join(ends[:12])}.", data)


def tile(axis: Axes, image: np.ndarray, title: str = "", frame: str | None = None) -> None:
    """Shows an image with a title and, if it has a colour, a frame."""
    axis.imshow(image)
    axis.set(xticks=[], yticks=[])
    axis.set_title(title, fontsize=8, fontweight="normal")
    axis.grid(visible=False)
    axis.spines[:].set(visible=frame is not None, color=frame or "black", linewidth=3)


def both(draw: Callable[[Canvas, Theme], None], width: float, height: float) -> tuple[bytes, bytes]:
    """A figure of so many inches as PNG, light and dark."""
    return png(draw, width, height, 160), png(draw, width, height, 160, DARK)


def png(
    draw: Callable[[Canvas, Theme], None], width: float, height: float, dpi: int = 120, theme: Theme = LIGHT
) -> bytes:
    """A figure as PNG, in the colours and the type of the project."""
    known = {font.name for font in font_manager.fontManager.ttflist}
    style = {
        "font.family": next(name for name in FONTS if name in known),
        "axes.titlesize": 11,
        "axes.titlelocation": "left",
        "axes.titleweight": "bold",
        "axes.formatter.useoffset": False,
        "grid.color": theme.named["line"],
        "text.parse_math": False,  # a path or a class may have a $ in its name
        **dict.fromkeys(("axes.grid", "axes.axisbelow"), True),
        **dict.fromkeys(("axes.spines.top", "axes.spines.right", "legend.frameon"), False),
        **dict.fromkeys(("figure.facecolor", "axes.facecolor"), theme.named["page"]),
        **dict.fromkeys(("text.color", "axes.labelcolor", "axes.titlecolor"), theme.named["ink"]),
        **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), theme.named["muted"]),
    }
    with matplotlib.rc_context(style):
        canvas = Canvas(figsize=(width, height), layout="constrained")
        draw(canvas, theme)
        buffer = io.BytesIO()
        canvas.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
    return buffer.getvalue()
