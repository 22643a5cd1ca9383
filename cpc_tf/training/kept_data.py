"""A run keeps its data: all its processes have the same, and a resume finds those that it began
with.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import tensorflow as tf
from absl import logging

from cpc_tf.core.files import read_json, reason, to_json
from cpc_tf.core.settings import ConfigError
from cpc_tf.core.texts import escaped, listed
from cpc_tf.training.cluster import agree
from cpc_tf.training.workdir import Workdir

FILE = "data.json.gz"  # in the directory of a run: {flag: inventory}
_NAMED = 3  # files that a message names of each kind of change
Inventory = Mapping[str, Any]  # as `Examples.inventory` describes it


class SplitSource(Protocol):
    """What is asked of the examples of a split, see `Examples`."""

    intensity_range: tuple[float, float] | None

    def described(self) -> str: ...

    def inventory(self) -> dict[str, Any]: ...


def keep_data(
    workdir: Workdir, strategy: tf.distribute.Strategy, splits: Mapping[str, SplitSource | None]
) -> None:
    """Records the data of a run before it begins; later it compares them with the record.

    A split that is new to the run has a record from then on.

    Args:
      workdir: of the run.
      strategy: of the run.
      splits: {flag: what its split holds, if there is one}. The first one tells the range of 16-bit
        values.

    Raises:
      ConfigError: the processes of the run have different data, or it began with others.
    """

    def described():
        return {f"--{flag}": data.described() if data else "none" for flag, data in splits.items()}

    agree(strategy, described)
    keep_intensity_range(workdir, next(data.intensity_range for data in splits.values() if data))
    now = {f"--{flag}": data.inventory() for flag, data in splits.items() if data}
    before = {}
    path = workdir.file(FILE)
    if workdir.has_begun and tf.io.gfile.exists(path):
        try:
            with tf.io.gfile.GFile(path, "rb") as file:
                before = json.loads(gzip.decompress(file.read()))
        except (OSError, tf.errors.OpError, EOFError, zlib.error, ValueError) as error:
            logging.warning(
                "%s: is damaged (%s): whether the data have changed is not known",
                path,
                reason(error),
            )
    if changes := differences(before, now):
        state = "holds a run that began"
        if workdir.is_finished:
            state = "holds a finished run, which began"
        raise ConfigError(
            "workdir",
            workdir.path,
            f"{state} with other data: {'; '.join(changes)}; put the data back as they were,"
            " or use another --workdir for the data as they are now",
        )
    if {**before, **now} != before:
        content = json.dumps({**before, **now}).encode()
        workdir.write_with_run(FILE, gzip.compress(content, mtime=0))


def keep_intensity_range(workdir: Workdir, range_now: tuple[float, float] | None) -> None:
    """Records the values that are black and white in images of more than 8 bits, before the run
    begins.

    Raises:
      ConfigError: the run began with another range. A run without a record used the upper 8 bits.
    """
    path = workdir.file("levels.json")
    recorded = tf.io.gfile.exists(path)
    if not workdir.has_begun:
        if range_now or recorded:  # an earlier start may have recorded one before it was refused
            workdir.write_with_run("levels.json", to_json({"levels": range_now}))
        return
    before = read_json(path).get("levels") if recorded else None
    before = tuple(before) if before else None
    if before != range_now:
        raise ConfigError(
            "workdir",
            workdir.path,
            f"the run began with {_range_text(before)} as the values of 16-bit images, and the"
            f" files of --dataset now give {_range_text(range_now)}; put the files back as they"
            " were, or use another --workdir",
        )


def _range_text(intensity_range: tuple[float, float] | None) -> str:
    return "{:g} to {:g}".format(*intensity_range) if intensity_range else "the upper 8 bits"


def differences(before: Mapping[str, Inventory], now: Mapping[str, Inventory]) -> list[str]:
    """Returns what has changed in the splits that both have, in words; empty if nothing has.

    Args:
      before, now: {flag: inventory}.
    """
    pairs = {flag: (before[flag], now[flag]) for flag in now if flag in before}
    if all(one["digest"] == other["digest"] for one, other in pairs.values()):
        return []
    changes = []
    for flag, (one, other) in pairs.items():
        if one["edition"] != other["edition"]:
            changes.append(
                f"{flag} is of {escaped(other['edition'])}, not of {escaped(one['edition'])}"
            )
    old_classes = set().union(*(one["classes"] for one, _ in pairs.values()))
    new_classes = set().union(*(other["classes"] for _, other in pairs.values()))
    changes += _change("class", new_classes - old_classes, "added")
    changes += _change("class", old_classes - new_classes, "removed")
    if all(None not in (one["files"], other["files"]) for one, other in pairs.values()):
        changes += _changed_files(pairs)
    else:
        for flag, (one, other) in pairs.items():
            if one["images"] != other["images"]:
                changes.append(f"{flag} has {other['images']:,} images, not {one['images']:,}")
    flags = [flag for flag, (one, other) in pairs.items() if one["digest"] != other["digest"]]
    return changes or [f"{listed(flags)}: files, their sizes, labels or the order of classes"]


def _changed_files(pairs: Mapping[str, tuple[Inventory, Inventory]]) -> list[str]:
    """Describes the changes in all splits together: an image more may move others from one to the
    other.
    """
    olds = _placed({flag: one["files"] for flag, (one, _) in pairs.items()})
    news = _placed({flag: other["files"] for flag, (_, other) in pairs.items()})
    (marked,) = {pair[1]["marked"] for pair in pairs.values()}

    def changed(at: int) -> dict[str, tuple]:
        pairs = {name: (old[at], news[name][at]) for name, old in olds.items() if name in news}
        return {name: (old, new) for name, (old, new) in pairs.items() if old != new}

    moves = [
        f"{name} ({' and '.join(old)}, now {' and '.join(new)})"
        for name, (old, new) in changed(0).items()
    ]
    sizes = [f"{name} ({old:,} bytes, now {new:,})" for name, (old, new) in changed(1).items()]
    if marked == "boxes":
        marks = _change("image", changed(2), "given other boxes")
    else:
        labels = [
            f"{name} ({old or 'none'}, now {new or 'none'})"
            for name, (old, new) in changed(2).items()
        ]
        marks = _change("label", labels, "changed")
    return [
        *_change("file", news.keys() - olds.keys(), "added"),
        *_change("file", olds.keys() - news.keys(), "removed"),
        *_change("file", sizes, "changed"),
        *marks,
        *_change("file", moves, "moved to another split"),
    ]


def _placed(splits: Mapping[str, Mapping[str, Sequence]]) -> dict[str, tuple[list[str], int, str]]:
    """Returns {file: (flags of its splits, bytes, mark)}; a split without labels does not hide
    those of another.
    """
    placed = {}
    for flag, files in splits.items():
        for name, (size, mark) in files.items():
            flags, _, other_mark = placed.get(name, ([], 0, ""))
            placed[name] = ([*flags, flag], size, mark or other_mark)
    return placed


def _change(noun: str, names: Sequence[str] | set[str], change: str) -> list[str]:
    """Returns '2 files were added: a.jpg, b.jpg', in a list that is empty without names."""
    if not names:
        return []
    if len(names) == 1:
        subject = f"{noun} was"
    elif noun.endswith("s"):
        subject = f"{noun}es were"
    else:
        subject = f"{noun}s were"
    examples = sorted(names)[:_NAMED]
    more = f" and {len(names) - len(examples)} more" if len(names) > len(examples) else ""
    return [f"{len(names)} {subject} {change}: {listed(examples)}{more}"]
