"""Markdown tables of records: means over runs with their standard deviation and number."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from cpc_tf.core.texts import markdown_table

# Images of a study, or the study -> what runs of several seeds are: what differs between them.
OVER = {
    "photos": "encoders, each with its own labels",
    "imagenette-224": "encoders, each with its own labels",
    "imagenette-128px": "choices of labels, on one encoder",
    "photos-128px": "choices of labels, on one encoder",
    "transfer": "choices of labels, at 64 px with an encoder each",
    "augmentation": "encoders",
    "ladder": "encoders",
    "label": "choices of four fifths of the images",
    "encoders": "draws of the labels",
    "detection": "encoders at 64 px, detectors on one encoder at 128 px",
    "collages": "encoders, each with its own detector",
    "bccd-voc": "encoders, each with its own detector",
    "collages-128px": "detectors, on one encoder of each kind",
    "bccd-voc-128px": "detectors, on one encoder of each kind",
}


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
