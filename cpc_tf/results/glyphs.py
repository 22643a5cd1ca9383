"""Texts of any script in pictures: fonts that have their letters, or numbers in place of names."""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Iterable

from absl import logging
from matplotlib.font_manager import fontManager
from matplotlib.ft2font import FT2Font

from cpc_tf.texts import listed

_OWN = "DejaVu Sans"  # comes with Matplotlib
_PLACEHOLDERS = ("last resort", "lastresort", "adobe blank")  # fonts that show every letter as one that is missing


@functools.lru_cache(maxsize=64)
def drawable(names: tuple[str, ...], what: str) -> tuple[str, ...]:
    """The names; those that cannot be drawn are replaced by their number, e.g. 'class 3'. One warning says which.

    A name cannot be drawn if no installed font has all its letters. Nor if it is written from right to left or has
    marks to be joined to letters, since Matplotlib would set them one by one from left to right.

    Args:
      names: any texts, the first has number 0.
      what: what they name, e.g. 'class'.
    """
    shown = tuple(name if _can_be_set(name) else f"{what} {number}" for number, name in enumerate(names))
    replaced = [f"{short} is {name}" for short, name in zip(shown, names) if short != name]
    if replaced:
        logging.warning("numbers are drawn for names that no installed font can show: %s", listed(replaced))
    return shown


def families(texts: Iterable[str]) -> list[str]:
    """Families of installed fonts that have the letters which Matplotlib's own has not."""
    found = (_family(frozenset(text) - _letters(_own())) for text in texts)
    return list(dict.fromkeys(filter(None, found)))


def _can_be_set(name):
    kinds = {unicodedata.category(letter)[0] for letter in name}
    if kinds & {"M", "C"} or {unicodedata.bidirectional(letter) for letter in name} & {"R", "AL"}:
        return False
    missing = frozenset(name) - _letters(_own())
    return not missing or _family(missing) is not None


def _own():
    return next(entry.fname for entry in fontManager.ttflist if entry.name == _OWN)


@functools.lru_cache(maxsize=1024)
def _family(letters):
    """A family of fonts that has all these letters; None if there is none, or no letter."""
    if not letters:
        return None
    # Of a family, Matplotlib takes the upright font of normal weight.
    entries = sorted(fontManager.ttflist, key=lambda entry: (entry.style != "normal", entry.weight != 400, entry.name))
    return next((entry.name for entry in entries if letters <= _letters(entry.fname)), None)


@functools.cache
def _letters(path):
    """The letters that a font can draw."""
    try:
        font = FT2Font(path)
        font.set_size(6, 72)  # fonts of pictures, as of coloured emoji, cannot
        known = frozenset(map(chr, font.get_charmap()))
    except (OSError, RuntimeError):
        return frozenset()
    return frozenset() if font.family_name.lower().startswith(_PLACEHOLDERS) else known
