"""Accuracy against the number of labels: what each method reached, what a gain over pixels is worth, and figure 1."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes

from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.results import paper, plots, presets
from cpc_tf.results.blocks import Figure, Gain, percent
from cpc_tf.results.methods import IMAGENET, Method, fraction, methods
from cpc_tf.results.runs import Run, is_number

# Of a pre-trained encoder, and of the baseline on pixels; the first that exists.
PRESETS = {False: ("efficient",), True: ("efficient_pixels", "efficient")}
METRICS = {"top1": "Top-1 accuracy", "top5": "Top-5 accuracy"}


def interpolated(baseline: Sequence[tuple[float, float]], labels: float, accuracy: float) -> Gain | None:
    """How many times as many labels a baseline of (labels, accuracy) needs; linear in the logarithm between its points.

    None without a baseline; 'more than' if it never gets there; 'less than' if its first point is there already.
    """
    points = sorted(baseline)
    if not points:
        return None
    if points[0][1] >= accuracy:
        return Gain(points[0][0] / labels, "" if points[0][1] == accuracy else "less than")
    for (x0, y0), (x1, y1) in zip(points, points[1:]):
        if y1 >= accuracy:
            return Gain(x0 * math.pow(x1 / x0, (accuracy - y0) / (y1 - y0)) / labels)
    return Gain(points[-1][0] / labels, "more than")


def between_measured(baseline: Sequence[tuple[float, float]], labels: float, accuracy: float) -> Gain | None:
    """The paper's coarser way: the most labels with which the baseline was measured and is not better; else None."""
    beaten = [x for x, y in baseline if y <= accuracy and x >= labels]
    most = max((x for x, _ in baseline), default=0)
    return Gain(max(beaten) / labels) if beaten and most > labels else None


class Point(NamedTuple):
    """A method's runs with one fraction of the labels: how many, and the steps of the first phase, 0 if unknown.

    `full` is how long the preset trains it; 0 if the dataset has none.
    """

    method: Method
    labels: int
    steps: int
    full: int

    @property
    def short(self) -> bool:
        """Whether the runs are known to be shorter than the preset's."""
        return 0 < self.steps < self.full


Curve = dict[float, Point]
"""Of one method: fraction -> point, in increasing order."""


class Curves(NamedTuple):
    """Those of all methods of a dataset, and the two that are compared; empty if there is none."""

    all: Sequence[Curve]
    ours: Curve
    pixels: Curve

    def gain(self, at: float, metric: str, rule: Callable[..., Gain | None] = interpolated) -> Gain | None:
        """Of the pre-trained encoder over pixels, where both were measured in runs that are not short."""
        if self.ours[at].short:
            return None
        baseline = [(p.labels, p.method.spread(metric).mean) for p in self.pixels.values() if not p.short]
        return rule(baseline, self.ours[at].labels, self.ours[at].method.spread(metric).mean)


def curves(runs: Sequence[Run]) -> Curves:
    """The curves of one dataset; compared are the first methods with the most fractions."""
    found = []
    for method in methods(runs):
        at = {f: [run for run in method.runs if fraction(run) == f] for f in sorted(set(map(fraction, method.runs)))}
        found.append({f: _point(method._replace(runs=own)) for f, own in at.items()})
    ours = [curve for curve in found if method_of(curve).pretrained]
    pixels = [curve for curve in found if method_of(curve).trained_by == "pixels"]
    return Curves(found, max(ours, key=len, default={}), max(pixels, key=len, default={}))


def method_of(curve: Curve) -> Method:
    """The method of a curve, with the runs of its first point."""
    return next(iter(curve.values())).method


def _point(method: Method) -> Point:
    """Of the runs at a fraction the longest count: a short trial is no seed of a study."""
    longest = max(map(_steps, method.runs))
    own = [run for run in method.runs if _steps(run) == longest]
    labels, names = own[0]["num_train_labels"], PRESETS[method.trained_by == "pixels"]
    full = presets.full_steps(EfficientConfig, presets.own_preset(own[0]["dataset"], *names), labels)
    return Point(method._replace(runs=own), labels, longest, full)


def _steps(run: Run) -> int:
    first = next(iter(run.get("phases", {}).values()), {})
    return int(first["steps"]) if is_number(first.get("steps")) else 0


def figure(found: Curves, dataset: str) -> Figure:
    """Figure 1 of the paper: top-1 and top-5 side by side."""
    ticks = {point.labels: f"{point.labels:,}\n{percent(f)}" for curve in found.all for f, point in curve.items()}
    title = "Accuracy against labels (figure 1 of the paper). Bands go from the worst to the best run."

    def scale(axis: Axes, theme: plots.Theme) -> None:
        axis.set(xscale="log", xlim=(min(ticks) / 1.3, max(ticks) * 1.3), ylim=(None, 101.5))

    lines = {name: _lines(found, metric, dataset) for metric, name in METRICS.items()}
    panels = [plots.Panel(f"{n}, %", own, "labels (part of all)", None, ticks, scale) for n, own in lines.items()]
    return plots.curves("figure1", title, panels, 2, (10, 4.3), "upper left")


def _lines(found: Curves, metric: str, dataset: str) -> list[plots.Line]:
    """Ours, dashed what is not compared; on ImageNet the paper's, dotted."""
    lines = []
    for curve in found.all:
        spreads = [point.method.spread(metric) for point in curve.values()]
        mean, low, high = ([100 * spread[part] for spread in spreads] for part in range(3))
        labels, method = [point.labels for point in curve.values()], method_of(curve)
        style = "-" if curve in (found.ours, found.pixels) else "--"
        lines.append(plots.Line(method.title, labels, mean, method.trained_by, style, low, high))
    labels = [paper.IMAGES * f for f in paper.FRACTIONS]
    for color, name in (("cpc", paper.CPC), ("pixels", paper.PIXELS)) if dataset in IMAGENET else ():
        lines.append(plots.Line(f"{name}, paper", labels, paper.TABLE_2[metric][name], color, ":"))
    return lines
