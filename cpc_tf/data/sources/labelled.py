"""The folder of --labelled: its table of classes, and the part to test on that it may lack."""

from __future__ import annotations

import dataclasses

from cpc_tf.data.config import PicturesConfig
from cpc_tf.data.sources import check, folder_classes, label_file, slices, tree
from cpc_tf.settings import ConfigError
from cpc_tf.texts import listed

_TEST_PART = 0.2  # of each class


def read(data: PicturesConfig) -> tree.Tree:
    """Finds the images of --labelled, or of --dataset=folder:PATH, with the classes of --labels.

    A folder of --labelled without a split to test on gets one: a fifth of the images of each class, drawn by
    `data.split_seed`, which is the same in all tasks, so that none learns from what another tests on.

    Raises:
      ConfigError: as `tree.read`, `label_file.read` and `label_file.match`, or more than 1 % of the table's rows have
        no image.
    """
    found = tree.read(data)
    if data.labels:
        found = _with_table(data, found)
    return _with_test(found, data.split_seed) if data.labelled else found


def _with_table(data, found):
    rows = label_file.read(data.labels)
    of, absent = label_file.match(data.labels, rows, found.names)
    flag = f"--labels={data.labels}"
    if not of:
        raise ConfigError(f"{flag}: none of its {len(rows)} files is in {found.root}, e.g. {listed(absent)}")
    check.leave_out(flag, absent, f"{len(rows)} rows", f"name no picture in {found.root}", "remove or correct them")
    notes = (f"rows of --labels without a picture: {listed(absent)}",) if absent else ()
    return dataclasses.replace(found, table=of, notes=(*found.notes, *notes))


def _with_test(found, seed):
    found = dataclasses.replace(found, one_test=True)
    train = found.find("train")
    if train is None or any(map(tree.is_test, found.splits)):
        return found
    files, base = found.splits[train], found.bases[train]
    test = slices.held_out(files, folder_classes.texts(found, train), base, seed, _TEST_PART)
    if not test:
        return found
    kept = set(test)
    splits = {**found.splits, train: [file for file in files if file not in kept], "test": test}
    note = f"no folder val or test: a fifth of each class is the split test, drawn with seed {seed}"
    notes = (*found.notes, note)
    return dataclasses.replace(found, splits=splits, bases={**found.bases, "test": base}, notes=notes)
