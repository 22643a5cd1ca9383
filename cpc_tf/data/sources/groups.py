"""Pictures that are drawn together: copies of one file, and groups of a table, such as those of one patient."""

from __future__ import annotations

import collections
import concurrent.futures
import hashlib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from cpc_tf.data.sources import check_cache, look

Item = TypeVar("Item", bound=Hashable)
_END = 4096  # bytes at the end of a file, which tell most files of one size apart
_THREADS = 16  # hide the latency of a bucket
_RULES = "copies 1"


def copies(cache_dir: str, root: str, names: list[str], stats: np.ndarray) -> dict[str, str]:
    """Returns {file: the first with the same content} of files that are there several times. It is remembered.

    Sizes are compared first, then the ends of files, and only what is equal then is read whole.

    Args:
      cache_dir: as `check_cache.remembered`.
      root: the folder.
      names, stats: its files and their `check_cache.stats`.

    Raises:
      ConfigError: a file cannot be read.
    """

    size_of = dict(zip(names, stats[:, 0].tolist()))
    same_size = _several((size, name) for name, size in size_of.items() if size > 0)
    if not same_size:
        return {}

    def find() -> dict[str, dict[str, str]]:
        alike = same_size
        for last in (_END, None):
            files = [name for own in alike for name in own]
            with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
                digests = pool.map(lambda name, last=last: _digest(f"{root}/{name}", last), files)
                alike = _several(((size_of[name], digest), name) for name, digest in zip(files, digests))
        return {"first_of": {name: min(own) for own in alike for name in own}}

    example = {"first_of": {}}
    return check_cache.remembered(cache_dir, root, names, stats, _RULES, example, find)["first_of"]


def joined(*groups: Mapping[str, str]) -> dict[str, str]:
    """Returns {file: the first of those that belong together}, for files of which several do.

    Args:
      *groups: {file: a text that is the same for those that belong together}; files are joined by any of them.
    """
    first: dict[str, str] = {}  # {file: another one of its group}

    def find(name):
        while first.setdefault(name, name) != name:
            first[name] = first[first[name]]
            name = first[name]
        return name

    for group_of in groups:
        for own in _several((group, name) for name, group in group_of.items()):
            for name in own[1:]:
                one, other = sorted((find(own[0]), find(name)))
                first[other] = one
    return {name: find(name) for name in first}


def last_part(classes: Iterable[Sequence[Item]], group_of: Callable[[Item], Hashable], part: float) -> set[Item]:
    """Returns about this part of each class, whole groups of it, but at least one group of a class with several.

    Args:
      classes: the examples of each class in a random order, of which the last are taken.
      group_of: the group of an example; its own if it is alone.
      part: of each class.
    """
    classes = [*classes]
    sizes = []  # of each class {group: how many of the class it has}, in the order in which they are taken
    for own in classes:
        sizes.append(collections.Counter(map(group_of, reversed(own))))
    taken: set[Hashable] = set()
    left = [len(own) for own in sizes]  # groups that are not taken
    within = collections.defaultdict(list)  # {group: its classes}
    for number, own in enumerate(sizes):
        for group in own:
            within[group].append(number)

    def take(group):
        taken.add(group)
        for number in within[group]:
            left[number] -= 1

    for number in sorted(range(len(sizes)), key=lambda number: sum(sizes[number].values())):
        own = sizes[number]
        missing = max(1, round(part * sum(own.values()))) - sum(own[group] for group in own if group in taken)
        for group, count in own.items():
            if group not in taken and count < 2 * missing and all(left[other] > 1 for other in within[group]):
                take(group)
                missing -= count
        if not any(group in taken for group in own):
            free = [group for group in own if all(left[other] > 1 for other in within[group])]
            if free:
                take(min(free, key=own.get))
    return {item for own in classes for item in own if group_of(item) in taken}


def _several(pairs):
    """Returns the lists of what belongs to one key, for keys with several."""
    found = collections.defaultdict(list)
    for key, name in pairs:
        found[key].append(name)
    return [own for own in found.values() if len(own) > 1]


def _digest(path, last):
    return hashlib.sha256(look.content(path, last)).hexdigest()
