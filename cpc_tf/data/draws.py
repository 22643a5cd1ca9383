"""Draws of images: parts of each class, and orders that slices are cut from; which images are drawn
together.

Copies of one image belong together, and so do groups of a table, such as the images of one patient.
A draw is a function of the seed and of the names of the images.
"""

from __future__ import annotations

import collections
import hashlib
import types
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from cpc_tf.core import files
from cpc_tf.core.texts import listed
from cpc_tf.data import check, walk
from cpc_tf.data.table import Table

Item = TypeVar("Item", bound=Hashable)
Groups = Mapping[int, int]  # {row: the first row of its group}, without those that are alone
_END = 4096  # bytes at the end of a file, which tell most files of one size apart
_NOTHING: Mapping = types.MappingProxyType({})


def copies(table: Table, rows: Sequence[int]) -> dict[int, int]:
    """Returns {row: the first of these rows with the same content} of files that are there several
    times.

    Sizes are compared first, then the ends of files; only files that are still equal are read
    whole. It is cached.

    Args:
      table: the images.
      rows: some of them, ascending.

    Raises:
      ConfigError: a file cannot be read.
    """
    stats = table.stats[rows]
    same_size = _several((size, row) for row, size in zip(rows, stats[:, 0].tolist()) if size > 0)
    if not same_size:
        return {}

    def digest(row: int, last: int | None) -> str:
        return check.digest(table.paths[row], last)

    def find() -> files.Findings:
        alike = same_size
        for last in (_END, None):
            candidates = [row for group in alike for row in group]
            digests = walk.in_threads(lambda row, last=last: digest(row, last), candidates)
            sizes = [int(table.stats[row, 0]) for row in candidates]
            alike = _several(zip(zip(sizes, digests), candidates))
        first_of = {}
        for group in alike:
            first_of.update(dict.fromkeys(group, min(group)))
        places = np.searchsorted(rows, [[*first_of], [*first_of.values()]]).astype(np.int64)
        return {"copies": places[0], "firsts": places[1]}

    def is_sound(copies: np.ndarray, firsts: np.ndarray) -> bool:
        are_places = check.are_places(copies, len(rows)) and check.are_places(firsts, len(rows))
        return copies.shape == firsts.shape and are_places

    result = files.remember(
        "copies", table.key("copies 2", rows), find, is_sound, place=table.cache_dir
    )
    return {
        rows[copy]: rows[first]
        for copy, first in zip(result["copies"].tolist(), result["firsts"].tolist())
    }


def other_labels(table: Table, label_of: Mapping[int, Any]) -> list[str]:
    """Returns a line on the images that have other labels than a copy of them; none if there are
    none.

    Args:
      table: the images.
      label_of: {row: its label}.

    Raises:
      ConfigError: a file cannot be read.
    """
    first_of = same_images(table, sorted(label_of))
    name = table.names
    apart = [
        f"{name[row]} ({name[first]})"
        for row, first in first_of.items()
        if label_of[row] != label_of[first]
    ]
    if not apart:
        return []
    text = "images have other labels than a copy"
    if len(apart) == 1:
        text = "image has another label than a copy"
    return [f"{len(apart)} {text}: {listed(apart)}; remove one of each, or correct its label"]


def same_images(
    table: Table, rows: Sequence[int], decoded: Sequence[int] | None = None
) -> dict[int, int]:
    """Returns {row: the first of these rows with the same picture} of images that are there several
    times.

    Copies of a file may differ in what is not seen, such as the date in it, or be of another
    format.

    Args:
      table: the images.
      rows: some of them, ascending.
      decoded: those of them whose pixels are compared, too; None: all. They are decoded, unless
        they were before.

    Raises:
      ConfigError: a file cannot be read.
    """
    candidates = rows if decoded is None else decoded
    candidates = [row for row in candidates if table.stats[row, 0] > 0]
    digests = check.look(table, candidates)[:, check.PIXELS].tolist()
    by_pixels = {}
    for group in _several((digest, row) for digest, row in zip(digests, candidates) if digest):
        by_pixels.update(dict.fromkeys(group, group[0]))
    return joined(copies(table, rows), by_pixels)


def groups_of(table: Table, rows: Sequence[int], decoded: Sequence[int] | None = None) -> Groups:
    """Returns which of some rows, ascending, are drawn together: the same images, and groups of the
    table.

    Args:
      table, rows, decoded: as of `same_images`.
    """
    same = same_images(table, rows, decoded)
    return joined(same, table.group_of(rows))


def joined(*groups: Mapping[Item, Any]) -> dict[Item, Item]:
    """Returns {item: the first of those that belong together}, for items of which several do.

    Args:
      *groups: {item: a value that is the same for those that belong together}; items are joined by
      any of them.
    """
    first: dict[Item, Item] = {}  # {item: another one of its group}

    def find(item):
        while first.setdefault(item, item) != item:
            first[item] = first[first[item]]
            item = first[item]
        return item

    for group_of in groups:
        for items in _several((group, item) for item, group in group_of.items()):
            for item in items[1:]:
                one, other = sorted((find(items[0]), find(item)))
                first[other] = one
    return {item: find(item) for item in first}


