"""Linear classification in the report: table 1 of the paper with our rows."""

from __future__ import annotations

from collections.abc import Sequence

from cpc_tf.linear.config import LinearConfig
from cpc_tf.results import paper, presets, several
from cpc_tf.results.blocks import FEATURES, TRAINING, Finding, Part, Row, Table, notes, paper_rows, spread
from cpc_tf.results.methods import Method, identity, methods
from cpc_tf.results.plots import classifier_curves, pictures
from cpc_tf.results.runs import Run

METRICS = ("top1", "top5")
NEIGHBOURS = "Nearest training images in feature space ({}): green frame, same class; red frame, another."
NEIGHBOURS_ALT = "Test images, each beside the training images whose mean latents are nearest to its own, by encoder."
BASELINES = ("untrained", "pixels")


def report(runs: Sequence[Run], dataset: str) -> list[Part]:
    """Returns the parts of the page about the linear classifiers on a dataset."""
    runs, several_labels = several.divided(runs)
    found = methods(run for run in runs if not (run.get("rung") or run.get("policy")))  # studies, with their own pages
    ours = [run for method in found if method.trained_by not in BASELINES for run in method.runs]
    curves = classifier_curves("training-linear", "linear classifiers", {m.title: m.runs for m in found})
    return [
        Part(20, "linear", "Linear classifiers", _table_1(found) if found else [], _findings(found)),
        Part(61, *FEATURES, pictures(ours, "linear.png", "neighbours", NEIGHBOURS, NEIGHBOURS_ALT)),
        Part(71, *TRAINING, curves),
        *several.parts("linear", several_labels),
    ]


def _findings(found: Sequence[Method]) -> list[Finding]:
    """Returns the best pre-trained encoder beside the best of each baseline."""
    found = sorted(found, key=lambda method: -method.spread("top1").mean)
    ours = [method for method in found if method.pretrained]
    if not ours:
        return []
    baselines = [next((m for m in found if m.trained_by == kind), None) for kind in BASELINES]
    values = {method.title: str(method.spread("top1")) for method in (ours[0], *filter(None, baselines))}
    encoders = {frozenset(run["encoder"] for run in method.runs) for method in ours}  # of other settings the same
    best = f"the best of {len(encoders)} encoders" if len(encoders) > 1 else ""
    run = ours[0].runs[0]
    preset = presets.own_preset(run["dataset"], "linear")
    steps = run.get("steps", 0)
    short = presets.shorter(LinearConfig, preset, steps, run.get("num_train_labels", 0))
    length = "" if preset or not steps else f"{steps:,} steps"  # of pictures without a preset nothing else tells
    return [Finding("linear classifier, top-1", values, presets.remark([short], best, length))]


def _table_1(found: Sequence[Method]) -> list[Table]:
    first = found[0].runs[0]
    rows, group = [], f"Measured on {first.dataset_title}"
    for method in found:
        parameters = identity(method.runs[0]).parameters
        title = f"{method.title} - {method.architecture}" if parameters and method.architecture else method.title
        rows.append(Row([title, parameters and parameters / 1e6, *map(method.spread, METRICS)], group=group))
    note = f"A linear classifier on the frozen encoder. {notes(value for row in rows for value in row.values)}".rstrip()
    chances = zip(METRICS, (1, 5))
    known = [spread([k / first["num_classes"]]) if metric in first else None for metric, k in chances]
    rows.append(Row(["chance", None, *known], "aside", group))
    rows += paper_rows(paper.TABLE_1, " (paper, ImageNet)")
    columns = ["Method", "Params (M)", "Top-1, %", "Top-5, %"]
    return [Table("table1", "Linear classification", columns, rows, note, "table 1 of the paper (ImageNet)")]
