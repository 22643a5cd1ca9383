"""How the runs trained: curves and diagnostics from metrics.jsonl, and a table of what they ended with."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from cpc_tf.pretrain.diagnostics import Health
from cpc_tf.reporting import formats, methods, plots
from cpc_tf.reporting.blocks import Block, Details, Figure, Row, Table, Text
from cpc_tf.reporting.collect import Run
from cpc_tf.reporting.methods import fraction

# What a pre-training records: title, and below which value it warns of collapse.
PANELS = {
    "loss": ("loss, nats", None),
    "bound": ("bound, nats", None),
    "accuracy": ("contrastive accuracy", None),
    "knn": ("nearest-neighbour accuracy", None),
    "gradient_norm": ("gradient norm", None),
    "feature_std": ("feature_std", 0.02),
    "effective_rank": ("effective rank", 1.5),
    "images_per_second": ("images a second", None),
}
PHASES = ("", "frozen", "fine-tuned", "supervised")
MOST_POINTS = 2000
PLAIN = "linear classifiers"
DPI = 140  # there may be many of these


class Line(NamedTuple):
    """How one phase of a classifier trained."""

    run: Run
    group: str
    phase: str
    records: list[dict]


def pretraining(runs: Sequence[Run]) -> list[Block]:
    """A table of the pre-training runs, and the curves of each."""
    if not runs:
        return []
    named = sorted(((_name(run), run) for run in runs), key=lambda pair: (methods.rung(pair[1]) != "", pair[0]))
    blocks: list[Block] = [_table(named)]
    drawn: dict[bool, list[Figure]] = {False: [], True: []}
    for number, (name, run) in enumerate((name, run) for name, run in named if run.metrics()):
        drawn[methods.rung(run) != ""].append(_pretraining_figure(run, name, f"training-{number + 1}"))
    for number, figure in enumerate(drawn[False]):
        blocks.append(Details(f"Curves of {figure.title.split('.')[0]}", [figure], open=not number))
    if drawn[True]:
        blocks.append(Details(f"Curves of the ladder's {len(drawn[True])} runs", drawn[True]))
    without = [name for name, run in named if not run.metrics()]
    if without:
        blocks.append(Text(f"No curves of {', '.join(without)}: there is no metrics.jsonl beside the result."))
    return blocks


def classifiers(runs: Sequence[Run], kind: str) -> list[Block]:
    """Loss and accuracy of the classifiers, a line a run and phase: by fraction, by method, by rung."""
    by_method = methods.by_method(runs)
    titles = methods.titles(list(by_method))
    if kind == "efficient":
        groups = {
            f"classifiers with few labels: {titles[method]}": _lines(own, lambda run: formats.percent(fraction(run)))
            for method, own in by_method.items()
        }
    else:
        ladder = [run for run in runs if methods.rung(run)]
        plain = [run for run in runs if not methods.rung(run)]
        plain_titles = methods.titles(list(methods.by_method(plain)))
        groups = {
            PLAIN: _lines(plain, lambda run: plain_titles[methods.method(run)]),
            "linear classifiers of the ladder": _lines(ladder, methods.rung),
        }
    figures = {
        title: _classifier_figure(lines, title, f"training-{kind}-{number + 1}", ordered=title != PLAIN)
        for number, (title, lines) in enumerate(groups.items()) if lines
    }  # fmt: skip
    return [Details(f"Curves of {title}", [figure]) for title, figure in figures.items()]


def warning(run: Run) -> str:
    """What the run's own check of its health said, or ''."""
    health, said = Health(), ""
    for record in run.metrics():
        if {"feature_std", "effective_rank"} <= set(record):
            said = said or health.look(int(record["step"]), record) or ""
    return said.split(". See")[0]


def _name(run: Run) -> str:
    """Its directory below the runs, or its encoder and seed."""
    return run.place if run.directory else f"{methods.architecture(run['encoder'])}, seed {run.get('seed', 0)}"


def _table(named: Sequence[tuple[str, Run]]) -> Table:
    rows, data = [], []
    for name, run in named:
        values = [run.get(key) for key in ("bound", "accuracy", "knn", "feature_std", "effective_rank")]
        numbers = [formats.number(value) for value in values]
        seconds, speed = run.get("wall_seconds"), run.get("images_per_second")
        health = "collapsed" if warning(run) else "no warning" if run.metrics() else formats.NOTHING
        rows.append(
            Row([
                name, methods.architecture(run["encoder"]), formats.number(run.get("seed")), f"{run['step']:,}",
                f"{run['loss']:.3g}", *numbers, formats.NOTHING if speed is None else f"{speed:.0f}",
                formats.duration(seconds), health,
            ])
        )  # fmt: skip
        data.append({"run": name, **{k: v for k, v in run.record.items() if isinstance(v, (int, float, str))}})
    columns = ["Run", "Encoder", "Seed", "Steps", "Loss", "Bound", "Accuracy", "kNN", "feature_std", "Rank", "Images/s",
               "Time", "Health"]  # fmt: skip
    note = (
        "At the end of each run. Loss and bound in nats: losses of runs with another batch, grid or number of "
        "directions do not compare, bounds do. docs/is_my_loss_normal.md says what is healthy."
    )
    return Table("pretraining", "Pre-training runs", columns, rows, data, note, words=(1, 12))


