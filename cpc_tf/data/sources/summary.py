"""What a run uses of its dataset, and what not, in some lines at its start."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cpc_tf.data.sources import classes, folder_names
from cpc_tf.data.sources.source import About
from cpc_tf.texts import escaped, listed, one_line

MOST_LINES = 20


class Used(NamedTuple):
    """A split of a run.

    Attributes:
      flag: the flag that names it.
      split: the value of that flag.
      about: what is known of it and of the dataset.
      pictures: how many it has.
      counts: {class: how many}; empty if it has no labels.
      unit: what `counts` counts.
      classes: how many classes it has, if they cannot be counted soon.
    """

    flag: str
    split: str
    about: About
    pictures: int
    counts: Mapping[str, int] = {}
    unit: str = "pictures"
    classes: int = 0


def summary(dataset: str, used: Sequence[Used], lines: Sequence[str] = ()) -> str:
    """Text of at most 20 lines.

    Args:
      dataset: the value of --dataset.
      used: the splits of the run.
      lines: more to say, of all splits together.
    """
    told = [_described(part) for part in used]
    notes = [note for part in used for note in part.about.notes]
    told += [*dict.fromkeys(notes), *lines, *_unused(used)]
    if len(told) > MOST_LINES - 1:
        told[MOST_LINES - 2 :] = [f"and {len(told) - MOST_LINES + 2} lines more"]
    return "\n".join([one_line(f"--dataset={dataset}"), *(f"  {one_line(line)}" for line in told)])


def _described(part):
    found = f" (found as {escaped(part.about.split)})" if part.about.split not in ("", part.split) else ""
    start = f"--{part.flag}={part.split}{found}: {part.pictures} pictures"
    if part.counts:
        objects = f", {sum(part.counts.values())} {part.unit}" if part.unit != "pictures" else ""
        return f"{start}{objects} of {classes.described(part.counts)}"
    if part.classes:
        return f"{start} of {part.classes} classes, not counted since all records would have to be read"
    return f"{start} without labels" + (f": {part.about.unlabelled}" if part.about.unlabelled else "")


def _unused(used):
    """Lines on the splits of the dataset that the run does not touch."""
    named = {part.about.split or part.split for part in used}
    words = {word for name in named for word in (name, *re.findall(r"\w+", name))}  # as in train[:10%]+test
    rest = {name: count for part in used for name, count in part.about.splits.items() if name not in words}
    without = {name: count for name, count in rest.items() if folder_names.is_unlabelled(name)}
    others = [f"{name} ({count} pictures)" for name, count in rest.items() if name not in without]
    lines = (
        [f"not used: the splits {listed(others)}"] if len(others) > 1 else [f"not used: the split {o}" for o in others]
    )
    for name, count in without.items():
        lines.append(f"not used: {count} pictures without labels; pre-training takes them by --split={name}")
    return lines
