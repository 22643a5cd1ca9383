"""The cells of a table of labels: which classes a text names."""

from __future__ import annotations

import collections
import json
import re
import unicodedata
from collections.abc import Collection
from typing import Any

NO_CLASS = "no class"  # says that a picture has none of the classes; a blank says that it has no label yet
_SEPARATOR = ";"
# Of other separators, some stand in the names of classes, too: 'black & white', 'crane, bird'.
_OTHERS = ("|", ",", "/", "+", "&", ":", "\\", "\t", "\n", "\uff1b", "\uff0c", "\u3001", "\uff5c")
_SURE = ("|", "\t", "\n", "\uff1b", "\uff5c")
_QUOTED = r"""(?:'[^']*'|"[^"]*")"""
_LIST = re.compile(rf"\[\s*{_QUOTED}(?:\s*,\s*{_QUOTED})*\s*\]")  # as Python prints it


def composed(text: str) -> str:
    """Returns the text with its accents composed."""
    return unicodedata.normalize("NFC", text)


def classes(text: str) -> tuple[str, ...] | None:
    """Returns the classes of a picture: `cat`, `cat;dog`, `["cat", "dog"]`; () for `no class`, None for a blank.

    Raises:
      ValueError: the text can be understood in two ways; the message goes on after 'line 3'.
    """
    text = text.strip()
    is_list = text[:1] + text[-1:] in ("[]", "{}")
    names = _of_list(text) if is_list else text.split(_SEPARATOR)
    found = tuple(dict.fromkeys(composed(name.strip()) for name in names if name.strip()))
    if not any(name.casefold() == NO_CLASS for name in found):
        return found or None
    if len(found) > 1:
        raise ValueError(f"has {NO_CLASS} beside a class")
    return ()


def joined(found: Collection[str]) -> tuple[str, str] | None:
    """Returns a name that joins other classes by a separator, with this separator; None if there is none.

    Args:
      found: the classes of a table.
    """
    for separator in _OTHERS:
        parts = {name: [part.strip() for part in name.split(separator)] for name in found if separator in name}
        parts = {name: own for name, own in parts.items() if len(own) > 1 and all(own)}
        alone = {*found} - {*parts}
        joints = collections.Counter(part for own in parts.values() for part in {*own})
        enough = any if separator in _SURE else all
        for name, own in parts.items():
            if enough(part in alone or joints[part] > 1 for part in own):
                return name, separator
    return _joined_by_spaces(found)


def _joined_by_spaces(found):
    """As `joined`: names of several words are usual, so all must be classes, or few words make up many names."""
    parts = {name: name.split(" ") for name in found if " " in name}
    words = {word for own in parts.values() for word in own}
    for name, own in parts.items():
        if {*own} <= {*found} or 3 * len(words) <= len(parts):
            return name, " "
    return None


def _of_list(text):
    content: Any = None
    try:
        content = json.loads(text, parse_int=str, parse_float=str)
        if isinstance(content, dict) and len(content) == 1:  # {"choices": ["cat", "dog"]}, as Label Studio writes it
            (content,) = content.values()
    except (ValueError, RecursionError):
        if _LIST.fullmatch(text):
            content = [quoted[1:-1] for quoted in re.findall(_QUOTED, text)]
    if content == [] or not isinstance(content, list) or not all(isinstance(name, str) for name in content):
        empty = f"an empty list; write {NO_CLASS}, or leave it blank if there is no label yet"
        raise ValueError(f"has {empty if content == [] else f'the list {text}; write several classes as cat;dog'}")
    return content
