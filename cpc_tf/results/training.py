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
                records = run.metrics(phase)
                for key in ("loss", "accuracy") if records else ():
                    shown.setdefault(f"{phase} {key}".strip(), []).append(line(group, records, key, color))
    panels = [plots.Panel(panel, lines) for panel, lines in shown.items()]
    if not panels:
        return []
    size = (9, 2.6 * -(-len(panels) // 2))
    caption = f"{title[0].upper()}{title[1:]}, on the training images."
    return [Details(f"Curves of {title}", [plots.curves(name, caption, panels, 2, size, "right center")])]


def line(label: str, records: Sequence[dict], key: str, color: str | int | float) -> plots.Line:
    """The curve of one quantity, where it was recorded."""
    known = [(record["step"], record[key]) for record in records if key in record]
    x, y = zip(*known) if known else ((), ())
    return plots.Line(label, x, y, color)


def pictures(runs: Sequence[Run], file: str, name: str, title: str, alt: str) -> list[Block]:
    """Pictures that the runs drew, those of the lowest seed; the first open, the others behind a line.

    Args:
      runs: of any kind.
      file: of the picture in a run's directory.
      name: of the report's files.
      title: with {} for where the run was found.
      alt: what the pictures show.
    """
    found = [(run, content) for run in sorted(runs, key=fraction) if (content := run.picture(file))]
    first = min((run.get("seed", 0) for run, _ in found), default=0)
    figures = [
        Figure(f"{name}-{index + 1}", title.format(run.place), {"": (content, b"")}, alt)
        for index, (run, content) in enumerate(pair for pair in found if pair[0].get("seed", 0) == first)
    ]
    return [*figures[:1], *([Details(f"{len(figures) - 1} more: {name}", figures[1:])] if figures[1:] else [])]
