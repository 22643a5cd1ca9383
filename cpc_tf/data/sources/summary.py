"""The lines at the start of a run on what it uses of its dataset, and what not."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cpc_tf.data.sources import classes, names
from cpc_tf.data.sources.source import About
from cpc_tf.texts import escaped, listed, one_line

MOST_LINES = 20


class Used(NamedTuple):
    """A split of a run.

    Attributes:
      flag: the flag that names it.
      split: the value of that flag.
      about: what is known of it and of the dataset.
      images: how many it has.
      counts: {class: how many}; empty if it has no labels.
      unit: what `counts` counts.
      classes: how many classes it has, if counting them takes too long.
    """

    flag: str
    split: str
    about: About
    images: int
    counts: Mapping[str, int] = {}
    unit: str = "images"
    classes: int = 0


def summary(flag: str, used: Sequence[Used], lines: Sequence[str] = ()) -> str:
    """Returns a text of at most 20 lines.

    Args:
      flag: the flags that name the dataset, with their values.
      used: the splits of the run.
      lines: more to say, on all splits together.
    """
    told = [_described(part) for part in used]
    notes = [note for part in used for note in part.about.notes]
    told += [*dict.fromkeys(notes), *lines, *_unused(used)]
    if len(told) > MOST_LINES - 1:
        told[MOST_LINES - 2 :] = [f"and {len(told) - MOST_LINES + 2} lines more"]
    return "\n".join([one_line(flag), *(f"  {one_line(line)}" for line in told)])


def _described(part):
    found = f" (found as {escaped(part.about.split)})" if part.about.split not in ("", part.split) else ""
    start = f"--{part.flag}={part.split}{found}: {part.images} images"
    if part.counts:
        objects = f", {sum(part.counts.values())} {part.unit}" if part.unit != "images" else ""
        return f"{start}{objects} of {classes.described(part.counts)}"
    if part.classes:
        return f"{start} of {part.classes} classes, not counted since all records would have to be read"
    return f"{start} without labels" + (f": {part.about.unlabelled}" if part.about.unlabelled else "")


def _unused(used):
    """Returns lines on the splits of the dataset that the run does not use."""
    named = {part.about.split or part.split for part in used}
    # The parts of train[:10%]+test, too.
    words = {word for name in named for word in (name, *re.split(r"(?:\[[^\]]*\])?\s*(?:\+\s*|$)", name))}
    rest = {name: count for part in used for name, count in part.about.splits.items() if name not in words}
    others = [f"{name} ({count} images)" for name, count in rest.items() if not names.is_unlabelled(name)]
    lines = [f"not used: the split{'s' if len(others) > 1 else ''} {listed(others)}"] if others else []
    for name, count in rest.items():
        if names.is_unlabelled(name):
            lines.append(f"not used: {count} images without labels; pre-training takes them by --split={name}")
    return lines
