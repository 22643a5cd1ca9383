"""What the report is made of, before it is a page: texts, tables, figures, gaps."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Sequence
from typing import Any, Union


@dataclasses.dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str
    kind: str = "text"


@dataclasses.dataclass(frozen=True)
class Cell:
    """A cell with something smaller beside the figure: a spread after it, or a word above it."""

    text: str
    small: str = ""
    above: str = ""


@dataclasses.dataclass(frozen=True)
class Row:
    """A line of a table.

    Attributes:
      cells: the first is the row's name.
      source: 'measured', 'paper', 'gain', 'paper gain', 'chance'; 'group' or 'subgroup' for a line that heads others.
    """

    cells: Sequence[str | Cell]
    source: str = "measured"


@dataclasses.dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
      name: of its CSV file.
      columns: titles; the first is that of the rows' names.
      words: the numbers of the columns, beside the first, that hold words.
      data: what the CSV file holds, unrounded.
    """

    name: str
    title: str
    columns: Sequence[str | Cell]
    rows: Sequence[Row]
    data: Sequence[dict[str, Any]]
    note: str = ""
    words: Sequence[int] = ()
    kind: str = "table"

    @property
    def mixed(self) -> bool:
        """Whether lines of the paper stand beside ours."""
        return any("paper" in row.source for row in self.rows)


@dataclasses.dataclass(frozen=True)
class Figure:
    """One or more pictures side by side, drawn for light and for dark pages.

    Attributes:
      name: of its files.
      pictures: what follows the name in that of a PNG file -> the PNG for light pages, and for dark ones; photographs
        are the same on both and have no second.
      alt: what they show, for whoever cannot see it.
      data: what the CSV file holds; empty: no file.
    """

    name: str
    title: str
    pictures: dict[str, tuple[bytes, bytes]]
    alt: str
    data: Sequence[dict[str, Any]] = ()
    kind: str = "figure"


@dataclasses.dataclass(frozen=True)
class Gap:
    """What is missing, and the commands that would fill it."""

    what: str
    commands: Sequence[str]
    kind: str = "gap"


@dataclasses.dataclass(frozen=True)
class Details:
    """Blocks behind a line that opens them; on paper they are open."""

    title: str
    blocks: Sequence[Block]
    open: bool = False
    kind: str = "details"


Block = Union[Text, Table, Figure, Gap, Details]


@dataclasses.dataclass(frozen=True)
class Subject:
    """A part of a section."""

    name: str
    title: str
    blocks: Sequence[Block]


@dataclasses.dataclass(frozen=True)
class Section:
    """A dataset.

    Attributes:
      slug: its name as files and anchors have it; of no other section.
      headline: what was found, a sentence each.
    """

    name: str
    slug: str
    headline: Sequence[str]
    subjects: Sequence[Subject]

    def blocks(self) -> list[Block]:
        """All blocks, those behind details, too."""
        todo = [block for subject in self.subjects for block in subject.blocks]
        for block in todo:
            if isinstance(block, Details):
                todo.extend(block.blocks)
        return todo


def to_csv(data: Sequence[dict[str, Any]]) -> str:
    """Records as CSV; a column for each name that occurs."""
    names = list(dict.fromkeys(name for record in data for name in record))
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(data)
    return buffer.getvalue()
