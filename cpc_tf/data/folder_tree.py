"""What the folders of a tree of pictures mean: splits and classes."""

from __future__ import annotations

import collections
import os

from absl import logging

from cpc_tf.data import walk
from cpc_tf.data.source import NO_LABEL

EXTENSIONS = (".jpg", ".jpeg", ".png", ".gif", ".bmp")
# Pictures that TensorFlow cannot decode; their owner shall hear of it.
_FOREIGN = (".webp", ".tif", ".tiff", ".heic", ".heif", ".avif", ".jp2")
# Usual names of splits, in any capitals.
_SPLITS = {"train": ("train", "training"), "val": ("val", "valid", "validation", "dev"), "test": ("test", "testing")}
WHOLE = ""  # the top of a tree without splits


def images(root: str) -> list[str]:
    """Names of the image files below a folder. See `walk.files`."""
    names = walk.files(root, EXTENSIONS + _FOREIGN)
    foreign = collections.Counter(extension for name in names if (extension := _extension(name)) in _FOREIGN)
    if foreign:
        kinds = ", ".join(f"{number} {extension}" for extension, number in sorted(foreign.items()))
        logging.warning("%s: left out, since TensorFlow cannot decode them: %s", root, kinds)
    return [name for name in names if _extension(name) in EXTENSIONS]


def splits(names: list[str]) -> dict[str, list[str]]:
    """{split: its files}. The folders at the top are splits if all have split names, or `train` and another do.

    Else everything is `train`: a folder called train among folders with other names is a class of that name.
    """
    parts = collections.defaultdict(list)
    for name in names:
        top, slash, _ = name.partition("/")
        parts[top if slash else WHOLE].append(name)
    tops = set(parts) - {WHOLE}
    known = {top for top in tops if split_of(top)}
    if known and (known == tops or ("train" in map(split_of, known) and len(known) > 1)):
        return {top: parts[top] for top in sorted(tops)}
    return {"train": names} if names else {}


def find(split: str, available: dict[str, list[str]]) -> str | None:
    """The split's own spelling: `val` is also found as `validation`. None if it is absent."""
    if split in available:
        return split
    return next((name for name in available if split_of(split) and split_of(name) == split_of(split)), None)


def split_of(name: str) -> str | None:
    """'train', 'val' or 'test' if a folder or list of this name is usually that split, else None."""
    return next((split for split, names in _SPLITS.items() if name.lower() in names), None)


def labels(available: dict[str, list[str]]) -> tuple[tuple[str, ...], dict[str, int]]:
    """Names of the classes, the same in all splits, and {file: its label, -1 if it has none}.

    Args:
      available: the result of `splits`.
    """
    # Without split folders there is one split, and its files do not begin with its name.
    depth = all(name.startswith(f"{split}/") for split, names in available.items() for name in names)
    folders = {name: (name.split("/")[depth:-1] or [""])[0] for names in available.values() for name in names}
    tops = sorted(set(folders.values()) - {""})
    class_names = tuple(tops) if len(tops) > 1 else ()  # One folder tells nothing apart.
    numbers = {name: label for label, name in enumerate(class_names)}
    return class_names, {file: numbers.get(folder, NO_LABEL) for file, folder in folders.items()}


def _extension(name):
    return os.path.splitext(name)[1].lower()
