"""The classes of the images of a folder: its class folders, or a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cpc_tf.data.config import ASK, LEFT_OUT
from cpc_tf.data.sources import classes, names, several_labels, walk
from cpc_tf.data.sources.source import NO_LABEL
from cpc_tf.data.sources.tree import Tree


class Labels(NamedTuple):
    """What the folders within splits, or the table, say.

    Attributes:
      classes: in their order.
      of: {image: its label, -1 if it has none}; with several labels an image the tuple of them.
      empty: class folders without an image.
      meant: images that are meant to have no label.
      doubtful: classes that may be none: named unknown, other, nan or the like; class folders without an image in any
        split, too.
    """

    classes: classes.Matched
    of: dict[str, int | tuple[int, ...]]
    empty: list[str]
    meant: set[str]
    doubtful: list[str]


def labels(tree: Tree, chosen: Sequence[str], doubtful: str = ASK) -> Labels:
    """Returns the classes of some splits together: the folders at the top of each, except unlabelled ones.

    Args:
      tree: the folder.
      chosen: some of its splits.
      doubtful: the value of --doubtful_folders.
    """
    meant = {name for split in chosen if names.is_unlabelled(split) for name in tree.splits[split]}
    chosen = [split for split in chosen if not names.is_unlabelled(split)]
    text_of, spellings, empty, strange = {}, {}, [], []
    for split, base in _class_bases(tree, chosen).items():
        own = texts(tree, split, base)
        if tree.table is None:
            tops = {name: name[len(base) :].partition("/")[0] for name in own if "/" in name[len(base) :]}
            # A test that is drawn has the folders of `train`.
            filled = {name[len(base) :].partition("/")[0] for name in tree.names if name.startswith(base)}
            there = walk.folders(f"{tree.root}/{base}".rstrip("/"))
            empty += [f"{base}{top}" for top in there if top not in filled]
            odd = {top for top in own.values() if names.is_doubtful(top)}
            if doubtful == LEFT_OUT:
                own = {name: "" if text in odd else text for name, text in own.items()}
            strange += [f"{base}{top}" for top in sorted(odd)]
            meant |= {name for name, top in tops.items() if not own[name]}
        else:
            meant |= {name for name, text in own.items() if not text}
            strange += sorted({text for name in own for text in tree.table.get(name, ()) if names.is_doubtful(text)})
        text_of.update(own)
        spellings[split] = set(own.values()) - {""}
        if tree.several_labels:
            spellings[split] = {text for name in own for text in tree.table.get(name, ())}
    found = classes.match(spellings)
    known = {*map(names.key, found.class_names)}
    last = {name: name.rpartition("/")[2] for name in empty}
    lost = [name for name, top in last.items() if names.key(top) not in known and not names.is_unlabelled(top)]
    if len(found.class_names) < 2:  # One folder does not distinguish anything.
        word, words = ("class folder", "class folders") if tree.table is None else ("class", "classes")
        why = f"{found.class_names[0]} is its only {word}" if found.class_names else f"no {words} in it"
        found = classes.Matched((), {}, trouble=found.trouble or why)
    of = {name: found.number_of.get(text, NO_LABEL) for name, text in text_of.items()}
    if tree.several_labels and found.class_names:
        of = {n: tuple(found.number_of[text] for text in tree.table[n]) for n in text_of if n in tree.table}
    return Labels(found, of, list(dict.fromkeys(empty)), meant, list(dict.fromkeys(strange + lost)))


def texts(tree: Tree, split: str, base: str | None = None) -> dict[str, str]:
    """Returns {image: its class} of a split, '' if it has none; `base`: where its class folders are, if it is known.

    With several labels an image, its class is the one that it counts for, see `several_labels.rarest`.
    """
    if tree.several_labels:
        strata = several_labels.strata(tree.table)
        return {name: strata.get(name, "") for name in tree.splits[split]}
    if tree.table is not None:
        return {name: ";".join(tree.table.get(name, ())) for name in tree.splits[split]}
    base = _class_bases(tree, [split])[split] if base is None else base
    found = {}
    for name in tree.splits[split]:
        top, slash, _ = name[len(base) :].partition("/")
        found[name] = top if slash and not names.is_unlabelled(top) else ""
    return found


def _class_bases(tree, chosen):
    """Returns `tree.bases`, or one folder deeper if each split has one more folder above its classes: train/x/cat."""
    wrappers = {}
    for split in chosen:
        parts = [name[len(tree.bases[split]) :].split("/", 2) for name in tree.splits[split]]
        tops = {part[0] for part in parts}
        if len(tops) > 1 or any(len(part) < 3 for part in parts) or names.is_unlabelled(min(tops)):
            return {split: tree.bases[split] for split in chosen}
        wrappers[split] = f"{tree.bases[split]}{tops.pop()}/"
    return wrappers
