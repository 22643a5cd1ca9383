"""What the report is made of before it is a page: values, tables, figures, gaps, and the parts of the tasks."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Union

# What a spreadsheet may run, and what of it is only a number.
FORMULA, SIGNED = re.compile(r"\s*[=@+-]"), re.compile(r"[+-][\d.]+ ?%?")


class Spread(NamedTuple):
    """Fractions (0 to 1) that several seeds gave."""

    mean: float
    low: float
    high: float
    runs: int

    def __str__(self) -> str:
        return f"{100 * self.mean:.1f}"


class Gain(NamedTuple):
    """`factor` times as many labels; `bound` is 'more than' or 'less than' where the baseline ends before, else ''."""

    factor: float
    bound: str = ""

    def __str__(self) -> str:
        factor = f"{self.factor:.2g}" if self.factor < 10 else f"{self.factor:.0f}"
        return f"{self.bound} {factor}".lstrip()


class Row(NamedTuple):
    """A line of a table, its name first; `source`: 'measured', 'paper', 'gain', 'aside'; `group`: the heading above."""

    values: Sequence[Any]
    source: str = "measured"
    group: str = ""


class Table(NamedTuple):
    """A table, and the name of its CSV file; the first column is that of the rows' names."""

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Row]
    note: str = ""

    @property
    def words(self) -> set[int]:
        """Indices of the further columns that hold words."""
        cells = ((i, value) for row in self.rows for i, value in enumerate(row.values) if i)
        return {i for i, value in cells if isinstance(value, str) and value[:1].isalpha()}

    @property
    def data(self) -> list[dict[str, Any]]:
        """A record a row, unrounded; of a spread or a gain each field."""
        records = []
        for values, source, group in self.rows:
            records.append({"source": source, "group": group})
            for column, value in zip(self.columns, values):
                parts = value._asdict() if isinstance(value, (Spread, Gain)) else {}
                records[-1][column] = round(value[0], 6) if parts else value
                records[-1] |= {f"{column} {name}": part for name, part in list(parts.items())[1:]}
        return records


class Figure(NamedTuple):
    """A picture as PNG for light pages, and for dark ones unless it is the same; what it shows as text and as data."""

    name: str
    title: str
    light: bytes
    dark: bytes
    alt: str
    data: Sequence[dict[str, Any]] = ()


class Gap(NamedTuple):
    """What is missing, and how to measure it: a preset with the flags that differ, or a study; '' if there is none."""

    what: str
    how: str = ""


class Details(NamedTuple):
    """Blocks behind a line that opens them; in print they are open."""

    title: str
    blocks: Sequence[Block]


Block = Union[Table, Figure, Gap, Details]


class Part(NamedTuple):
    """What a task contributes to the page, by `order`: blocks for a subject, which several may share; headlines."""

    order: int
    name: str
    title: str
    blocks: Sequence[Block]
    headline: Sequence[str] = ()


# Subjects to which several tasks contribute.
FEATURES = ("features", "What the encoder saw, and what it finds similar")
TRAINING = ("training", "Training")


def spread(values: Iterable[float]) -> Spread | None:
    """Of some values; None of none."""
    values = list(values)
    return Spread(sum(values) / len(values), min(values), max(values), len(values)) if values else None


def text(value: Any) -> str:
    """A value as a table shows it: spreads in percent, counts with separators, floats with three digits."""
    if isinstance(value, Spread):
        return f"{value} ±{50 * (value.high - value.low):.1f}" if value.runs > 1 else str(value)
    if isinstance(value, Gain):
        return f"{value}\N{MULTIPLICATION SIGN}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return "\N{EN DASH}" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def percent(fraction: float) -> str:
    """'1 %', with as many digits as it needs."""
    return f"{100 * fraction:.3g} %"


def paper_rows(groups: Mapping[str, Sequence[tuple]], suffix: str = "") -> list[Row]:
    """Rows of the paper under their headings; floats among the values are percent."""
    return [
        Row([spread([x / 100]) if isinstance(x, float) else x for x in line], "paper", group + suffix)
        for group, lines in groups.items()
        for line in lines
    ]


def folded(blocks: Sequence[Block], title: str) -> list[Block]:
    """The first block, the others behind a line."""
    return [*blocks[:1], *([Details(f"{len(blocks) - 1} more: {title}", blocks[1:])] if blocks[1:] else [])]


def flat(blocks: Iterable[Block]) -> list[Block]:
    """All blocks, those behind details too."""
    return [b for block in blocks for b in (block, *(flat(block.blocks) if isinstance(block, Details) else ()))]


def to_csv(data: Sequence[dict[str, Any]]) -> str:
    """Records as CSV; a column for each name that occurs.

    A text that a spreadsheet would take for a formula begins with an apostrophe, which tells it that it is none.
    """

    def harmless(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        value = value.replace("\r", " ")  # which csv leaves unquoted
        return f"'{value}" if FORMULA.match(value) and not SIGNED.fullmatch(value) else value

    names = dict.fromkeys(name for record in data for name in record)
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(map(harmless, names))
    writer.writerows([harmless(record.get(name)) for name in names] for record in data)
    return buffer.getvalue()
