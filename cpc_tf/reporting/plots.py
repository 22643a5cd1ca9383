"""How figures look: one set of colours for light pages and paper, one for dark pages."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable

import matplotlib
import numpy as np
from matplotlib import font_manager
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

FONTS = ("Inter", "Helvetica Neue", "Arial", "Liberation Sans", "DejaVu Sans")
DPI = 200


@dataclasses.dataclass(frozen=True)
class Theme:
    """Colours. CPC is blue and pixels are red, as in figure 1 of the paper; markers differ, too."""

    page: str
    ink: str
    muted: str
    grid: str
    roles: dict[str, str]
    lines: tuple[str, ...]
    """Of further curves, told apart by colour-blind readers (after Okabe and Ito)."""

    def shades(self, *, faint: float = 0.0) -> LinearSegmentedColormap:
        """From the page's colour (or some way from it) to CPC's."""
        full = LinearSegmentedColormap.from_list("shades", [self.page, self.roles["cpc"]])
        return LinearSegmentedColormap.from_list("shades", full(np.linspace(faint, 1, 64)))


LIGHT = Theme(
    page="#ffffff",
    ink="#1b1f24",
    muted="#5b6470",
    grid="#e3e6ea",
    roles={"cpc": "#0b5cad", "pixels": "#c62828", "random": "#6b7280", "supervised": "#8a6d00"},
    lines=("#0b5cad", "#d55e00", "#00845f", "#b0579a", "#8a6d00", "#2b9bc4", "#5b6470"),
)
DARK = Theme(
    page="#14181d",
    ink="#e8ebee",
    muted="#a0a9b4",
    grid="#2c343d",
    roles={"cpc": "#6cb2f7", "pixels": "#ff8577", "random": "#a7afb9", "supervised": "#e0c341"},
    lines=("#6cb2f7", "#ff9a4d", "#3fcf9f", "#e08fcb", "#e0c341", "#7fd8f5", "#a0a9b4"),
)
MARKERS = {"cpc": "o", "pixels": "s", "random": "^", "supervised": "D"}
DASHES = ("-", "--", ":", "-.")


def both(draw: Callable[[Figure, Theme], None], width: float, height: float, dpi: int = DPI) -> tuple[bytes, bytes]:
    """A figure of so many inches as PNG, light and dark."""
    return _png(draw, LIGHT, width, height, dpi), _png(draw, DARK, width, height, dpi)


def _png(draw: Callable[[Figure, Theme], None], theme: Theme, width: float, height: float, dpi: int) -> bytes:
    known = {font.name for font in font_manager.fontManager.ttflist}
    style = {
        "font.family": next(name for name in FONTS if name in known),
        "font.size": 10,
        "figure.facecolor": theme.page,
        "axes.facecolor": theme.page,
        "axes.edgecolor": theme.muted,
        "axes.labelcolor": theme.ink,
        "axes.titlecolor": theme.ink,
        "axes.titlesize": 11,
        "axes.titlelocation": "left",
        "axes.titleweight": "bold",
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "grid.color": theme.grid,
        "grid.linewidth": 0.8,
        "text.color": theme.ink,
        "xtick.color": theme.muted,
        "ytick.color": theme.muted,
        "legend.frameon": False,
        "axes.formatter.useoffset": False,
        "text.parse_math": False,  # a path or a class may have a $ in its name
    }
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure, theme)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
    return buffer.getvalue()
