"""Prints what is understood of pictures and their labels or boxes before anything trains, and writes it as a table.

    cpc-tf data --labelled=my_pictures --labels=labels.csv --output=understood.csv

The table has a line for each picture: file, split, label, group, the file that it is a copy of, its size as shown, and
its bytes. It can be given back as --labels.
"""

from __future__ import annotations

import collections
import dataclasses
from typing import TYPE_CHECKING

from cpc_tf.data.config import LEFT_OUT, PicturesConfig
from cpc_tf.settings import ConfigError, Settings, setting

if TYPE_CHECKING:
    import numpy as np

    from cpc_tf.data.table import Table


@dataclasses.dataclass(frozen=True)
class ListingConfig(Settings):
    """Pictures, and where the table goes."""

    output: str = setting("", "CSV file to write, with a line for each picture; empty: none")
    data: PicturesConfig = PicturesConfig()


def listing(config: ListingConfig) -> None:
    """Prints counts of each class and split, sizes, broken files, the range of values, copies and groups.

    Raises:
      ConfigError: as a training on these pictures; no folder is named; the table cannot be written.
    """
    # TensorFlow, which settings do without.
    import numpy as np

    from cpc_tf.data import check, draws
    from cpc_tf.files import write_file
    from cpc_tf.texts import csv_lines, one_line

    table, texts, lines = _labelled(config.data) if config.data.origin.startswith("folder:") else _boxes(config.data)
    present = np.flatnonzero(table.files != "").tolist()
    rows, _, sizes = check.usable(config.data, table, present)
    split_of: dict[int, list[str]] = {row: [] for row in present}
    for split, own in table.splits.items():
        for row in own.tolist():
            split_of.get(row, []).append(split)
    shown = np.where(sizes[:, 2:] >= 5, sizes[:, 1::-1], sizes[:, :2])  # turned as EXIF says
    if len(rows):
        least, middle, most = (f"{h:g} x {w:g}" for h, w in np.quantile(shown, [0, 0.5, 1], axis=0))
        lines.append(f"height x width: from {least} to {most} px, median {middle} px")
    copies = draws.copies(table, rows)
    if again := [row for row, first in copies.items() if row != first]:
        pairs = [f"{table.files[row]} ({table.files[copies[row]]})" for row in again[:3]]
        be = "pictures are copies of others" if len(again) > 1 else "picture is a copy of another"
        lines.append(f"{len(again)} {be}, e.g. {', '.join(pairs)}")
    if groups := collections.Counter(table.group_of(rows).values()):
        many = "s" * (len(groups) > 1)
        lines.append(f"{sum(groups.values())} pictures are in {len(groups)} group{many} of --labels")
    if len(rows) < len(present):
        lines.append(f"{len(present) - len(rows)} of {len(present)} pictures are broken or huge and will be left out")
    print("\n".join([one_line(table.flag), *(f"  {one_line(line)}" for line in lines)]))
    if config.output:
        header = ("file", "split", "label", "group", "copy_of", "height", "width", "bytes")
        cells = (
            (table.files[row], ";".join(split_of[row]), texts[row], table.groups[row], first, *size, size_of)
            for row, size, size_of, first in zip(
                rows,
                shown.tolist(),
                table.stats[rows, 0].tolist(),
                (table.files[copies[row]] if copies.get(row, row) != row else "" for row in rows),
            )
        )
        write_file(config.output, csv_lines([header, *cells]))
        print(f"done: {config.output} ({len(rows)} pictures)")


def _labelled(data: PicturesConfig) -> tuple[Table, np.ndarray, list[str]]:
    """Returns pictures in folders, the label of each as --labels has it, and lines on their splits and classes."""
    from cpc_tf.data import classes, folder, names
    from cpc_tf.data.labels import NO_CLASS

    table = folder.table_of(data)
    known = classes.named(table, [*table.splits], data.ambiguous_folders)
    if table.labels is None:
        texts = classes.strata(table, [split for split in table.splits if not names.is_unlabelled(split)])
        if data.ambiguous_folders == LEFT_OUT:
            texts = ["" if names.is_doubtful(text) else text for text in texts]
        labels_of = [(text,) if text else () for text in texts]
    else:
        labels_of = [labels or () for labels in table.labels]
        texts = ["" if labels is None else ";".join(labels) or NO_CLASS for labels in table.labels]
    lines = []
    for split, rows in table.splits.items():
        counts = collections.Counter(name for row in rows for name in labels_of[row])
        of = f" of {classes.described(dict(sorted(counts.items())))}" if counts else ""
        bare = sum(not texts[row] for row in rows)
        lines.append(f"{split}: {len(rows)} pictures{of}{f'; {bare} without a label' if bare else ''}")
    lines += [*table.notes, *known.lines]
    if known.trouble:
        lines.append(f"nothing to classify: {known.trouble}")
    if known.doubtful:
        lines.append(f"may be no classes: {', '.join(known.doubtful)}; see --ambiguous_folders")
    return table, texts, lines


def _boxes(data: PicturesConfig) -> tuple[Table, list[str], list[str]]:
    """Returns pictures with boxes, the classes of each, and lines on their splits and objects."""
    from cpc_tf.boxes import catalog as boxes
    from cpc_tf.data import classes

    if data.origin.partition(":")[0] not in boxes.READERS or ":" not in data.origin:
        raise ConfigError(
            f"{data.flag}: does not name your own pictures; name them by --labelled=FOLDER, --unlabelled=FOLDER or "
            "--dataset=folder:PATH, voc:PATH, coco:PATH or yolo:PATH"
        )
    folder = boxes.read(data)
    table, _ = boxes.table_of(data, folder, [data.split, "test"])
    annotations = [folder.annotations.get(key, "no annotation") for key in table.names]
    objects = [[] if isinstance(each, str) else each.names for each in annotations]
    lines = []
    for split, rows in table.splits.items():
        counts = collections.Counter(name for row in rows for name in objects[row])
        absent = sum(isinstance(annotations[row], str) for row in rows)
        without = f"; {absent} without a readable annotation" if absent else ""
        described = classes.described(dict(sorted(counts.items())))
        lines.append(f"{split}: {len(rows)} pictures, {sum(counts.values())} boxes of {described}{without}")
    return table, [";".join(sorted({*each})) for each in objects], [*lines, *table.notes]
