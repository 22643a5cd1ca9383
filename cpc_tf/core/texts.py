"""Texts that must fit on one line, and lines of CSV tables: formatted, shortened, checked."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

# How flags name images.
STDOUT = "-"  # value of a flag for an output
PICTURES = (
    "a folder (with its subfolders), an image, several separated by commas, a .txt file with"
    " one path per line, or -"
)

_LONGEST_VALUE = 4096  # characters, as of a path
_SHOWN_VALUE = 80
_SHOWN_WORD = 180
_SHOWN_LINE = 900
# of a list of files
_SHOWN_NAMES = 20
_SHOWN_LETTERS = 600
# Unicode categories: control characters, line ends, and surrogates, such as undecodable bytes of a
# command line.
_NO_TEXT = ("Cc", "Zl", "Zp", "Cs")
# What a spreadsheet runs as a formula (the last four in East Asian width), perhaps behind
# apostrophes, and numbers.
_FORMULA = re.compile(r"'*\s*[=@+\-\uff0b\uff0d\uff1d\uff20]")
_NUMBER = re.compile(r"[+-]?[\d.]+(e[+-]?\d+)? ?%?")
# some spreadsheets take each of the first three for the end of a cell
_QUOTED = re.compile(r'[,;\t\n\r"]')
_PATTERN = "[]*?\\"  # characters with a meaning in patterns of file names


def shown(value: Any) -> str:
    """Returns a value as messages show it: escaped and shortened."""
    return _shortened(escaped(str(value)), _SHOWN_VALUE)


def escaped(text: str) -> str:
    """Returns the text with control characters and undecodable bytes escaped."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def written(text: str) -> str:
    """Returns the text as a file in UTF-8 can have it: with undecodable bytes escaped, and nothing
    else.
    """
    return text.encode(errors="backslashreplace").decode()


def name_lines(names: Iterable[str]) -> str:
    """Returns names as a file with one a line: a name with line breaks is one, too."""
    return "".join(f"{escaped(name)}\n" for name in names)


def listed(names: Sequence[str]) -> str:
    """Returns the first of some names, escaped, and the number of the others."""
    few = []
    letters = 0
    for name in names[:_SHOWN_NAMES]:
        few.append(escaped(name))
        letters += len(few[-1])
        if letters > _SHOWN_LETTERS:
            break
    more = f" and {len(names) - len(few)} more" if len(names) > len(few) else ""
    return ", ".join(few) + more


def csv_lines(rows: Iterable[Iterable[Any]], delimiter: str = ",", end: str = "\n") -> str:
    """Returns rows of cells as lines of CSV.

    An apostrophe is put before texts, such as names of files, that a spreadsheet would run as a
    formula.

    Args:
      rows: of cells.
      delimiter: between cells: a comma, a semicolon or a tab.
      end: of a line.
    """
    return "".join(delimiter.join(map(_cell, row)) + end for row in rows)


def csv_records(records: Sequence[Mapping[str, Any]]) -> str:
    """Returns records as CSV, with a column for each name that occurs."""
    names: dict[str, None] = {}
    for record in records:
        names |= dict.fromkeys(record)
    rows = [map(record.get, names) for record in records]
    return csv_lines([names, *rows])


def _cell(value: Any) -> str:
    text = "" if value is None else str(value)
    if isinstance(value, str) and _FORMULA.match(text) and not _NUMBER.fullmatch(text):
        text = f"'{text}"
    if _QUOTED.search(text):
        text = '"' + text.replace('"', '""') + '"'
    return text


def csv_text(cell: str) -> str:
    """Returns the text that `csv_lines` made this cell of."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def one_line(message: str) -> str:
    """Returns the message as one line: escaped, with long words and the whole shortened."""
    words = (_shortened(word, _SHOWN_WORD) for word in escaped(message).split(" "))
    return _shortened(" ".join(words), _SHOWN_LINE)


def wrong_text(text: str, path: bool = False) -> str:
    """Returns what a text must be; '' if it fits a line of run.flags and, for a path, TensorFlow
    can use it.
    """
    if any(unicodedata.category(letter) in _NO_TEXT for letter in text):
        return "text without control characters"
    if text != text.strip():
        return "without spaces at its ends"
    if len(text) > _LONGEST_VALUE:
        return f"at most {_LONGEST_VALUE} characters long"
    # Web handles are not paths; those of buckets are.
    if path and set(text) & set(_PATTERN) and not text.startswith(("http://", "https://")):
        return (
            f"a path without {' '.join(_PATTERN)}: TensorFlow takes it for a pattern and finds no"
            " checkpoint there"
        )
    return ""


def _shortened(text: str, most: int) -> str:
    """Returns the text, or both its ends if it is longer than `most`."""
    if len(text) <= most:
        return text
    middle = f"... ({len(text)} characters) ..."
    room = most - len(middle)
    return text[: room - room // 3] + middle + text[-(room // 3) :]


def markdown_table(columns: Sequence[Any], rows: Iterable[Sequence[Any]]) -> str:
    """Returns a table in Markdown; the first column has the names of the rows."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
