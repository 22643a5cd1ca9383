"""The images of a folder, with labels and splits; a test held out where there is none; slices of
splits.

Slices are cut from an order that depends on the seed and on the names of the images alone, not on
the disk, the machine or the task. An image that is added later hardly changes the order of the
others.
"""

from __future__ import annotations

import collections
import dataclasses
import re
import types
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import tensorflow_datasets as tfds

from cpc_tf.core.settings import ConfigError
from cpc_tf.core.texts import listed
from cpc_tf.data import classes, draws, labels, names, walk
from cpc_tf.data.config import DataConfig, PicturesConfig
from cpc_tf.data.source import SplitError
from cpc_tf.data.table import Table, is_test, split_folders, top_of

TEST_PART = 0.2  # of each class, where a folder has no split to test on
_PIECE = re.compile(r"\s*(?P<split>[^\[\]]*?)\s*(?:\[(?P<slice>[-\d_.%:]*)\])?\s*")


def read(data: DataConfig) -> Table:
    """Returns the images of --labelled=PATH or --dataset=folder:PATH with labels and splits, one of
    them a test.

    Raises:
      ConfigError: as `find`.
    """
    return divided(find(data), data)


def find(data: DataConfig) -> Table:
    """Finds the images of --labelled=PATH or --dataset=folder:PATH, their labels in --labels, and
    their splits.

    Raises:
      ConfigError: no such folder, no images in it, its folders can be splits as well as classes, or
        as `labels.add`.
    """
    root = walk.folder_at(data.ref.path, data.flag)
    paths = walk.images(root)
    if not paths:
        kinds = " ".join(walk.EXTENSIONS)
        raise ConfigError(
            f"{data.flag}: no images in it or in its folders; extensions that are read: {kinds}"
        )
    takes_tables = isinstance(data, PicturesConfig)
    base = top_of(paths)
    splits = split_folders(paths, data)
    bases = {split: f"{base}{split}/" for split in splits}
    untested = ""
    if not (takes_tables and data.labelled):
        untested = f"--labelled={data.ref.path} instead tests on a fifth of each class"
    table = Table(
        root,
        np.array(paths, object),
        splits or {"train": np.arange(len(paths))},
        bases or {"train": base},
        data.flag,
        base=base,
        untested=untested,
        cache_dir=data.data_dir,
        max_megapixels=data.max_megapixels,
    )
    return labels.add(table, data) if takes_tables and data.labels else table


def divided(table: Table, data: DataConfig) -> Table:
    """Returns the images of a folder with a split to test on, if they are of --labelled and have
    none.

    That is a fifth of the images of each class, drawn by `data.split_seed`, which is the same in
    all tasks, so that none learns from what another tests on.
    """
    if not (isinstance(data, PicturesConfig) and data.labelled and data.draws_test):
        return table
    table = dataclasses.replace(table, one_test=True)
    train = table.find("train")
    if train is None or any(map(is_test, table.splits)):
        return table
    note = "no folder val or test: a fifth of each class is the split test"
    return with_test(table, train, data.split_seed, note)


def with_test(table: Table, train: str, seed: int, note: str) -> Table:
    """Returns the images with a part of a split held out to test on, as the split `test`.

    Args:
      table: the images. It stays as it is if no class has two of them.
      train: the split that the test is drawn from; it keeps the others.
      seed: of the draw.
      note: a line for the user, which the seed is added to.
    """
    # Draw it.
    rows = table.splits[train].tolist()
    class_of = classes.strata(table, [train])
    labelled = sorted(row for row in rows if class_of[row])
    together = draws.groups_of(table, sorted(rows), labelled)
    class_of = np.where(table.accepted, "", class_of)  # no test is drawn from guesses
    test = {*draws.held_out(table.keys, rows, class_of, seed, TEST_PART, together)}
    if not test:
        return table
    if table.labels is not None:
        # Images without a label go with their group: the encoder must not see it either.
        groups = {together[row] for row in test if row in together}
        test |= {row for row in rows if together.get(row) in groups}

    # Say so.
    notes = [f"{note}, drawn with seed {seed}"]
    if together:
        count = len({*together.values()})
        groups = f"{count} group{'s' * (count > 1)}"
        by_table = "of --labels or " if table.group_of(rows) else ""
        notes.append(
            f"kept together: {len(together)} images in {groups}, {by_table}of copies of one image"
        )

    # Divide the split; what is said of it holds for its test.
    tested = np.array(sorted(row for row in test if not table.accepted[row]), np.int64)
    rest = np.array([row for row in rows if row not in test], np.int64)
    return dataclasses.replace(
        table,
        splits={**table.splits, train: rest, "test": tested},
        bases=_inherited(table.bases, train),
        remarks=_inherited(table.remarks, train),
        notes=(*table.notes, *notes),
    )


