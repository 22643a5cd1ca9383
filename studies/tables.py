"""Markdown tables of records: means over runs with their standard deviation and number."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from cpc_tf.core.texts import markdown_table


def spread(values: Iterable[float]) -> str:
    """Fractions in percent: '76.6 ± 6.6, n=3' is a mean and the standard deviation of a sample,
    '76.6' one value.
    """
    values = [100 * value for value in values]
    if not values:
        return "-"
    mean = f"{statistics.fmean(values):.1f}"
    return f"{mean} ± {statistics.stdev(values):.1f}, n={len(values)}" if len(values) > 1 else mean


def table(records: Sequence[dict], rows: Sequence[str], column: str, value: str = "top1") -> str:
    """A line for each combination of the fields `rows`, a column for each value of `column`."""
    cells: dict[tuple, dict] = {}
    for record in records:
        at = cells.setdefault(tuple(record[name] for name in rows), {})
        at.setdefault(record[column], []).append(record[value])
    columns = list(dict.fromkeys(record[column] for record in records))
    lines = [
        [", ".join(map(str, row)), *(spread(own.get(c, ())) for c in columns)]
        for row, own in cells.items()
    ]
    return markdown_table([", ".join(rows), *columns], lines)
