"""Draws the figures of the project: its colours, letters of any script, PNG files."""

from __future__ import annotations

import functools
import io
import math
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from absl import logging
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure as Canvas
from matplotlib.font_manager import fontManager
from matplotlib.ft2font import FT2Font
from matplotlib.lines import Line2D
from matplotlib.text import Text

from cpc_tf.core.texts import listed


class Theme(NamedTuple):
    """Colours by name, of the page and of what is compared, and `lines` for curves of anything
    else.

    CPC is blue and pixels are red, as in figure 1 of the paper. No colour stands for two things:
    `lines` has none of the named ones.
    """

    named: Mapping[str, str]
    lines: tuple[str, ...]

    @property
    def css(self) -> str:
        """The colours as variables of a style sheet."""
        return " ".join(f"--{name}: {color};" for name, color in self.named.items())

    def color(self, key: str | int | float) -> Any:
        """Returns the colour of a name, of a curve by index or by another name, or a shade from 0
        to 1.
        """
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
        **{
            "page": "#ffffff",
            "ink": "#1b1f24",
            "muted": "#5b6470",
            "line": "#e3e6ea",
            "healthy": "#00845f",
        },
        # What trained an encoder (`Identity.trained_by`), and chance.
        **{
            "cpc": "#0b5cad",
            "rotation": "#b0579a",
            "relative_position": "#2b9bc4",
            "instance": "#d55e00",
        },
        **{
            "pixels": "#c62828",
            "untrained": "#6b7280",
            "labels": "#8a6d00",
            "unknown": "#3d4450",
            "chance": "#c3c8ce",
        },
    },
    ("#6a3d9a", "#1b9e9e", "#a65628", "#5f8a1f"),
)
# Frames on photographs.
TRUE = "#21c77a"
MISSED = "#ff3b30"
RIGHT = "#3aa0ff"
WRONG = "#ffb000"
IGNORED = "#b8c0c8"
MARKERS = {"pixels": "s", "untrained": "^", "labels": "D"}
Draw = Callable[[Canvas, Theme], None]
OWN_FONT = "DejaVu Sans"  # comes with Matplotlib
# fonts that show every letter as a missing one
_PLACEHOLDERS = (
    "last resort",
    "lastresort",
    "adobe blank",
)


class Line(NamedTuple):
    """A curve through `points`, (x, y) or (x, y, low, high); `color` is that of `Theme.color`.

    A bar shows the spread of a point, a band that of neighbours which both have one. A point of a
    single run, low == high, has neither.
    """

    label: str
    points: Sequence[Sequence[float]]
    color: str | int | float
    style: str = "-"

    def draw(self, axis: Axes, theme: Theme) -> Line2D:
        """Draws it on some axes."""
        x, y, *band = np.transpose(self.points) if self.points else ((), ())
        color = theme.color(self.color)
        marker = "." if len(x) <= 12 else ""
        if band:
            marker = MARKERS.get(self.color, "o")
        if band:
            low, high = band
            spread = high > low
            axis.fill_between(x, low, high, where=spread, color=color, alpha=0.18, linewidth=0)
            axis.vlines(x[spread], low[spread], high[spread], color=color, alpha=0.6, linewidth=1.6)
        look = {
            "color": color,
            "marker": marker,
            "markersize": 5,
            "linewidth": 1.6,
            "linestyle": self.style,
        }
        # a marker at the end of the axis, as of 100 %, is drawn whole
        return axis.plot(x, y, clip_on=False, **look)[0]


def grid(canvas: Canvas, count: int, columns: int, **share: bool) -> Sequence[Axes]:
    """Returns `count` axes in at most `columns` columns."""
    columns = min(columns, count)
    axes = canvas.subplots(math.ceil(count / columns), columns, squeeze=False, **share).ravel()
    for axis in axes[count:]:
        axis.set_visible(False)
    return axes[:count]


def shade_healthy(axis: Axes, least: float, theme: Theme) -> None:
    """Shades what is healthy: from a value on upwards, which leaves the limits of the axis as they
    are.
    """
    low, high = axis.get_ylim()
    axis.axhspan(
        least,
        max(high, least),
        color=theme.named["healthy"],
        alpha=0.12,
        linewidth=0,
        label="healthy range",
    )
    axis.set_ylim(low, max(high, 1.1 * least))


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
        matplotlib.rcParams["font.sans-serif"] += families(
            text.get_text() for text in canvas.findobj(Text)
        )
        buffer = io.BytesIO()
        canvas.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
    return buffer.getvalue()


@functools.lru_cache(maxsize=64)
def drawable(names: tuple[str, ...], kind: str) -> tuple[str, ...]:
    """Returns the names, with e.g. 'class 3' for one that cannot be drawn; one warning lists these.

    A name cannot be drawn if no installed font has all its letters, or if it has a separator of
    lines, of which fonts say that they have it. Nor if it is written from right to left or joins
    marks to letters: Matplotlib would set them one by one from left to right.
    """
    drawn = tuple(
        name if _can_be_set(name) else f"{kind} {number}" for number, name in enumerate(names)
    )
    replaced = [f"{short} is {name}" for short, name in zip(drawn, names) if short != name]
    if replaced:
        logging.warning(
            "numbers are drawn for names that no installed font can show: %s", listed(replaced)
        )
    return drawn


def families(texts: Iterable[str]) -> list[str]:
    """Returns families of installed fonts that have the letters which Matplotlib's own font
    lacks.
    """
    return list(dict.fromkeys(filter(None, map(_family, map(_missing, texts)))))


def _can_be_set(name: str) -> bool:
    for letter in name:
        kind = unicodedata.category(letter)
        if kind[0] in "MC" or kind in ("Zl", "Zp"):
            return False
        if unicodedata.bidirectional(letter) in ("R", "AL"):
            return False
    return not _missing(name) or _family(_missing(name)) is not None


def _missing(text: str) -> frozenset[str]:
    font = next(entry.fname for entry in fontManager.ttflist if entry.name == OWN_FONT)
    return frozenset(text) - _letters(font)


@functools.lru_cache(maxsize=1024)
def _family(letters: frozenset[str]) -> str | None:
    """Returns a family of fonts that has all these letters; None if there is none, or no letter."""
    # Of a family, Matplotlib takes the upright font of normal weight.
    entries = sorted(
        fontManager.ttflist,
        key=lambda entry: (entry.style != "normal", entry.weight != 400, entry.name),
    )
    return (
        next((entry.name for entry in entries if letters <= _letters(entry.fname)), None)
        if letters
        else None
    )


@functools.cache
def _letters(path: str) -> frozenset[str]:
    """Returns the letters that a font can draw."""
    try:
        font = FT2Font(path)
        font.set_size(6, 72)  # bitmap fonts, such as coloured emoji, cannot
        letters = frozenset(map(chr, font.get_charmap()))
    except (OSError, RuntimeError):
        return frozenset()
    return frozenset() if font.family_name.lower().startswith(_PLACEHOLDERS) else letters
