"""What the runs left of their training: curves from metrics.jsonl, and pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cpc_tf.results import plots
from cpc_tf.results.blocks import Block, Details, Figure, folded
from cpc_tf.results.methods import fraction
from cpc_tf.results.runs import Run


def classifier_curves(name: str, title: str, groups: Mapping[str, Sequence[Run]], ordered: bool = False) -> list[Block]:
    """Loss and accuracy on the training images, a curve a run, panels for each phase; label of a colour -> runs.

    If the groups are steps of one quantity, `ordered`, they are drawn in shades.
    """
    panels: dict[str, list[plots.Line]] = {}
    for index, (group, own) in enumerate(groups.items()):
        color = (index + 1) / len(groups) if ordered else index
        for phase, records in [(phase, run.metrics(phase)) for run in own for phase in ("", *run.get("phases", {}))]:
            for key in ("loss", "accuracy") if records else ():
                panels.setdefault(f"{phase} {key}".strip(), []).append(line(group, records, key, color))
    if not panels:
        return []
    curves, title = plots.Curves(panels, 2), f"Curves of {title}"
    return [Details(title, [curves.figure(name, f"{title}, on the training images.", 9, 2.6)])]


def line(label: str, records: Sequence[dict], key: str, color: str | int | float) -> plots.Line:
    """The curve of one quantity, where it was recorded."""
    return plots.Line(label, [(record["step"], record[key]) for record in records if key in record], color)


def pictures(runs: Sequence[Run], file: str, name: str, title: str, alt: str) -> list[Block]:
    """The picture `file` of the runs of the lowest seed, the first not folded; {} in `title`: where the run was."""
    found = [(run, png) for run in sorted(runs, key=fraction) if (png := run.read(file))[1:4] == b"PNG"]
    first = min((run.get("seed", 0) for run, _ in found), default=0)
    shown = [(title.format(run.place), png) for run, png in found if run.get("seed", 0) == first]
    return folded([Figure(f"{name}-{i}", caption, png, b"", alt) for i, (caption, png) in enumerate(shown, 1)], name)
