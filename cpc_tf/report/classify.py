"""`cpc-tf classify` in the report: a label curve beside an untrained encoder and pixels, if the run
measured one.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence

from cpc_tf.drawing import plots
from cpc_tf.report.blocks import BY_CROSS_VALIDATION, Finding, Panels, Part, TableBlock, spread
from cpc_tf.report.linear import divided, multi_label
from cpc_tf.report.methods import methods
from cpc_tf.report.runs import Run

NEEDS = ("num_classes", "num_train_labels", "top1")
# Arm of a result's curve -> its name, {} for the number of labels.
ARMS = {
    "encoder": "with pre-training, {} labels",
    "untrained": "the same network, untrained, {} labels",
    "pixels": "on raw pixels, {} labels",
}
Curve = dict[str, dict[int, list[float]]]
"""Arm -> number of labels -> accuracies of the draws."""


def report(runs: Sequence[Run], dataset: str) -> list[Part]:
    """Returns the parts of the page about these classifiers on a dataset."""
    runs, multi = divided(runs)
    compared = methods(runs)
    rows = [
        {"Encoder": m.title, "Labels": m.labels, "Right, %": m.spread("top1")}
        for each in compared
        for m in each.by(_labels).values()
    ]
    folds = (
        "By cross-validation: each labelled image is classified by a classifier that"
        " has not seen it."
    )
    beside = [TableBlock("classify", "Classifiers on frozen features", rows, folds)]
    measured = [run for run in runs if _curve(run)]
    figures = [
        figure
        for index, run in enumerate(measured, 1)
        for figure in _figure(run, index, len(measured) > 1)
    ]
    findings = [
        Finding(
            f"classify, {m.labels:,} labels, top-1",
            {m.title: str(m.spread("top1"))},
            "",
            BY_CROSS_VALIDATION,
        )
        for m in compared
    ]
    return [
        Part(11, "more", "What more labels would bring", figures, findings),
        Part(12, "encoders", "Encoder by encoder", beside if len(rows) > 1 else []),
        *multi_label("classify", "classifier on frozen features", multi, BY_CROSS_VALIDATION),
    ]


def largest(run: Run) -> list[tuple[str, str, int, float]]:
    """Returns (arm, colour, labels, mean accuracy) of the most labels that all arms of a run's
    curve have.
    """
    curve = _curve(run)
    common = set.intersection(*(set(points) for points in curve.values())) if curve else set()
    if not common:
        return []
    most = max(common)
    return [
        (arm, _color(run, arm), most, spread(points[most]).mean) for arm, points in curve.items()
    ]


def _labels(run: Run) -> float:
    return run["num_train_labels"]


def _color(run: Run, arm: str) -> str:
    return run.identity.trained_by if arm == "encoder" else arm


def _curve(run: Run) -> Curve:
    arms: Curve = {}
    for point in run.get("curve", []):
        # multi-label ones have a mean average precision
        if point["arm"] in ARMS and "top1" in point:
            arms.setdefault(point["arm"], collections.defaultdict(list))[point["labels"]].append(
                point["top1"]
            )
    return {arm: arms[arm] for arm in ARMS if arm in arms}


def _figure(run: Run, index: int, named: bool) -> list:
    """Returns the curve of a run; `named`: whether there are others, so that its title says whose
    it is.
    """
    lines = []
    numbers = set()
    for arm, by_labels in _curve(run).items():
        draws = {labels: spread(by_labels[labels]) for labels in sorted(by_labels)}
        points = [(labels, *(100 * x for x in each[:3])) for labels, each in draws.items()]
        lines.append(plots.Line(ARMS[arm].rpartition(",")[0], points, _color(run, arm)))
        numbers |= {*by_labels}
    ticks = {labels: f"{labels:,}" for labels in sorted(numbers)}
    axes = {"xlabel": "labels", "xscale": "log", "xlim": (min(ticks) / 1.2, max(ticks) * 1.2)}
    panel = "Right of 100 new images"
    title = (
        f"Right by number of labels{f' ({run.place})' if named else ''}; bands: several draws of"
        " the labels."
    )
    return Panels({panel: lines}, axes, ticks, most={panel: 100}).figure(
        f"more-{index}", title, 4.8, 3.4
    )
