"""What the folders of a tree of pictures mean: splits and classes."""

from __future__ import annotations

import collections
import dataclasses
import os
from collections.abc import Collection, Sequence
from typing import NamedTuple

from absl import logging

from cpc_tf.data.sources import classes, folder_names, walk
from cpc_tf.data.sources.source import NO_LABEL
from cpc_tf.settings import ConfigError
from cpc_tf.texts import listed

EXTENSIONS = (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff")
# Pictures that are not decoded here; their owner shall hear of it.
_FOREIGN = (
    *(".heic", ".heif", ".avif", ".jxl", ".jp2", ".svg", ".psd", ".ppm", ".pgm", ".dcm", ".nii"),
    *(".dng", ".nef", ".cr2", ".arw", ".raw"),
)
WHOLE = ""  # the top of a tree without splits


def images(root: str) -> list[str]:
    """Names of the image files below a folder. See `walk.files`."""
    names = walk.files(root, EXTENSIONS + _FOREIGN)
    foreign = collections.Counter(extension for name in names if (extension := _extension(name)) in _FOREIGN)
    if foreign:
        kinds = ", ".join(f"{number} {extension}" for extension, number in sorted(foreign.items()))
        logging.warning("%s: left out, since they cannot be decoded here: %s", root, kinds)
    return [name for name in names if _extension(name) in EXTENSIONS]


@dataclasses.dataclass(frozen=True)
class Tree:
    """A folder of pictures and its splits.

    Attributes:
      dataset: the value of --dataset.
      root: the folder, as TensorFlow reads it.
      base: where in it the folders of splits or classes stand, '' or e.g. 'my_pictures/'.
      splits: {split: its files, relative to the root}.
      bases: {split: where the folders of its classes stand, e.g. 'my_pictures/train/'}.
      beside: files beside the folders of the splits.
    """

    dataset: str
    root: str
    base: str
    splits: dict[str, list[str]]
    bases: dict[str, str]
    beside: list[str]

    @property
    def names(self) -> list[str]:
        """All files, sorted."""
        return sorted([*self.beside, *(name for part in self.splits.values() for name in part)])


def read(path: str, top_folders: str = "auto") -> Tree:
    """Finds the pictures of --dataset=folder:PATH.

    Args:
      path: the folder, local or e.g. gs://.
      top_folders: what its folders are: 'splits' or 'classes'; 'auto': see `splits`.

    Raises:
      ConfigError: no such folder, no images in it, or its folders can be splits as well as classes.
    """
    dataset = f"folder:{path}"
    root = walk.folder_of(dataset)
    found = images(root)
    if not found:
        kinds = " ".join(EXTENSIONS)
        raise ConfigError(f"--dataset={dataset}: no images in it or in its folders; what is read is {kinds}")
    base, parts = _base(found), splits(found, dataset, top_folders)
    used = {name for part in parts.values() for name in part}
    whole = top_folders == "classes" or any(not name.startswith(f"{base}train/") for name in parts.get("train", []))
    bases = {split: base if whole else f"{base}{split}/" for split in parts}
    return Tree(dataset, root, base, parts, bases, [name for name in found if name not in used])


def splits(found: list[str], dataset: str = "", top_folders: str = "auto") -> dict[str, list[str]]:
    """{split: its files}.

    The folders at the top are splits if all are named as splits usually are, or if one is named as `train` is and
    another as `val` or `test` is. If none is named so, everything is the split `train`. A folder that holds everything
    does not count as the top: its folders do.

    Args:
      found: files, relative to the root.
      dataset: the value of --dataset.
      top_folders: 'splits' or 'classes' to say what they are.

    Raises:
      ConfigError: some are named as splits and others not, or two mean the same split.
    """
    base, parts = _base(found), collections.defaultdict(list)
    for name in found:
        top, slash, _ = name[len(base) :].partition("/")
        parts[top if slash else WHOLE].append(name)
    tops = sorted(set(parts) - {WHOLE})
    if top_folders == "splits" or (top_folders == "auto" and _are_splits(tops, dataset)):
        return {top: parts[top] for top in tops} or {"train": found}
    return {"train": found} if found else {}


def find(split: str, available: Collection[str]) -> str | None:
    """The split's own spelling: `val` is also found as `Validation` or `dev`. None if absent, or one of several."""
    if split in available:
        return split
    wanted = folder_names.meaning(split)
    if not wanted:
        return None
    known = [(name, found) for name in available if (found := folder_names.meaning(name))]
    same = [name for name, (kind, number) in known if kind == wanted.kind and wanted.number in ("", number)]
    return same[0] if len(same) == 1 else None


def _base(found):
    """The way to the first folder with several things in it, or with one that is named as a split is."""
    base = ""
    while True:
        parts = [name[len(base) :].split("/", 2) for name in found]
        tops = {part[0] for part in parts}
        # A folder without folders is a class, or all there is.
        if len(tops) != 1 or folder_names.meaning(top := tops.pop()) or not any(len(part) > 2 for part in parts):
            return base
        base += f"{top}/"


def _are_splits(tops, dataset):
    usual = {top: found for top in tops if (found := folder_names.meaning(top))}
    twins = [other for top in usual for other in usual if top < other and usual[top] == usual[other]]
    others = [top for top in tops if top not in usual]
    kinds = {found.kind for found in usual.values()} - {folder_names.UNLABELLED}
    if kinds and (not others or ("train" in kinds and len(kinds) > 1)):
        if twins:
            first = next(top for top in usual if usual[top] == usual[twins[0]])
            raise ConfigError(
                f"--dataset={dataset}: its folders {first} and {twins[0]} mean the same split; join them or rename one"
            )
        return True
    hinted = set().union(*map(folder_names.kinds_within, tops))
    if kinds or ("train" in hinted and hinted & {"val", "test"}):
        alike = [top for top in tops if top in usual or folder_names.kinds_within(top)]
        rest = [top for top in tops if top not in alike]
        beside = f", beside {listed(rest)}" if rest else ""
        raise ConfigError(
            f"--dataset={dataset}: its folders can be splits or classes, since {listed(alike)} sound like splits"
            f"{beside}; say --top_folders=splits (each is a split by its name) or --top_folders=classes"
        )
    return False


class Labels(NamedTuple):
    """What the folders within splits say.

    Attributes:
      classes: in their order.
      of: {file: its label, -1 if it has none}.
      empty: folders in the place of a class's, without a picture.
    """

    classes: classes.Matched
    of: dict[str, int]
    empty: list[str]


def labels(tree: Tree, chosen: Sequence[str]) -> Labels:
    """Classes of some splits of a tree together: the folders at the top of each, but for folders of unlabelled ones."""
    chosen = [split for split in chosen if not folder_names.is_unlabelled(split)]
    bases = _class_bases(tree, chosen)
    folder_of, spellings, empty = {}, {}, []
    for split in chosen:
        start = len(bases[split])
        own = {
            name: top if slash else "" for name in tree.splits[split] for top, slash, _ in [name[start:].partition("/")]
        }
        folder_of.update(own)
        spellings[split] = {top for top in own.values() if top and not folder_names.is_unlabelled(top)}
        there = walk.folders(f"{tree.root}/{bases[split]}".rstrip("/"))
        empty += [f"{bases[split]}{top}" for top in there if top not in own.values()]
    found = classes.match(spellings)
    if len(found.class_names) < 2:  # One folder tells nothing apart.
        why = f"{found.class_names[0]} is its only class folder" if found.class_names else "no class folders in it"
        found = classes.Matched((), {}, trouble=found.trouble or why)
    return Labels(found, {name: found.number_of.get(top, NO_LABEL) for name, top in folder_of.items()}, empty)


def _class_bases(tree, chosen):
    """`tree.bases`, or one folder deeper if each split has one more on the way to its classes: train/images/cat."""
    wrappers = {}
    for split in chosen:
        parts = [name[len(tree.bases[split]) :].split("/", 2) for name in tree.splits[split]]
        tops = {part[0] for part in parts}
        if len(tops) > 1 or any(len(part) < 3 for part in parts) or folder_names.is_unlabelled(min(tops)):
            return tree.bases
        wrappers[split] = f"{tree.bases[split]}{tops.pop()}/"
    return wrappers


def _extension(name):
    return os.path.splitext(name)[1].lower()
