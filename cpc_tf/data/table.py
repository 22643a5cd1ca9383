"""The table of images: a row for each, and which rows are a split; whether the folders at the top
are splits.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np

from cpc_tf.core.settings import ConfigError
from cpc_tf.core.texts import listed
from cpc_tf.data import names, walk
from cpc_tf.data.config import DataConfig

FINDINGS = 7  # columns of `Table.looked`


@dataclasses.dataclass(frozen=True)
class Table:
    """Images of a folder. Columns have an entry a row.

    Attributes:
      root: the folder that holds all files.
      names: str [N]: the files relative to the root, for messages and records.
      splits: {split: its rows, int64}.
      bases: {split: where the folders of its classes are, relative to the root, e.g.
        'my_pictures/train/'}; not used with `labels`.
      flag: the flag that names the folder, with its value.
      base: where in it the folders of splits or classes are, '' or e.g. 'my_pictures/'.
      paths: str [N], absolute: where TensorFlow reads the files; '' of one that a list names, but
        is absent. By default that is below the root.
      keys: str [N]: the texts that a draw depends on, wherever the folder is. By default names
        relative to the base of the split; of images with boxes what they and their annotations have
        in common, see `boxes.layout.key`.
      labels: the classes of each in a tuple, None of one without a label; None for all: the folders
        are the classes.
      groups: str [N], from --labels: images with the same text are drawn together; '' of one that
        is alone.
      annotations: of images with boxes the `boxes.layout.Annotation` of each, or why it has none;
        None of others.
      remarks: {split: what to warn of if it is used}.
      accepted: bool [N], from --labels: the class is a guess that a person accepted, so that no
        test is drawn from it.
      by_page: whether people gave labels on the page of `cpc-tf label`, which chose most of the
        images.
      one_test: whether `val` and `test` both mean the only split of these kinds.
      untested: what else gives a split to test on, for the message that there is none; '' if
        nothing does.
      notes: lines for the user.
      cache_dir: where findings about its files are kept, see `files.remember`.
      stats: sizes and times of change, int64 [N, 2], see `walk.stats`.
      max_megapixels: from which size on an image is not decoded.
      looked: what `check.look` has found of each file so far, int64 [N, FINDINGS]; tables of the
        same files share it.
    """

    root: str
    names: np.ndarray
    splits: Mapping[str, np.ndarray]
    bases: Mapping[str, str]
    flag: str = ""
    base: str = ""
    paths: np.ndarray | None = None
    keys: np.ndarray | None = None
    labels: np.ndarray | None = None
    groups: np.ndarray | None = None
    annotations: np.ndarray | None = None
    remarks: Mapping[str, str] = dataclasses.field(default_factory=dict)
    accepted: np.ndarray | None = None
    by_page: bool = False
    one_test: bool = False
    untested: str = ""
    notes: tuple[str, ...] = ()
    cache_dir: str = ""
    stats: np.ndarray | None = None
    max_megapixels: float = 100.0
    looked: np.ndarray | None = None

    def __post_init__(self):
        count = len(self.names)
        defaults = {
            "paths": self._below_root,
            "keys": self._below_bases,
            "groups": lambda: np.full(count, "", object),
            "accepted": lambda: np.zeros(count, bool),
            "stats": lambda: walk.stats("", self.paths),
            "looked": lambda: np.zeros([count, FINDINGS], np.int64),
        }
        for name, default in defaults.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, default())

    def _below_root(self):
        root = walk.absolute(self.root)
        return np.array([f"{root}/{name}" for name in self.names], object)

    def _below_bases(self):
        keys = self.names.copy()
        for split, rows in self.splits.items():
            base = self.bases.get(split, "")
            keys[rows] = [name[len(base) :] for name in self.names[rows]]
        return keys

    @functools.cached_property
    def multi_label(self) -> bool:
        """Whether images may have any number of classes, as some in the table have."""
        if self.labels is None:
            return False
        return any(names is not None and len(names) != 1 for names in self.labels)

    def key(self, rules: str, rows: Iterable[int]) -> Iterator[str]:
        """Yields what a cached result about the files of some rows depends on; `rules` tells what
        else.
        """
        yield rules
        for row in rows:
            yield f"{self.names[row]}\n{self.stats[row, 0]} {self.stats[row, 1]}"

    def group_of(self, rows: Sequence[int]) -> dict[int, str]:
        """Returns {row: its group in the table} of those of some rows that have one."""
        return {row: self.groups[row] for row in rows if self.groups[row]}

    def find(self, split: str) -> str | None:
        """Returns the name here of a split with a usual name; None if it is absent."""
        name = find(split, self.splits)
        if name is None and self.one_test and is_test(split):
            tests = [*filter(is_test, self.splits)]
            return tests[0] if len(tests) == 1 else None
        return name


def split_folders(paths: Sequence[str], data: DataConfig) -> dict[str, np.ndarray]:
    """Returns {split: its rows} of the folders at the top, {} if these are no splits.

    They are splits if all have usual names of splits, or if one is named as `train` is and another
    as `val` or `test` is. A folder that holds everything does not count as the top: its folders do.

    Args:
      paths: files, relative to the root.
      data: its `top_folders` may say what the folders are.

    Raises:
      ConfigError: some are named as splits and others not, or two mean the same split.
    """
    base = top_of(paths)
    rows = collections.defaultdict(list)
    for row, name in enumerate(paths):
        top, slash, _ = name[len(base) :].partition("/")
        if slash:
            rows[top].append(row)
    tops = sorted(rows)
    are_splits = data.top_folders == "splits"
    if data.top_folders == "auto":
        are_splits = _are_splits(tops, data.flag)
    if are_splits:
        return {top: np.array(rows[top]) for top in tops}
    return {}


def top_of(paths: Sequence[str]) -> str:
    """Returns the path of the first folder with several things in it, or with one that is named as
    a split.
    """
    base = ""
    while True:
        parts = [path[len(base) :].split("/", 2) for path in paths]
        tops = {part[0] for part in parts}
        # A folder without folders is a class, or all there is.
        has_folders = any(len(part) > 2 for part in parts)
        if len(tops) != 1 or not has_folders:
            return base
        (top,) = tops
        if names.meaning(top):
            return base
        base += f"{top}/"


def _are_splits(tops, flag):
    usual = {top: meaning for top in tops if (meaning := names.meaning(top))}
    pairs = itertools.combinations(sorted(usual), 2)
    twins = [(one, other) for one, other in pairs if usual[one] == usual[other]]
    kinds = {meaning.kind for meaning in usual.values()} - {names.UNLABELLED}
    if kinds and (len(usual) == len(tops) or ("train" in kinds and len(kinds) > 1)):
        if twins:
            pair = " and ".join(twins[0])
            raise ConfigError(
                f"{flag}: its folders {pair} mean the same split; join them or rename one"
            )
        return True
    hinted = set().union(*map(names.kinds_within, tops))
    if kinds or ("train" in hinted and hinted & {"val", "test"}):
        alike = [top for top in tops if top in usual or names.kinds_within(top)]
        rest = [top for top in tops if top not in alike]
        beside = f", beside {listed(rest)}" if rest else ""
        raise ConfigError(
            f"{flag}: its folders can be splits or classes, since {listed(alike)} could name a"
            f" split{beside}; use --top_folders=splits (each is a split by its name) or"
            " --top_folders=classes"
        )
    return False


def find(split: str, available: Collection[str]) -> str | None:
    """Returns the name of a split, where `val` also means `Validation` or `dev`. None if absent, or
    one of several.
    """
    if split in available:
        return split
    wanted = names.meaning(split)
    if not wanted:
        return None
    usual = [(name, meaning) for name in available if (meaning := names.meaning(name))]
    same = [
        name
        for name, (kind, number) in usual
        if kind == wanted.kind and wanted.number in ("", number)
    ]
    return same[0] if len(same) == 1 else None


def is_test(split: str) -> bool:
    """Returns whether a name usually means a split to test on."""
    meaning = names.meaning(split)
    return meaning is not None and meaning.kind in ("val", "test")
