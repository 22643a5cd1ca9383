"""Slices of a folder in the syntax of TensorFlow Datasets: train[:80%]+val. Each has its part of each class.

Slices are cut from an order that depends on the seed and on the names of the images alone, not on the disk, the machine
or the task. An image that is added later hardly changes the order of the others.
"""

from __future__ import annotations

import collections
import hashlib
import re
import types
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import tensorflow_datasets as tfds

from cpc_tf.data.sources import folder_classes, groups
from cpc_tf.data.sources.names import meaning
from cpc_tf.data.sources.source import SplitError
from cpc_tf.data.sources.tree import Tree, is_test
from cpc_tf.texts import listed

_PIECE = re.compile(r"\s*(?P<split>[^\[\]]*?)\s*(?:\[(?P<slice>[-\d_.%:]*)\])?\s*")


class Piece(NamedTuple):
    """A part of a split."""

    split: str  # as the folder has it
    files: list[str]  # in the order of their names
    text: str  # e.g. train[:80%]


def pieces(split: str, tree: Tree, seed: int) -> list[Piece]:
    """Returns what a split in the syntax of TensorFlow Datasets consists of.

    Args:
      split: e.g. 'train', 'train[:80%]+val', 'train[100:]'.
      tree: the folder and its splits.
      seed: of the order that slices are cut from.

    Raises:
      SplitError: a split is absent, an image is in two pieces or there is none.
    """
    found = [_piece(split, split, tree, seed)] if tree.find(split) else []
    found = found or [_piece(part, split, tree, seed) for part in split.split("+")]
    files = [file for piece in found for file in piece.files]
    if not files:
        raise SplitError(split, "has no image")
    if twice := [file for file, count in collections.Counter(files).items() if count > 1]:
        raise SplitError(split, f"has {len(twice)} images twice, e.g. {twice[0]}")
    return found


def held_out(
    files: Sequence[str],
    class_of: Mapping[str, str],
    base: str,
    seed: int,
    part: float,
    together: Mapping[str, str] = types.MappingProxyType({}),
) -> list[str]:
    """Returns this part of each class, but at least one of a class with several images; sorted.

    Args:
      files: images.
      class_of: {image: its class}, '' if it has none; such images are not held out.
      base: the beginning of all their names, which does not count in the draw.
      seed: of the draw.
      part: of each class.
      together: as `Tree.together` returns it: all of a group are held out, or none.
    """
    drawn = _drawn(files, class_of, base, seed, together)
    return sorted(groups.last_part([own for name, own in drawn.items() if name], _group_of(together), part))


def _group_of(together):
    return lambda file: together.get(file, file)


def _piece(part, split, tree, seed):
    match = _PIECE.fullmatch(part)
    name = tree.find(part) or (tree.find(match["split"]) if match else None)
    if name is None:
        folder, hint = tree.flag.removeprefix("--dataset="), ""
        if is_test(split) and not any(map(is_test, tree.splits)):
            if tree.one_test:
                hint = "; nothing can be held out for a test, since no class there has two images"
            elif folder.startswith("folder:"):
                hint = f"; --labelled={folder.partition(':')[2]} instead tests on a fifth of each class"
        if not hint and not any(map(meaning, tree.splits)):
            first = min(tree.splits)
            hint = f"; parts of one are splits, too: --split={first}[:80%] --test_split={first}[80%:]"
        raise SplitError(split, f"{folder} has {listed(sorted(tree.splits))}{hint}")
    files = tree.splits[name]
    if tree.find(part) or match["slice"] is None:
        return Piece(name, files, name)
    class_of = folder_classes.texts(tree, name)
    # Images without labels are cut by themselves: so those with labels are cut alike with and without them.
    together = tree.together(files)
    group_of = _group_of(together)
    ordered = _stratified(files, class_of, tree.bases[name], seed, together)
    labelled, others = ([file for file in ordered if bool(class_of[file]) is known] for known in (True, False))
    bound = {*map(group_of, labelled)}  # groups go where those of them with labels go
    cut = _sliced(labelled, match["slice"], split, group_of) if labelled else []
    own = {*map(group_of, cut)}
    cut += [file for file in others if group_of(file) in own]
    free = [file for file in others if group_of(file) not in bound]
    cut += _sliced(free, match["slice"], split, group_of, clipped=bool(labelled)) if free else []
    return Piece(name, sorted(cut), f"{name}[{match['slice']}]")


def _sliced(files, text, split, group_of, clipped=False):
    """Returns a slice of a list. The rules of TensorFlow Datasets: percents are rounded to the nearest image.

    Numbers beyond the list are an error, or, if `clipped`, its end: [:100] of 3 images is all of them. A group that an
    end of the slice would cut lies before that end.
    """

    def between(*ends):
        start, stop, _ = slice(*ends).indices(len(files))
        ends = [start, stop]
        for i in range(2):
            while 0 < ends[i] < len(files) and group_of(files[ends[i] - 1]) == group_of(files[ends[i]]):
                ends[i] += 1
        return files[slice(*ends)]

    if clipped and "%" not in text:
        return between(*(int(number) if number else None for number in text.split(":")))
    try:
        instruction = tfds.core.ReadInstruction.from_spec(f"all_files[{text}]")
        cut = instruction.to_absolute({"all_files": types.SimpleNamespace(num_examples=len(files))})[0]
    except (ValueError, AssertionError) as error:
        raise SplitError(split, f"[{text}] is no slice of its {len(files)} images, such as [:80%] or [100:]") from error
    return between(cut.from_, cut.to)


def _stratified(files, class_of, base, seed, together):
    """Returns files in a random order in which any part from the beginning has that part of each class, up to one.

    The files of a group follow each other, at the place of most of them.
    """
    group_of, places, position = _group_of(together), {}, {}
    drawn = _drawn(files, class_of, base, seed, together)
    for own in drawn.values():
        for rank, file in enumerate(own):
            places.setdefault((group_of(file), class_of[file]), []).append((rank + 0.5) / len(own))
    for (group, _), own in sorted(places.items(), key=lambda item: len(item[1])):
        position[group] = sum(own) / len(own)
    return sorted(files, key=lambda f: (position[group_of(f)], _draw(seed, group_of(f)[len(base) :]), f))


def _drawn(files, class_of, base, seed, together):
    """Returns {class: its files in a random order}, those of a group one after the other."""
    own, group_of = collections.defaultdict(list), _group_of(together)
    for file in sorted(files, key=lambda file: (_draw(seed, group_of(file)[len(base) :]), file)):
        own[class_of[file]].append(file)
    return own


def _draw(seed, name):
    return hashlib.sha256(f"{seed}\n{name}".encode()).digest()
