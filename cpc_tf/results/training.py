"""What the runs left of their training: curves from metrics.jsonl, and pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cpc_tf.results import plots
from cpc_tf.results.blocks import Block, Details, Figure
from cpc_tf.results.methods import fraction
from cpc_tf.results.runs import Run


def classifier_curves(name: str, title: str, groups: Mapping[str, Sequence[Run]], ordered: bool = False) -> list[Block]:
    """Loss and accuracy on the training images, a curve for each run and a pair of panels for each phase.

    Args:
      name: of the files.
      title: what the runs are.
      groups: label of a colour -> runs.
      ordered: whether the groups are steps of one quantity, drawn in shades.
    """
    shown: dict[str, list[plots.Line]] = {}
    for index, (group, runs) in enumerate(groups.items()):
        color = (index + 1) / len(groups) if ordered else index
        for run in runs:
            for phase in ("", *run.get("phases", {})):
                for key in ("loss", "accuracy") if (records := run.metrics(phase)) else ():
                    shown.setdefault(f"{phase} {key}".strip(), []).append(line(group, records, key, color))
    panels = [plots.Panel(panel, lines) for panel, lines in shown.items()]
    caption = f"{title[0].upper()}{title[1:]}, on the training images."
    figures = [plots.curves(name, caption, panels, 2, (9, 2.6), "right center")] if panels else []
    return [Details(f"Curves of {title}", [figure]) for figure in figures]


def line(label: str, records: Sequence[dict], key: str, color: str | int | float) -> plots.Line:
    """The curve of one quantity, where it was recorded."""
    known = [record for record in records if key in record]
    return plots.Line(label, [record["step"] for record in known], [record[key] for record in known], color)


def pictures(runs: Sequence[Run], file: str, name: str, title: str, alt: str) -> list[Block]:
    """Pictures that the runs drew, those of the lowest seed; the first open, the others behind a line.

    Args:
      runs: of any kind.
      file: of the picture in a run's directory.
      name: of the report's files.
      title: with {} for where the run was found.
      alt: what the pictures show.
    """
    found = [(run, content) for run in sorted(runs, key=fraction) if (content := run.read(file))[1:4] == b"PNG"]
    first = min((run.get("seed", 0) for run, _ in found), default=0)
    figures = [
        Figure(f"{name}-{index + 1}", title.format(run.place), {"": (content, b"")}, alt)
        for index, (run, content) in enumerate(pair for pair in found if pair[0].get("seed", 0) == first)
    ]
    return [*figures[:1], *([Details(f"{len(figures) - 1} more: {name}", figures[1:])] if figures[1:] else [])]
