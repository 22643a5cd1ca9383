"""What the report is made of, before it is a page: tables, figures, gaps, in parts that the tasks contribute."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Union

from cpc_tf.results.values import Cell, cell, plain, spread


class Gap(NamedTuple):
    """What is missing, and how to measure it: a preset with the flags that differ, or a study; '' if there is none."""

    what: str
    how: str = ""


class Row(NamedTuple):
    """A line of a table: its name and values.

    Attributes:
      source: 'measured', 'paper', 'gain', 'paper gain', 'chance'; 'group' or 'subgroup' for a line that heads others.
    """

    values: Sequence[Any]
    source: str = "measured"


class Table(NamedTuple):
    """A table.

    Attributes:
      name: of its CSV file.
      columns: titles; the first is that of the rows' names.
      words: indices of further columns that hold words.
      all_data: what the CSV file holds; by default what is shown.
    """

    name: str
    title: str
    columns: Sequence[str | Cell]
    rows: Sequence[Row]
    note: str = ""
    words: Sequence[int] = ()
    all_data: Sequence[dict[str, Any]] = ()

    @property
    def mixed(self) -> bool:
        """Whether rows of the paper stand beside ours."""
        return any("paper" in row.source for row in self.rows)

    @property
    def data(self) -> Sequence[dict[str, Any]]:
        """A record a row, unrounded."""
        records, record = [], {"group": ""}
        for values, source in self.rows:
            record = {"source": source, "group": values[0] if "group" in source else record["group"]}
            for column, value in zip(self.columns, values):
                record |= plain(cell(column).text, value)
            records += [record] * ("group" not in source)
        return self.all_data or records


class Figure(NamedTuple):
    """One or more pictures side by side, drawn for light and for dark pages.

    Attributes:
      name: of its files.
      pictures: ending of the name of a PNG file -> the PNG for light pages, and for dark ones; b'' if it is the same.
      alt: what they show, for readers who cannot see it.
      data: what the CSV file holds; empty: no file.
    """

    name: str
    title: str
    pictures: dict[str, tuple[bytes, bytes]]
    alt: str
    data: Sequence[dict[str, Any]] = ()


class Details(NamedTuple):
    """Blocks behind a line that opens them; in print they are open."""

    title: str
    blocks: Sequence[Block]
    open: bool = False


Block = Union[Table, Figure, Gap, Details]


class Part(NamedTuple):
    """What a task contributes to a subject of the page.

    Attributes:
      order: of the contribution on the page.
      name, title: of the subject; several tasks may contribute to one.
      headline: sentences that say what was found.
    """

    order: int
    name: str
    title: str
    blocks: Sequence[Block]
    headline: Sequence[str] = ()


# Subjects to which several tasks contribute.
FEATURES = ("features", "What the encoder saw, and what it finds similar")
TRAINING = ("training", "Training")


def paper_rows(groups: dict[str, Sequence[tuple]], suffix: str = "", heading: str = "group") -> list[Row]:
    """Rows of the paper under their headings; floats among the values are percent."""
    rows = []
    for group, lines in groups.items():
        rows += [Row([group + suffix], heading)] if group else []
        for line in lines:
            rows.append(Row([spread([x / 100]) if isinstance(x, float) else x for x in line], "paper"))
    return rows


def flat(blocks: Iterable[Block]) -> list[Block]:
    """All blocks, those behind details too."""
    return [b for block in blocks for b in (block, *(flat(block.blocks) if isinstance(block, Details) else ()))]


def to_csv(data: Sequence[dict[str, Any]]) -> str:
    """Records as CSV; a column for each name that occurs."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, dict.fromkeys(name for record in data for name in record), lineterminator="\n")
    writer.writeheader()
    writer.writerows(data)
    return buffer.getvalue()
