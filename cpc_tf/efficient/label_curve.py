"""Accuracy against the number of labels: what each method reached, what a gain over pixels is worth, and figure 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.results import paper, plots, presets
from cpc_tf.results.blocks import Figure, Gain, percent
from cpc_tf.results.datasets import IMAGENET
from cpc_tf.results.methods import Method, first_steps, fraction, methods
from cpc_tf.results.runs import Run

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
            return Gain(x0 * (x1 / x0) ** ((accuracy - y0) / (y1 - y0)) / labels)
    return Gain(points[-1][0] / labels, "more than")


def between_measured(baseline: Sequence[tuple[float, float]], labels: float, accuracy: float) -> Gain | None:
    """The paper's coarser way: the most labels with which the baseline was measured and is not better; else None."""
    beaten = [x for x, y in baseline if y <= accuracy and x >= labels]
    most = max((x for x, _ in baseline), default=0)
    return Gain(max(beaten) / labels) if beaten and most > labels else None


Curve = dict[float, Method]
"""A method's runs at each fraction of the labels, in increasing order."""


class Curves(NamedTuple):
    """Those of all methods of a dataset, and the two that are compared; empty if there is none."""

    all: Sequence[Curve]
    ours: Curve
    pixels: Curve

    def gain(self, at: float, metric: str, rule: Callable[..., Gain | None] = interpolated) -> Gain | None:
        """Of the pre-trained encoder over pixels, where both were measured in runs that are known to be long enough."""
        judged = {fraction: point for fraction, point in self.pixels.items() if not (short(point) or unjudged(point))}
        baseline = [(labels(point), point.spread(metric).mean) for point in judged.values()]
        ours = self.ours[at]
        return None if short(ours) or unjudged(ours) else rule(baseline, labels(ours), ours.spread(metric).mean)


def curves(runs: Sequence[Run]) -> Curves:
    """The curves of one dataset; compared are the first methods with the most fractions."""
    found = []
    for method in methods(runs):
        found.append({})
        for at in sorted(set(map(fraction, method.runs))):
            found[-1][at] = method._replace(runs=[run for run in method.runs if fraction(run) == at])
    ours = [curve for curve in found if method_of(curve).pretrained]
    pixels = [curve for curve in found if method_of(curve).trained_by == "pixels"]
    return Curves(found, max(ours, key=len, default={}), max(pixels, key=len, default={}))


def method_of(curve: Curve) -> Method:
    """The method of a curve, with the runs of its first point."""
    return next(iter(curve.values()))


def labels(point: Method) -> int:
    """How many labels the runs at a fraction had."""
    return point.runs[0]["num_train_labels"]


def short(point: Method) -> str:
    """How much shorter than the preset's the runs at a fraction are (see presets.shorter), or ''."""
    used = preset(point.runs[0]["dataset"], point.trained_by == "pixels")
    return presets.shorter(EfficientConfig, used, first_steps(point.runs[0]), labels(point))


def unjudged(point: Method) -> str:
    """Why it cannot be told whether the runs at a fraction are as long as by a preset, or ''."""
    if not preset(point.runs[0]["dataset"], point.trained_by == "pixels"):
        return "no preset says how long runs on this dataset should be"
    return "" if first_steps(point.runs[0]) else "the runs do not say how long they are"


def preset(dataset: str, pixels: bool) -> str:
    """That of a pre-trained encoder, or of the baseline on pixels; '' if the dataset has none."""
    return presets.own_preset(dataset, *["efficient_pixels"] * pixels, "efficient")


def figure(found: Curves, dataset: str) -> Figure:
    """Figure 1 of the paper: top-1 and top-5 side by side."""
    ticks = {labels(point): f"{labels(point):,}\n{percent(f)}" for curve in found.all for f, point in curve.items()}
    title = "Accuracy against labels (figure 1 of the paper). Bands go from the worst to the best run."

    limits = {"xlim": (min(ticks) / 1.3, max(ticks) * 1.3), "ylim": (None, 101.5)}
    axes = {"xlabel": "labels (part of all)", "xscale": "log", **limits}
    panels = {f"{name}, %": _lines(found, metric, dataset) for metric, name in METRICS.items()}
    return plots.Curves(panels, 2, axes, ticks).figure("figure1", title, 10, 4.3)


def _lines(found: Curves, metric: str, dataset: str) -> list[plots.Line]:
    """Ours, dashed what is not compared; on ImageNet the paper's, dotted."""
    lines = []
    for curve in found.all:
        points = [(labels(point), *(100 * x for x in point.spread(metric)[:3])) for point in curve.values()]
        style, method = "-" if curve in (found.ours, found.pixels) else "--", method_of(curve)
        lines.append(plots.Line(method.title, points, method.trained_by, style))
    for color, name in (("cpc", paper.CPC), ("pixels", paper.PIXELS)) if dataset in IMAGENET else ():
        points = [(paper.IMAGES * f, y) for f, y in zip(paper.FRACTIONS, paper.TABLE_2[metric][name])]
        lines.append(plots.Line(f"{name}, paper", points, color, ":"))
    return lines
