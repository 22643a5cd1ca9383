"""Names of files in messages of one line."""

from __future__ import annotations

from collections.abc import Sequence

_NAMES, _LETTERS = 20, 600  # in a message


def shown(text: str) -> str:
    """The text on one line: what cannot be printed (line ends, bytes that are no UTF-8) is escaped."""
    return text if text.isprintable() else ascii(text)[1:-1]


def listed(names: Sequence[str]) -> str:
    """The first of some names, and how many more there are."""
    few, letters = [], 0
    for name in names[:_NAMES]:
        few.append(shown(name))
        letters += len(few[-1])
        if letters > _LETTERS:
            break
    more = f" and {len(names) - len(few)} more" if len(names) > len(few) else ""
    return ", ".join(few) + more