def last_part(
    classes: Iterable[Sequence[Item]], group_of: Callable[[Item], Hashable], part: float
) -> set[Item]:
    """Returns about this part of each class, whole groups of it, but at least one group of a class
    with several.

    Args:
      classes: the examples of each class in a random order, of which the last are taken.
      group_of: the group of an example; its own if it is alone.
      part: of each class.
    """
    classes = [*classes]
    # Of each class {group: how many of the class it has}, in the order in which they are taken.
    sizes = [collections.Counter(map(group_of, reversed(items))) for items in classes]
    taken: set[Hashable] = set()
    left = [len(groups) for groups in sizes]  # groups that are not taken
    within = collections.defaultdict(list)  # {group: its classes}
    for number, groups in enumerate(sizes):
        for group in groups:
            within[group].append(number)

    def take(group):
        taken.add(group)
        for number in within[group]:
            left[number] -= 1

    def is_free(group):
        """Returns whether each class of the group keeps another group."""
        return all(left[number] > 1 for number in within[group])

    # The smallest class first.
    for number in sorted(range(len(sizes)), key=lambda number: sum(sizes[number].values())):
        groups = sizes[number]
        wanted = max(1, round(part * sum(groups.values())))
        missing = wanted - sum(groups[group] for group in groups if group in taken)
        for group, count in groups.items():
            if group not in taken and count < 2 * missing and is_free(group):
                take(group)
                missing -= count
        if not any(group in taken for group in groups):
            free = [*filter(is_free, groups)]
            if free:
                take(min(free, key=groups.get))

    chosen: set[Item] = set()
    for items in classes:
        chosen.update(item for item in items if group_of(item) in taken)
    return chosen


def held_out(
    keys: np.ndarray,
    rows: Sequence[int],
    class_of: np.ndarray,
    seed: int,
    part: float,
    together: Groups = _NOTHING,
) -> list[int]:
    """Returns rows with this part of each class, but at least one of a class with several images;
    ascending.

    Args:
      keys: of all images, see `Table.keys`.
      rows: those to draw from.
      class_of: the class of each image, '' if it has none; such images are not held out.
      seed: of the draw.
      part: of each class.
      together: all of a group are held out, or none.
    """
    drawn = _by_class(_shuffled(keys, rows, seed, together), class_of)
    labelled = [rows_of_class for name, rows_of_class in drawn.items() if name]
    return sorted(last_part(labelled, lambda row: together.get(row, row), part))


def stratified(
    keys: np.ndarray,
    rows: Sequence[int],
    class_of: np.ndarray,
    seed: int,
    together: Groups,
) -> list[int]:
    """Returns rows in a random order in which any part from the beginning has that part of each
    class, up to one.

    The rows of a group follow each other, at the place of most of them. Arguments as in `held_out`.
    """
    places = collections.defaultdict(list)
    position = {}
    shuffled = _shuffled(keys, rows, seed, together)
    for rows_of_class in _by_class(shuffled, class_of).values():
        for rank, row in enumerate(rows_of_class):
            places[together.get(row, row), class_of[row]].append((rank + 0.5) / len(rows_of_class))
    for (group, _), ranks in sorted(places.items(), key=lambda item: len(item[1])):
        position[group] = sum(ranks) / len(ranks)
    return sorted(shuffled, key=lambda row: position[together.get(row, row)])


def rarest(labels: np.ndarray) -> np.ndarray:
    """Returns the class that each image counts for, int64 [N]: the number of classes if it has no
    label.

    The class that the fewest of the images left have takes all that have it, then the next (as the
    iterative stratification of Sechidis et al. 2011 goes through them). So rare classes are
    stratified exactly, others nearly.

    Args:
      labels: [N, classes] of 0 and 1.
    """
    left = labels > 0.5
    groups = np.full(len(labels), labels.shape[1], np.int64)
    while left.any():
        counts = left.sum(0)
        number = np.argmin(np.where(counts > 0, counts, len(labels) + 1))
        having = left[:, number].copy()
        groups[having] = number
        left[having] = False
    return groups


def rarest_names(rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns the class that each image counts for, of its classes; 'no label' if it has none. See
    `rarest`.
    """
    names = sorted(set().union(*rows))
    column_of = {name: column for column, name in enumerate(names)}
    labels = np.zeros([len(rows), len(names)], bool)
    for row, row_names in enumerate(rows):
        labels[row, [column_of[name] for name in row_names]] = True
    titles = [*names, "no label"]
    return [titles[number] for number in rarest(labels)]


def _shuffled(keys, rows, seed, together):
    """Returns rows in a random order, those of a group one after the other."""

    def place(row):
        key = keys[together.get(row, row)]
        return hashlib.sha256(f"{seed}\n{key}".encode()).digest(), row

    return sorted(rows, key=place)


def _by_class(rows, class_of):
    rows_of = collections.defaultdict(list)
    for row in rows:
        rows_of[class_of[row]].append(row)
    return rows_of


def _several(pairs):
    """Returns the lists of what belongs to one key, for keys with several."""
    items_of = collections.defaultdict(list)
    for key, item in pairs:
        items_of[key].append(item)
    return [items for items in items_of.values() if len(items) > 1]