def _inherited(values: Mapping[str, str], train: str) -> dict[str, str]:
    """Returns {split: value} with a test that has the value of the split that it was drawn from."""
    return {**values, "test": values[train]} if train in values else dict(values)


class Split(NamedTuple):
    """A split of a table, or a slice of one."""

    name: str  # as the table has it
    rows: np.ndarray  # int64, in the order of the split; of a slice ascending
    text: str  # e.g. train[:80%]


def select(table: Table, split: str, seed: int) -> list[Split]:
    """Returns what a split in the syntax of TensorFlow Datasets consists of; each slice has its
    part of each class.

    Args:
      table: the images.
      split: e.g. 'train', 'train[:80%]+val', 'train[100:]'.
      seed: of the order that slices are cut from.

    Raises:
      SplitError: a split is absent, an image is in two pieces or there is none.
    """
    parts = [split] if table.find(split) else split.split("+")  # a name may have a plus
    pieces = []
    rows = []
    for part in parts:
        piece = _piece(table, part, split, seed)
        pieces.append(piece)
        rows += piece.rows.tolist()
    if not rows:
        raise SplitError(split, "has no image")
    if twice := [row for row, count in collections.Counter(rows).items() if count > 1]:
        raise SplitError(split, f"has {len(twice)} images twice, e.g. {table.names[twice[0]]}")
    return pieces


def _piece(table, part, split, seed):
    match = _PIECE.fullmatch(part)
    name = table.find(part) or (table.find(match["split"]) if match else None)
    if name is None:
        folder = table.flag.removeprefix("--dataset=")
        hint = ""
        if is_test(split) and not any(map(is_test, table.splits)):
            if table.one_test:
                hint = "; nothing can be held out for a test, since no class there has two images"
            elif table.untested:
                hint = f"; {table.untested}"
        if not hint and not any(map(names.meaning, table.splits)):
            first = min(table.splits)
            hint = (
                f"; parts of one are splits, too: --split={first}[:80%] --test_split={first}[80%:]"
            )
        raise SplitError(split, f"{folder} has {listed(sorted(table.splits))}{hint}")
    rows = table.splits[name]
    if table.find(part) or match["slice"] is None:
        return Split(name, rows, name)
    # Images without labels are cut by themselves: so those with labels are cut alike with and
    # without them.
    class_of = classes.strata(table, [name])
    together = draws.groups_of(
        table, rows.tolist(), [row for row in rows.tolist() if class_of[row]]
    )
    group_of = lambda row: together.get(row, row)  # noqa: E731
    ordered = draws.stratified(table.keys, rows.tolist(), class_of, seed, together)
    labelled = [row for row in ordered if class_of[row]]
    others = [row for row in ordered if not class_of[row]]
    bound = {*map(group_of, labelled)}  # groups go where those of them with labels go
    cut = _sliced(labelled, match["slice"], split, group_of) if labelled else []
    groups = {*map(group_of, cut)}
    cut += [row for row in others if group_of(row) in groups]
    free = [row for row in others if group_of(row) not in bound]
    cut += _sliced(free, match["slice"], split, group_of, clipped=bool(labelled)) if free else []
    return Split(name, np.array(sorted(cut), np.int64), f"{name}[{match['slice']}]")


def _sliced(rows, text, split, group_of, clipped=False):
    """Returns a slice of a list. The rules of TensorFlow Datasets: percents are rounded to the
    nearest image.

    Numbers beyond the list are an error, or, if `clipped`, its end: [:100] of 3 images is all of
    them. A group that an end of the slice would cut lies before that end.
    """
    if clipped and "%" not in text:
        bounds = [int(number) if number else None for number in text.split(":")]
        start, stop, _ = slice(*bounds).indices(len(rows))
    else:
        try:
            instruction = tfds.core.ReadInstruction.from_spec(f"all_files[{text}]")
            info = types.SimpleNamespace(num_examples=len(rows))
            cut = instruction.to_absolute({"all_files": info})[0]
        except (ValueError, AssertionError) as error:
            why = (
                f"[{text}] is not a valid slice of its {len(rows)} images, such as [:80%] or [100:]"
            )
            raise SplitError(split, why) from error
        start, stop, _ = slice(cut.from_, cut.to).indices(len(rows))
    ends = [start, stop]
    for i in range(2):
        while 0 < ends[i] < len(rows) and group_of(rows[ends[i] - 1]) == group_of(rows[ends[i]]):
            ends[i] += 1
    return rows[slice(*ends)]
