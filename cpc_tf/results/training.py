"""What the runs left of their training: curves from metrics.jsonl, and pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cpc_tf.results import plots
from cpc_tf.results.blocks import Block, Details, Figure, folded
from cpc_tf.results.methods import fraction, identity
from cpc_tf.results.runs import Run


def classifier_curves(name: str, title: str, groups: Mapping[str, Sequence[Run]], ordered: bool = False) -> list[Block]:
    """Returns training loss and accuracy, with panels for each phase and a curve for each run.

    Args:
      groups: label of a colour -> runs.
      ordered: whether the groups are steps of one quantity; they are drawn in shades.
    """
    panels: dict[str, list[plots.Line]] = {}
    for index, (group, own) in enumerate(groups.items(), 1):
        color = index / len(groups) if ordered else identity(own[0]).trained_by
        for phase, records in [(phase, run.metrics(phase)) for run in own for phase in ("", *run.get("phases", {}))]:
            for key in ("loss", "accuracy") if records else ():
                panels.setdefault(f"{phase} training {key}".strip(), []).append(line(group, records, key, color))
    if not panels:
        return []
    curves, title = plots.Curves(panels, 2), f"Training curves of {title}"
    return [Details(title, [curves.figure(name, f"{title}.", 9, 2.6)])]


def line(label: str, records: Sequence[dict], key: str, color: str | int | float) -> plots.Line:
    """Returns the curve of one quantity, where it was recorded."""
    return plots.Line(label, [(record["step"], record[key]) for record in records if key in record], color)


def pictures(runs: Sequence[Run], file: str, name: str, title: str, alt: str) -> list[Block]:
    """Returns the picture `file` of the runs of the lowest seed, the first unfolded; {} in `title`: the run's place."""
    found = [(run, png) for run in sorted(runs, key=fraction) if (png := run.read(file))[1:4] == b"PNG"]
    first = min((run.get("seed", 0) for run, _ in found), default=0)
    shown = [(title.format(run.place), png) for run, png in found if run.get("seed", 0) == first]
    return folded([Figure(f"{name}-{i}", caption, png, alt) for i, (caption, png) in enumerate(shown, 1)], name)