def _pretraining_figure(run: Run, name: str, file: str) -> Figure:
    records = run.metrics()
    shown = {key: panel for key, panel in PANELS.items() if any(key in record for record in records)}

    def draw(canvas: Canvas, theme: plots.Theme) -> None:
        axes = list(canvas.subplots(-(-len(shown) // 4), min(4, len(shown)), squeeze=False).flat)
        for axis, (key, (title, least)) in zip(axes, shown.items()):
            _line(axis, records, key, theme.roles["cpc"])
            if least is not None:
                axis.axhline(least, color=theme.roles["pixels"], linewidth=1, linestyle="--")
                axis.set_ylim(0, None)
            axis.set_title(title, fontsize=9.5)
            axis.tick_params(labelsize=8)
            axis.set_xlabel("step", fontsize=8)
        for axis in axes[len(shown):]:  # fmt: skip
            axis.set_visible(False)

    drawn = {"": plots.both(draw, 10, 2.3 * -(-len(shown) // 4), dpi=DPI)}
    last = {key: records[-1][key] for key in shown if key in records[-1]}
    alt = f"Curves of {name} over {records[-1]['step']:,.0f} steps. At the end: " + ", ".join(
        f"{key} {value:.3g}" for key, value in last.items()
    )
    said = warning(run)
    title = f"{name}." + (f" Warning at {said}." if said else "") + " Dashed: below it, a warning of collapse."
    return Figure(file, title, drawn, alt, records)


def _lines(runs: Sequence[Run], group: Callable[[Run], str]) -> list[Line]:
    """The phases that left metrics, by increasing labels, then in the order of the groups."""
    found = []
    for run in sorted(runs, key=lambda run: (fraction(run), run.place)):
        for phase in PHASES if run.directory else ():
            records = Run(run.record, run.place, f"{run.directory}/{phase}".rstrip("/")).metrics()
            if records:
                found.append(Line(run, group(run), phase, records))
    return found


def _classifier_figure(lines: Sequence[Line], title: str, file: str, ordered: bool) -> Figure:
    phases = list(dict.fromkeys(line.phase for line in lines))
    groups = list(dict.fromkeys(line.group for line in lines))

    def draw(canvas: Canvas, theme: plots.Theme) -> None:
        shade = theme.shades(faint=0.3)
        colors = {name: shade((i + 1) / len(groups)) for i, name in enumerate(groups)}
        if not ordered:
            colors = dict(zip(groups, itertools.cycle(theme.lines)))
        for row, phase in zip(canvas.subplots(len(phases), 2, squeeze=False), phases):
            for axis, key in zip(row, ("loss", "accuracy")):
                for line in lines:
                    if line.phase == phase:
                        _line(axis, line.records, key, colors[line.group])
                axis.set_title(f"{phase} {key}".strip())
                axis.set_xlabel("step")
        if len(groups) > 1:
            handles = [Line2D([], [], color=color) for color in colors.values()]
            canvas.legend(handles, groups, loc="outside right center", fontsize=9)

    drawn = {"": plots.both(draw, 9, 2.6 * len(phases), dpi=DPI)}
    last = [(line, line.records[-1]) for line in lines]
    ends = [f"{line.group} {line.phase} {record['loss']:.3g}" for line, record in last if "loss" in record]
    data = [
        {"run": line.run.place, "of": line.group, "phase": line.phase, **record}
        for line in lines for record in line.records
    ]  # fmt: skip
    alt = f"Loss and accuracy over the steps. Loss at the end: {'; '.join(ends[:12])}."
    return Figure(file, f"{title[0].upper()}{title[1:]}, on the training images.", drawn, alt, data)


def _line(axis: Axes, records: Sequence[dict], key: str, color) -> None:
    known = [(record["step"], record[key]) for record in records if key in record]
    known = known[:: max(1, len(known) // MOST_POINTS)]
    marker = "o" if len(known) <= 12 else ""
    axis.plot(*zip(*known) if known else ([], []), color=color, linewidth=1.4, marker=marker, markersize=2.5)
