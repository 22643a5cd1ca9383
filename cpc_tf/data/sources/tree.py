"""A folder of images and its splits; `folder_classes` says which classes they have."""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import functools
from collections.abc import Collection, Mapping, Sequence

import tensorflow as tf
from absl import logging

from cpc_tf.data.config import DataConfig
from cpc_tf.data.decoding import signatures
from cpc_tf.data.sources import check_cache, groups, names, walk
from cpc_tf.settings import ConfigError
from cpc_tf.texts import listed

EXTENSIONS = (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff")
# Images that are not decoded here; a warning counts them.
_FOREIGN = (
    *(".heic", ".heif", ".avif", ".jxl", ".jp2", ".svg", ".psd", ".ppm", ".pgm", ".dcm", ".nii"),
    *(".dng", ".nef", ".cr2", ".arw", ".raw"),
)
# What is often beside images, and is not opened to see what it is.
_NO_IMAGES = (
    *(
        ".txt",
        ".csv",
        ".tsv",
        ".json",
        ".jsonl",
        ".xml",
        ".yaml",
        ".yml",
        ".md",
        ".html",
        ".htm",
        ".ini",
        ".cfg",
        ".names",
    ),
    *(".xlsx", ".xls", ".pdf", ".doc", ".docx", ".py", ".m", ".sh", ".ipynb", ".log", ".db", ".lock", ".tmp", ".part"),
    *(".zip", ".tar", ".gz", ".tgz", ".rar", ".7z", ".npy", ".npz", ".mat", ".h5", ".pkl", ".parquet", ".tfrecord"),
    *(".mp4", ".mov", ".avi", ".mkv", ".webm", ".mp3", ".wav"),
)
_THREADS = 16  # hide the latency of a bucket


def images(root: str) -> list[str]:
    """Returns the names of the image files below a folder. See `walk.files`.

    Files without an extension are images if their content says so. Warnings count images that are left out.
    """
    found, others = walk.all_files(root, EXTENSIONS + _FOREIGN)
    foreign = collections.Counter(end for name in found if (end := walk.extension(name)) in _FOREIGN)
    if foreign:
        kinds = ", ".join(f"{number} {end}" for end, number in sorted(foreign.items()))
        logging.warning("%s: left out, since they cannot be decoded here: %s", root, kinds)
    odd = [name for name in others if walk.extension(name) not in _NO_IMAGES]
    by_content = [name for name, is_image in zip(odd, _look(root, odd)) if is_image]
    if misnamed := [name for name in by_content if walk.extension(name)]:
        what = "images with other extensions, which are not read; rename them"
        logging.warning("%s: skipped: %d %s: %s", root, len(misnamed), what, listed(misnamed))
    own = [name for name in found if walk.extension(name) in EXTENSIONS]
    return sorted([*own, *(name for name in by_content if not walk.extension(name))])


def _look(root, names):
    """Returns whether each file begins as an image does."""

    def look(name):
        try:
            with tf.io.gfile.GFile(f"{root}/{name}", "rb") as file:
                return signatures.is_picture(file.read(signatures.BEGIN))
        except (OSError, tf.errors.OpError):  # not said to be an image, and not readable
            return False

    with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(look, names))


@dataclasses.dataclass(frozen=True)
class Tree:
    """A folder of images and its splits.

    Attributes:
      root: the folder, as TensorFlow reads it.
      names: all its images, relative to the root, sorted.
      base: where in it the folders of splits or classes are, '' or e.g. 'my_pictures/'.
      splits: {split: its images}.
      bases: {split: where the folders of its classes are, e.g. 'my_pictures/train/'}.
      flag: the flag that names it, with its value.
      table: {image: its classes} if a table has them; None: the folders are the classes.
      one_test: whether `val` and `test` both mean the only split of these kinds.
      notes: lines for the user.
      groups: {image: a text that is the same for those that are drawn together}, as the table has them.
      cache_dir: where findings about its files are kept, see `check_cache.remembered`.
    """

    root: str
    names: list[str]
    base: str
    splits: dict[str, list[str]]
    bases: dict[str, str]
    flag: str = ""
    table: Mapping[str, tuple[str, ...]] | None = None
    one_test: bool = False
    notes: tuple[str, ...] = ()
    groups: Mapping[str, str] = dataclasses.field(default_factory=dict)
    cache_dir: str = ""

    @functools.cached_property
    def several_labels(self) -> bool:
        """Whether images may have any number of classes, as some in the table have."""
        return any(len(row) != 1 for row in (self.table or {}).values())

    def together(self, files: Sequence[str]) -> dict[str, str]:
        """Returns {file: the first of those that are drawn together} for some files: copies, and `groups`."""
        files = [*files]
        copies = groups.copies(self.cache_dir, self.root, files, check_cache.stats(self.root, files))
        return groups.joined(copies, {name: self.groups[name] for name in files if name in self.groups})

    def find(self, split: str) -> str | None:
        """Returns the name here of a split with a usual name; None if it is absent."""
        found = find(split, self.splits)
        if found is None and self.one_test and is_test(split):
            tests = [*filter(is_test, self.splits)]
            return tests[0] if len(tests) == 1 else None
        return found


