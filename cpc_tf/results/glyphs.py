"""Texts of any script in figures: fonts that have their letters, or numbers in place of names."""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Iterable

from absl import logging
from matplotlib.font_manager import fontManager
from matplotlib.ft2font import FT2Font

from cpc_tf.texts import listed

_OWN = "DejaVu Sans"  # comes with Matplotlib
_PLACEHOLDERS = ("last resort", "lastresort", "adobe blank")  # fonts that show every letter as a missing one


@functools.lru_cache(maxsize=64)
def drawable(names: tuple[str, ...], what: str) -> tuple[str, ...]:
    """Returns the names, with e.g. 'class 3' for one that cannot be drawn; one warning lists these.

    A name cannot be drawn if no installed font has all its letters. Nor if it is written from right to left or joins
    marks to letters: Matplotlib would set them one by one from left to right.
    """
    shown = tuple(name if _can_be_set(name) else f"{what} {number}" for number, name in enumerate(names))
    replaced = [f"{short} is {name}" for short, name in zip(shown, names) if short != name]
    if replaced:
        logging.warning("numbers are drawn for names that no installed font can show: %s", listed(replaced))
    return shown


def families(texts: Iterable[str]) -> list[str]:
    """Returns families of installed fonts that have the letters which Matplotlib's own font lacks."""
    return list(dict.fromkeys(filter(None, map(_family, map(_missing, texts)))))


def _can_be_set(name: str) -> bool:
    if any(unicodedata.category(x)[0] in "MC" or unicodedata.bidirectional(x) in ("R", "AL") for x in name):
        return False
    return not _missing(name) or _family(_missing(name)) is not None


def _missing(text: str) -> frozenset[str]:
    own = next(entry.fname for entry in fontManager.ttflist if entry.name == _OWN)
    return frozenset(text) - _letters(own)


@functools.lru_cache(maxsize=1024)
def _family(letters: frozenset[str]) -> str | None:
    """Returns a family of fonts that has all these letters; None if there is none, or no letter."""
    # Of a family, Matplotlib takes the upright font of normal weight.
    entries = sorted(fontManager.ttflist, key=lambda entry: (entry.style != "normal", entry.weight != 400, entry.name))
    return next((entry.name for entry in entries if letters <= _letters(entry.fname)), None) if letters else None


@functools.cache
def _letters(path: str) -> frozenset[str]:
    """Returns the letters that a font can draw."""
    try:
        font = FT2Font(path)
        font.set_size(6, 72)  # bitmap fonts, such as coloured emoji, cannot
        known = frozenset(map(chr, font.get_charmap()))
    except (OSError, RuntimeError):
        return frozenset()
    return frozenset() if font.family_name.lower().startswith(_PLACEHOLDERS) else known
