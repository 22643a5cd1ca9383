"""Where the time of a function goes, by kind of operation: a table and a bar chart."""

from __future__ import annotations

import collections
import pathlib
import re
import tempfile
from collections.abc import Callable
from typing import NamedTuple

import matplotlib.figure
import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

CALLS, SHOWN = 5, 20


class Cost(NamedTuple):
    """What the operations of a kind cost in a call, over all threads."""

    kind: str
    milliseconds: float
    count: float


def profile(function: Callable[[], object]) -> list[Cost]:
    """The costs of a function that was called before, the largest first."""
    with tempfile.TemporaryDirectory() as folder:
        with tf.profiler.experimental.Profile(folder):
            for _ in range(CALLS):
                function()
        space = xplane_pb2.XSpace()
        (path,) = pathlib.Path(folder).rglob("*.xplane.pb")
        space.ParseFromString(path.read_bytes())
    milliseconds, counts = collections.Counter(), collections.Counter()
    for plane in space.planes:
        for event in (event for line in plane.lines for event in line.events):
            # An operation is an event called NAME:Kind, perhaps with details behind a '#'.
            if match := re.search(r"(?<!:):(_?[A-Z]\w*)(#|$)", plane.event_metadata[event.metadata_id].name):
                milliseconds[match[1]] += event.duration_ps / 1e9 / CALLS
                counts[match[1]] += 1 / CALLS
    return [Cost(kind, spent, counts[kind]) for kind, spent in milliseconds.most_common()]


def draw(costs: list[Cost], title: str, path: str) -> None:
    """Writes a bar chart of the largest costs as a PNG."""
    shown = costs[:SHOWN][::-1]
    figure = matplotlib.figure.Figure(figsize=(8, 0.3 * len(shown) + 1), layout="constrained")
    axes = figure.subplots()
    bars = axes.barh([re.sub("^_Mkl(Native)?", "", cost.kind) for cost in shown], [cost.milliseconds for cost in shown])
    axes.bar_label(bars, [f"{cost.milliseconds:.1f} ms in {cost.count:.0f}" for cost in shown], padding=3, fontsize=8)
    axes.margins(x=0.18)
    axes.set_xlabel("ms of a call, over all threads")
    axes.set_title(title, fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)
