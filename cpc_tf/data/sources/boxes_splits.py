"""The splits of a folder with boxes: by usual names, in slices, and a part to test on where the folder has none."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping

from cpc_tf.data.config import DataConfig
from cpc_tf.data.sources import boxes_layout, names, several_labels, slices, tree
from cpc_tf.data.sources.annotation import Annotated, Annotation
from cpc_tf.data.sources.slices import Piece
from cpc_tf.data.sources.source import SplitError

TRAINVAL = "trainval"  # VOC's name of train and val together
_TEST_PART = 0.2  # of each class


class Lists(Mapping[str, list[str]]):
    """Lists of images by the names of their splits; a list is read when it is asked for."""

    def __init__(self, paths: Mapping[str, str], keys: Collection[str]):
        self._paths, self._keys, self._read = paths, keys, {}

    def __getitem__(self, split: str) -> list[str]:
        if split not in self._read:
            self._read[split] = boxes_layout.read_list(self._paths[split], self._keys)
        return self._read[split]

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)


def read(data: DataConfig, folder: Annotated, asked: Collection[str]) -> tree.Tree:
    """Returns the splits of a folder, whose images are their keys; each counts for the rarest class of its objects.

    If one of the splits that are asked for is `val` or `test`, and the folder has neither, a fifth of each class is
    held out as `test`. The draw depends on `data.split_seed` and the keys, so it is the same in all tasks.

    Args:
      data: the settings of the dataset.
      folder: its images and annotations.
      asked: the values of --split and --test_split.
    """
    splits = Lists(folder.lists, folder.images) if folder.lists else folder.parts
    bases = dict.fromkeys(splits, "")
    images, flag = sorted(folder.images), data.flag
    found = tree.Tree(folder.root, images, "", splits, bases, flag, table=_strata(folder), one_test=True)
    train = found.find("train") or _trainval(splits)
    wanted = any(map(tree.is_test, _names(asked)))
    if not wanted or train is None or any(map(tree.is_test, splits)):
        return found
    class_of = {key: row[0] for key, row in found.table.items()}
    files = splits[train]
    test = slices.held_out(files, {key: class_of.get(key, "") for key in files}, "", data.split_seed, _TEST_PART)
    if not test:
        return found
    kept = {*test}
    splits = {**splits, train: [key for key in files if key not in kept], "test": test}
    note = (
        f"no split val or test: a fifth of each class of {train} is the split test, drawn with seed {data.split_seed}"
    )
    return dataclasses.replace(found, splits=splits, bases=dict.fromkeys(splits, ""), notes=(note,))


def pieces(split: str, found: tree.Tree, asked: Collection[str], seed: int) -> list[Piece]:
    """Returns what a split consists of; `trainval` and `train` stand for each other where one of them is absent.

    `trainval` is `train` and `val`, but `train` alone if `val` is what the run is tested on.

    Args:
      split: e.g. 'trainval', 'train[:80%]'.
      found: the splits of the folder.
      asked: the values of --split and --test_split.
      seed: of the order that slices are cut from.

    Raises:
      SplitError: as `slices.pieces`.
    """
    tests = {found.find(name) for name in _names(asked)} | {found.find("test")}
    whole = found.find(split) and not _is_trainval(split)  # a name may have a plus
    parts = [split] if whole else [_present(part, found, tests) for part in split.split("+")]
    try:
        return slices.pieces("+".join(parts), found, seed)
    except SplitError as error:
        raise SplitError(split, error.reason) from error


def _strata(folder: Annotated) -> dict[str, tuple[str, ...]]:
    """Returns {key: (the class that an image counts for,)}, without images of which nobody knows what is on them."""
    keys = [key for key in folder.images if folder.format.negatives or key in folder.annotations]
    notes = {key: folder.annotations.get(key) for key in keys}
    rows = {
        key: sorted({*note.names} - {""}) if isinstance(note, Annotation) else []
        for key, note in notes.items()
        if not isinstance(note, str)
    }
    return {key: (name,) for key, name in several_labels.strata(rows).items()} if any(rows.values()) else {}


def _names(asked: Collection[str]) -> list[str]:
    """Returns the names of splits in values such as train[:80%]+val."""
    return [part.partition("[")[0].strip() for split in asked for part in split.split("+")]


def _trainval(splits: Collection[str]) -> str | None:
    return next(filter(_is_trainval, splits), None)


def _is_trainval(name: str) -> bool:
    return name.strip().lower() == TRAINVAL


def _present(part: str, found: tree.Tree, tests: Collection[str | None]) -> str:
    """Returns a part of a split with the names that the folder has, if it has them."""
    name, bracket, cut = part.partition("[")
    trainval, train, val = _trainval(found.splits), tree.find("train", found.splits), tree.find("val", found.splits)
    meaning = names.meaning(name)
    present: list[str | None] = []
    if _is_trainval(name):
        tested = train and val and val in tests
        present = [train] if tested else [trainval] if trainval else [train, val]
    elif not found.find(name) and meaning and meaning.kind == "train" and not val:
        present = [trainval]
    return "+".join(f"{name}{bracket}{cut}" for name in present if name) or part
