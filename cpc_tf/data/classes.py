"""The classes of images, from class folders or a table: one index for all splits; which split lacks
a class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from cpc_tf.core.texts import escaped, listed
from cpc_tf.data import draws, names, walk
from cpc_tf.data.config import ASK, LEFT_OUT
from cpc_tf.data.source import NO_LABEL, SplitError
from cpc_tf.data.table import Table

# classes whose counts a line tells, and characters of a name
_LISTED = 12
_LONGEST = 40


class Classes(NamedTuple):
    """The classes of some splits, and the label of each image.

    Attributes:
      names: in their order.
      labels: int64 [N], -1 where there is none; multi-label: float32 [N, classes] of 0 and 1.
      labelled: bool [N]: whether each image has a label.
      meant: bool [N]: whether it is meant to have none.
      empty: class folders without an image.
      doubtful: classes that may be none: named unknown, other, nan or the like; class folders
        without an image in any split, too.
      lines: on classes that are spelled differently, for the user.
      trouble: why there are no names, '' if there are.
    """

    names: tuple[str, ...]
    labels: np.ndarray
    labelled: np.ndarray
    meant: np.ndarray
    empty: list[str]
    doubtful: list[str]
    lines: tuple[str, ...]
    trouble: str


def find_classes(table: Table, chosen: Sequence[str], doubtful: str = ASK) -> Classes:
    """Returns the classes of some splits together: the folders at the top of each, except
    unlabelled ones.

    Args:
      table: the images.
      chosen: some of its splits.
      doubtful: the value of --ambiguous_folders.
    """
    texts = np.full(len(table.names), "", object)
    meant = np.zeros(len(table.names), bool)
    for split in filter(names.is_unlabelled, chosen):
        meant[table.splits[split]] = True
    chosen = [split for split in chosen if not names.is_unlabelled(split)]
    spellings = {}
    empty = []
    strange = []

    # The class of each image as its folder or table spells it.
    for split, base in _bases(table, chosen).items():
        rows = table.splits[split]
        if table.labels is None:
            classes = _tops(table, rows, base)
            in_folders = np.array(["/" in name[len(base) :] for name in table.names[rows]], bool)
            # A test that is drawn has the folders of `train`.
            below_base = (name for name in table.names if name.startswith(base))
            filled = {name[len(base) :].partition("/")[0] for name in below_base}
            folders = walk.folders(f"{table.root}/{base}".rstrip("/"))
            empty += [f"{base}{top}" for top in folders if top not in filled]
            doubtful_tops = {top for top in classes if names.is_doubtful(top)}
            strange += [f"{base}{top}" for top in sorted(doubtful_tops)]
            if doubtful == LEFT_OUT:
                classes = np.array(["" if top in doubtful_tops else top for top in classes], object)
            meant[rows[in_folders & (classes == "")]] = True
            spellings[split] = {*classes} - {""}
        else:
            classes = strata(table, [split])[rows]
            meant[rows[classes == ""]] = True
            spellings[split] = set()
            for labels in table.labels[rows]:
                spellings[split].update(labels or ())
            strange += sorted(filter(names.is_doubtful, spellings[split]))
        texts[rows] = classes

    # The classes that these spellings mean.
    trouble = ""
    try:
        class_names, number_of, lines = match(spellings)
    except ValueError as error:
        class_names = ()
        number_of = {}
        lines = ()
        trouble = str(error)
    keys = {*map(names.key, class_names)}
    for name in dict.fromkeys(empty):
        top = name.rpartition("/")[2]
        if names.key(top) not in keys and not names.is_unlabelled(top):
            strange.append(name)
    if len(class_names) < 2:  # One folder does not distinguish anything.
        if table.labels is None:
            word = "class folder"
            words = "class folders"
        else:
            word = "class"
            words = "classes"
        why = f"{class_names[0]} is its only {word}" if class_names else f"no {words} in it"
        class_names = ()
        trouble = trouble or why
        number_of = {}

    # The labels, as indices of classes or as one column a class.
    if table.multi_label and class_names:
        labels, labelled = _multi_labels(table, chosen, number_of, len(class_names))
    else:
        labels = np.array([number_of.get(text, NO_LABEL) for text in texts], np.int64)
        labelled = labels != NO_LABEL

    return Classes(
        class_names,
        labels,
        labelled,
        meant,
        [*dict.fromkeys(empty)],
        [*dict.fromkeys(strange)],
        lines,
        trouble,
    )


def _multi_labels(table, splits, number_of, count):
    """Returns the labels of some splits, float32 [N, count] of 0 and 1, and which images have any,
    bool [N].
    """
    labels = np.zeros([len(table.names), count], np.float32)
    labelled = np.zeros(len(table.names), bool)
    for split in splits:
        for row in table.splits[split]:
            labelled[row] = table.labels[row] is not None
            labels[row, [number_of[text] for text in table.labels[row] or ()]] = 1
    return labels, labelled


def strata(table: Table, splits: Sequence[str]) -> np.ndarray:
    """Returns the class that each image of some splits counts for in a draw, str [N]; '' if it has
    none.

    Of a multi-label image that is the rarest of them, see `draws.rarest`.
    """
    texts = np.full(len(table.names), "", object)
    rows = np.concatenate([table.splits[split] for split in splits])
    if table.labels is None:
        for split, base in _bases(table, splits).items():
            texts[table.splits[split]] = _tops(table, table.splits[split], base)
    elif table.multi_label:
        labelled = [row for row, labels in enumerate(table.labels) if labels is not None]
        texts[labelled] = draws.rarest_names(table.labels[labelled])
        texts[~np.isin(np.arange(len(texts)), rows)] = ""
    else:
        texts[rows] = [";".join(labels or ()) for labels in table.labels[rows]]
    return texts


def _tops(table, rows, base):
    """Returns the class folder of each row, which lies in `base`, str [rows]; '' if there is
    none.
    """
    parts = [name[len(base) :].partition("/") for name in table.names[rows]]
    tops = [top if slash and not names.is_unlabelled(top) else "" for top, slash, _ in parts]
    return np.array(tops, object)


def _bases(table, chosen):
    """Returns `table.bases`, or one folder deeper if each split has one more folder above its
    classes: train/x/cat.

    A split all of whose images lie in one folder, test/x/1.jpg, has no classes either way. '' if a
    table has labels.
    """
    if table.labels is not None:
        return dict.fromkeys(chosen, "")
    wrappers = {}
    is_deep = False
    for split in chosen:
        parts = [
            name[len(table.bases[split]) :].split("/", 2)
            for name in table.names[table.splits[split]]
        ]
        tops = {part[0] for part in parts}
        depths = {len(part) for part in parts}
        if len(tops) > 1 or len(depths) > 1 or depths == {1} or names.is_unlabelled(min(tops)):
            return {split: table.bases[split] for split in chosen}
        is_deep |= depths == {3}
        wrappers[split] = f"{table.bases[split]}{tops.pop()}/"
    return wrappers if is_deep else {split: table.bases[split] for split in chosen}


def match(
    spellings: Mapping[str, Sequence[str]],
) -> tuple[tuple[str, ...], dict[str, int], tuple[str, ...]]:
    """Takes names for one class that are equal numbers or differ only in what is hardly seen, see
    `names.key`.

    Args:
      spellings: {split: names of its classes}.

    Returns:
      The classes, sorted, each as the first split that has it spells it; {spelling: index of its
      class}; lines for the user on what was matched.

    Raises:
      ValueError: names within a split are taken for one, or one has a line break.
    """
    # name_of: {key: the class's name}
    quoted = names.quoted
    name_of = {}
    lines = []
    for split, split_names in spellings.items():
        here = {}
        for name in sorted(split_names):
            if names.has_control_characters(name):
                why = (
                    f"its class {quoted(name)} in {split} has a line break or another control"
                    " character; rename it"
                )
                raise ValueError(why)
            key = names.key(name)
            if key in here:
                pair = f"{quoted(here[key], name)} and {quoted(name, here[key])}"
                same = "differ only in capitals, accents or spaces"
                if names.is_number(name):
                    same = "are the same number"
                why = f"its classes {pair} in {split} {same}; merge them"
                raise ValueError(why)
            here[key] = name
            first = name_of.setdefault(key, name)
            if first != name:
                lines.append(
                    f"one class: {quoted(first, name)} is {quoted(name, first)} in {split}"
                )
    class_names = tuple(sorted(name_of.values()))
    number = {name: index for index, name in enumerate(class_names)}
    number_of = {}
    for split_names in spellings.values():
        for name in split_names:
            number_of[name] = number[name_of[names.key(name)]]
    return class_names, number_of, tuple(lines)


def compare(
    train: Mapping[str, int], test: Mapping[str, int], split: str, test_split: str, unit: str
) -> list[str]:
    """Returns lines for the user on classes that only one of two splits has.

    Args:
      train, test: {class: how many `unit` the split has of it}.
      split, test_split: the values of these flags.
      unit: 'images' or 'objects'.

    Raises:
      SplitError: the test has a class that cannot be learned, since `train` has no example of it.
    """
    only = [name for name in train if train[name] and not test.get(name)]
    unknown = [f"{name} ({test[name]})" for name in test if test[name] and not train.get(name)]
    if unknown:
        word = "class" if len(unknown) == 1 else "classes"
        also = f"; only --split={split} has {listed(only)}" if only else ""
        raise SplitError(
            test_split,
            f"{unit} of {len(unknown)} {word} that --split={split} lacks, so they cannot be"
            f" learned and would all count as errors: {listed(unknown)}{also}; add {unit} of"
            f" the {word} to it, rename the {word}, or remove the {unit} from the test",
            "test_split",
        )
    lines = []
    if only:
        counted = listed([f"{name} ({train[name]})" for name in only])
        lines.append(
            f"learned but never tested, since --test_split={test_split} has none: {counted}"
        )
    neither = [name for name in train if not train[name] and not test.get(name)]
    if neither:
        lines.append(f"classes of --dataset that neither split has: {listed(neither)}")
    return lines


def _printable(name: str) -> str:
    name = escaped(name)
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 3]}..."


def described(counts: Mapping[str, int]) -> str:
    """Returns how many there are of each class, e.g. '2 classes: cat 10, dog 12'; of many, the
    first and the range.
    """
    present = {name: count for name, count in counts.items() if count}
    word = "class" if len(present) == 1 else "classes"
    few = ", ".join(f"{_printable(name)} {count}" for name, count in [*present.items()][:_LISTED])
    if len(present) <= _LISTED:
        return f"{len(present)} {word}: {few}" if present else "no classes"
    least = min(present.values())
    most = max(present.values())
    each = f"{least}" if least == most else f"{least} to {most}"
    return f"{len(present)} {word}, {each} of each: {few}, ..."
