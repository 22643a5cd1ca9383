"""The folder of --labelled: its table of classes, and the part to test on that it may lack."""

from __future__ import annotations

import collections
import dataclasses

from cpc_tf.data.config import LEFT_OUT, PicturesConfig
from cpc_tf.data.sources import check, folder_classes, label_file, names, slices, tree
from cpc_tf.settings import ConfigError
from cpc_tf.texts import listed

_TEST_PART = 0.2  # of each class
_SHOWN = 3  # pictures that a folder has, where those of a table are not there


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
    flag = f"--labels={data.labels}"
    of, absent, groups, title = label_file.match(data.labels, label_file.read(data.labels), found.names)
    count, there = len(of) + len(absent), f"which has {listed(found.names[:_SHOWN])}"
    if not of:
        raise ConfigError(f"{flag}: none of its {count} files is in {found.root}, e.g. {listed(absent)}; {there}")
    problem = f"name no picture in {found.root}, {there}"
    check.leave_out(flag, absent, f"{count} rows", problem, "remove or correct them")
    notes = [f"rows of --labels without a picture: {listed(absent)}"] if absent else []
    notes += [f"line 1 of --labels is taken for a header: {title}"] if title else []
    table, unknown = _labels(of, data.doubtful_folders == LEFT_OUT)
    if unknown:
        counted = listed([f"{text} ({number})" for text, number in unknown.items()])
        notes.append(f"taken for no label yet, as a blank in --labels: {counted}")
    return dataclasses.replace(found, table=table, groups=groups, notes=(*found.notes, *notes))


def _labels(of, without_doubtful):
    """Returns {picture: its classes} of those that have a label, and {text: how often it means that they have none}."""
    table, unknown = {}, collections.Counter()
    for name, texts in of.items():
        absent = [t for t in texts or () if names.is_unlabelled(t) or (without_doubtful and names.is_doubtful(t))]
        unknown.update(absent)
        if texts is not None and (not texts or len(absent) < len(texts)):
            table[name] = tuple(text for text in texts if text not in absent)
    return table, unknown


def _with_test(found, seed):
    found = dataclasses.replace(found, one_test=True)
    train = found.find("train")
    if train is None or any(map(tree.is_test, found.splits)):
        return found
    files, base = found.splits[train], found.bases[train]
    class_of, together = folder_classes.texts(found, train), found.together(files)
    test = set(slices.held_out(files, class_of, base, seed, _TEST_PART, together))
    if not test:
        return found
    if found.table is not None:  # pictures without a label go with their group: the encoder shall not see it, either
        own = {together[file] for file in test if file in together}
        test |= {file for file in files if together.get(file) in own}
    splits = {**found.splits, train: [file for file in files if file not in test], "test": sorted(test)}
    notes = [f"no folder val or test: a fifth of each class is the split test, drawn with seed {seed}"]
    if together:
        count = len(set(together.values()))
        notes.append(f"drawn together: {len(together)} images in {count} groups, of --labels or of copies of one file")
    bases = {**found.bases, "test": base}
    return dataclasses.replace(found, splits=splits, bases=bases, notes=(*found.notes, *notes))