def read(data: DataConfig) -> Tree:
    """Finds the images of --dataset=folder:PATH or --labelled=PATH.

    Raises:
      ConfigError: no such folder, no images in it, or its folders can be splits as well as classes.
    """
    root = walk.folder_of(data.origin, data.flag)
    found = images(root)
    if not found:
        kinds = " ".join(EXTENSIONS)
        raise ConfigError(f"{data.flag}: no images in it or in its folders; what is read is {kinds}")
    base, parts = _base(found), split_folders(found, data)
    bases = {split: f"{base}{split}/" for split in parts}
    splits, bases = parts or {"train": found}, bases or {"train": base}
    return Tree(root, found, base, splits, bases, data.flag, cache_dir=data.data_dir)


def split_folders(found: list[str], data: DataConfig) -> dict[str, list[str]]:
    """Returns {split: its files} of the folders at the top, {} if these are no splits.

    They are splits if all have usual names of splits, or if one is named as `train` is and another as `val` or `test`
    is. A folder that holds everything does not count as the top: its folders do.

    Args:
      found: files, relative to the root.
      data: its `top_folders` may say what they are.

    Raises:
      ConfigError: some are named as splits and others not, or two mean the same split.
    """
    base, parts = _base(found), collections.defaultdict(list)
    for name in found:
        top, slash, _ = name[len(base) :].partition("/")
        if slash:
            parts[top].append(name)
    tops = sorted(parts)
    if data.top_folders == "splits" or (data.top_folders == "auto" and _are_splits(tops, data.flag)):
        return {top: parts[top] for top in tops}
    return {}


def find(split: str, available: Collection[str]) -> str | None:
    """Returns the name of a split, where `val` also means `Validation` or `dev`. None if absent, or one of several."""
    if split in available:
        return split
    wanted = names.meaning(split)
    if not wanted:
        return None
    known = [(name, found) for name in available if (found := names.meaning(name))]
    same = [name for name, (kind, number) in known if kind == wanted.kind and wanted.number in ("", number)]
    return same[0] if len(same) == 1 else None


def is_test(split: str) -> bool:
    """Returns whether a name usually means a split to test on."""
    found = names.meaning(split)
    return found is not None and found.kind in ("val", "test")


def _base(found):
    """Returns the path of the first folder with several things in it, or with one that is named as a split."""
    base = ""
    while True:
        parts = [name[len(base) :].split("/", 2) for name in found]
        tops = {part[0] for part in parts}
        # A folder without folders is a class, or all there is.
        if len(tops) != 1 or names.meaning(top := tops.pop()) or not any(len(part) > 2 for part in parts):
            return base
        base += f"{top}/"


def _are_splits(tops, flag):
    usual = {top: found for top in tops if (found := names.meaning(top))}
    twins = [(one, other) for one in usual for other in usual if one < other and usual[one] == usual[other]]
    kinds = {found.kind for found in usual.values()} - {names.UNLABELLED}
    if kinds and (len(usual) == len(tops) or ("train" in kinds and len(kinds) > 1)):
        if twins:
            pair = " and ".join(twins[0])
            raise ConfigError(f"{flag}: its folders {pair} mean the same split; join them or rename one")
        return True
    hinted = set().union(*map(names.kinds_within, tops))
    if kinds or ("train" in hinted and hinted & {"val", "test"}):
        alike = [top for top in tops if top in usual or names.kinds_within(top)]
        rest = [top for top in tops if top not in alike]
        beside = f", beside {listed(rest)}" if rest else ""
        raise ConfigError(
            f"{flag}: its folders can be splits or classes, since {listed(alike)} sound like splits"
            f"{beside}; say --top_folders=splits (each is a split by its name) or --top_folders=classes"
        )
    return False
