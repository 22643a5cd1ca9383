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
    """Returns how many times as many labels a baseline of (labels, accuracy) needs for an accuracy.

    Between its points, accuracy is linear in the logarithm of the labels. The bound is 'more than' if the baseline
    never reaches the accuracy, 'less than' if its first point already does. None without a baseline.
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
    """Returns the gain by the paper's coarser rule: the most labels at which the measured baseline is not better."""
    beaten = [x for x, y in baseline if y <= accuracy and x >= labels]
    most = max((x for x, _ in baseline), default=0)
    return Gain(max(beaten) / labels) if beaten and most > labels else None


Curve = dict[float, Method]
"""A method's runs at each fraction of the labels, in increasing order."""


class Curves(NamedTuple):
    """The curves of all methods on a dataset, and the two that are compared; {} if there is none."""

    all: Sequence[Curve]
    ours: Curve
    pixels: Curve

    def gain(self, at: float, metric: str, rule: Callable[..., Gain | None] = interpolated) -> Gain | None:
        """Returns the gain of the pre-trained encoder over pixels, if the runs of both are known to be long enough."""
        judged = {fraction: point for fraction, point in self.pixels.items() if not (short(point) or unjudged(point))}
        baseline = [(labels(point), point.spread(metric).mean) for point in judged.values()]
        ours = self.ours[at]
        return None if short(ours) or unjudged(ours) else rule(baseline, labels(ours), ours.spread(metric).mean)


def curves(runs: Sequence[Run]) -> Curves:
    """Returns the curves of one dataset; the methods with the most fractions are compared."""
    found = []
    for method in methods(runs):
        found.append({})
        for at in sorted(set(map(fraction, method.runs))):
            found[-1][at] = method._replace(runs=[run for run in method.runs if fraction(run) == at])
    ours = [curve for curve in found if method_of(curve).pretrained]
    pixels = [curve for curve in found if method_of(curve).trained_by == "pixels"]
    return Curves(found, max(ours, key=len, default={}), max(pixels, key=len, default={}))


def method_of(curve: Curve) -> Method:
    """Returns the method of a curve, with the runs of its first point."""
    return next(iter(curve.values()))


def labels(point: Method) -> int:
    """Returns the number of labels of the runs at a fraction."""
    return point.runs[0]["num_train_labels"]


def short(point: Method) -> str:
    """Returns how much shorter than the preset's the runs at a fraction are (see `presets.shorter`), or ''."""
    used = preset(point.runs[0]["dataset"], point.trained_by == "pixels")
    return presets.shorter(EfficientConfig, used, first_steps(point.runs[0]), labels(point))


def unjudged(point: Method) -> str:
    """Returns why the length of the runs at a fraction cannot be judged, or ''."""
    if not preset(point.runs[0]["dataset"], point.trained_by == "pixels"):
        return "no preset for this dataset"
    return "" if first_steps(point.runs[0]) else "unknown number of steps"


def preset(dataset: str, pixels: bool) -> str:
    """Returns the preset for a pre-trained encoder or for the supervised baseline; '' if the dataset has none."""
    return presets.own_preset(dataset, *["efficient_pixels"] * pixels, "efficient")


def figure(found: Curves, dataset: str) -> Figure:
    """Returns figure 1 of the paper: top-1 and top-5 side by side."""
    ticks = {labels(point): f"{labels(point):,}\n{percent(f)}" for curve in found.all for f, point in curve.items()}
    title = "Accuracy against labels (figure 1 of the paper). Bands go from the worst to the best run."

    limits = {"xlim": (min(ticks) / 1.3, max(ticks) * 1.3), "ylim": (None, 101.5)}
    axes = {"xlabel": "labels (part of all)", "xscale": "log", **limits}
    panels = {f"{name} on test images, %": _lines(found, metric, dataset) for metric, name in METRICS.items()}
    return plots.Curves(panels, 2, axes, ticks).figure("figure1", title, 10, 4.3)


def _lines(found: Curves, metric: str, dataset: str) -> list[plots.Line]:
    """Our curves, dashed if they are not compared; on ImageNet the paper's, dotted."""
    lines = []
    for curve in found.all:
        points = [(labels(point), *(100 * x for x in point.spread(metric)[:3])) for point in curve.values()]
        style, method = "-" if curve in (found.ours, found.pixels) else "--", method_of(curve)
        lines.append(plots.Line(method.title, points, method.trained_by, style))
    for color, name in (("cpc", paper.CPC), ("pixels", paper.PIXELS)) if dataset in IMAGENET else ():
        points = [(paper.IMAGES * f, y) for f, y in zip(paper.FRACTIONS, paper.TABLE_2[metric][name])]
        lines.append(plots.Line(f"{name}, paper", points, color, ":"))
    return lines
