"""Accuracy against the number of labels: what each method reached, what a gain over pixels is worth, and figure 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.results import paper, plots, presets
from cpc_tf.results.blocks import Figure, Finding, Gain, percent
from cpc_tf.results.methods import Method, first_steps, fraction, methods
from cpc_tf.results.runs import Run

METRICS = {"top1": "Top-1 accuracy", "top5": "Top-5 accuracy"}
UNKNOWN_LENGTH = "how long to train on these pictures is not known"
IMAGENET = ("imagenet2012", "imagenet")  # where our figures and the paper's can be compared directly

Curve = dict[float, Method]
"""A method's runs at each fraction of the labels, in increasing order."""


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


RULES = {"Gain, interpolated": interpolated, "Gain between measured fractions": between_measured}


class Curves(NamedTuple):
    """The curves of all methods on a dataset, and the two that are compared; {} if there is none."""

    all: Sequence[Curve]
    ours: Curve
    pixels: Curve

    def gain(self, at: float, metric: str, rule: Callable[..., Gain | None] = interpolated) -> Gain | None:
        """Returns the gain of the pre-trained encoder over pixels, if the runs of both are known to be long enough."""
        ours, judged = self.ours[at], [point for point in self.pixels.values() if not doubt(point)]
        baseline = [(labels_of(point), point.spread(metric).mean) for point in judged]
        return None if doubt(ours) else rule(baseline, labels_of(ours), ours.spread(metric).mean)

    @property
    def metrics(self) -> dict[str, str]:
        """Those of METRICS that all runs have: of few classes there is no top-5."""
        runs = [run for curve in self.all for point in curve.values() for run in point.runs]
        return {metric: title for metric, title in METRICS.items() if all(metric in run for run in runs)}


def curves(runs: Sequence[Run]) -> Curves:
    """Returns the curves of one dataset; the methods with the most fractions are compared."""
    found = []
    for method in methods(runs):
        at = sorted(set(map(fraction, method.runs)))
        found.append({f: method._replace(runs=[run for run in method.runs if fraction(run) == f]) for f in at})
    alone = [curve for curve in found if not method_of(curve).propagation]  # from labels alone, as in the paper
    ours = [curve for curve in alone if method_of(curve).pretrained]
    pixels = [curve for curve in alone if method_of(curve).trained_by == "pixels"]
    return Curves(found, max(ours, key=len, default={}), max(pixels, key=len, default={}))


def method_of(curve: Curve) -> Method:
    """Returns the method of a curve, with the runs of its first point."""
    return next(iter(curve.values()))


def labels_of(point: Method) -> int:
    """Returns the number of labels of the runs at a fraction."""
    return point.runs[0]["num_train_labels"]


def doubt(point: Method) -> str:
    """Returns why the runs at a fraction may be too short to claim a gain, or ''. Without a preset nothing tells."""
    run, names = point.runs[0], ["efficient_pixels"] * (point.trained_by == "pixels")
    if any(trial.get("chosen") is True and trial.get("converged") is True for trial in run.get("search", [])):
        return ""
    preset, steps = presets.own_preset(run["dataset"], *names, "efficient"), first_steps(run)
    short = presets.remark([presets.shorter(EfficientConfig, preset, steps, labels_of(point))])
    return short or ("" if preset else UNKNOWN_LENGTH) or ("" if steps else "unknown number of steps")


def findings(found: Curves) -> list[Finding]:
    """Returns the accuracies with the fewest and the most labels; a gain is claimed only of runs of the full length."""
    common = sorted(found.ours.keys() & found.pixels.keys())
    compared = []
    for at in dict.fromkeys((*common[:1], *common[-1:])):
        both = [found.ours[at], found.pixels[at]]
        gain, (ours, pixels) = found.gain(at, "top1"), (point.spread("top1") for point in both)
        remark = ""
        if ours.mean <= pixels.mean:
            remark = "pixels are not behind"
        elif any(map(doubt, both)):
            remark = "" if compared else "no gain is claimed"
        elif at == common[0] and gain and not (gain.bound and gain.factor < 1.05):  # else pixels have no more
            remark = f"pixels need {gain} times as many labels"
        compared.append(_finding(both, at, remark))
    alone = found.ours or found.pixels
    if alone and not compared:
        at, point = next(iter(alone.items()))
        return [_finding([point], at, "")]
    return compared


def _finding(points: Sequence[Method], at: float, remark: str) -> Finding:
    values = {point.title: str(point.spread("top1")) for point in points}
    doubts = [found for found in map(doubt, points) if len(points) > 1 or found != UNKNOWN_LENGTH]
    remarks = dict.fromkeys(filter(None, [*doubts, remark]))
    return Finding(f"{labels_of(points[0]):,} labels ({percent(at)}), top-1", values, "; ".join(remarks))


def figure_1(found: Curves, dataset: str) -> list[Figure]:
    """Returns figure 1 of the paper: top-1 and top-5 side by side, on ImageNet with the paper's curves, dotted.

    None if no method was measured with several numbers of labels.
    """
    panels: dict[str, list[plots.Line]] = {}
    for metric, name in found.metrics.items():
        lines = panels[f"{name} on test images, %"] = []
        for curve in found.all:
            points = [(labels_of(point), *(100 * x for x in point.spread(metric)[:3])) for point in curve.values()]
            style, method = "-" if curve in (found.ours, found.pixels) else "--", method_of(curve)
            lines.append(plots.Line(method.title, points, method.trained_by, style))
        for color, theirs in (("cpc", paper.CPC), ("pixels", paper.PIXELS)) if dataset in IMAGENET else ():
            points = [(paper.IMAGES * f, y) for f, y in zip(paper.FRACTIONS, paper.TABLE_2[metric][theirs])]
            lines.append(plots.Line(f"{theirs}, paper", points, color, ":"))
    ticks = {labels_of(p): f"{labels_of(p):,}\n{percent(f)}" for curve in found.all for f, p in curve.items()}
    axes = {"xlabel": "labels (part of all)", "xscale": "log", "xlim": (min(ticks) / 1.3, max(ticks) * 1.3)}
    title = "Accuracy against labels (figure 1 of the paper)."
    if any(len(point.runs) > 1 for curve in found.all for point in curve.values()):
        title += " Bands go from the worst to the best run."
    return plots.Curves(panels, 2, axes, ticks, most=dict.fromkeys(panels, 100)).figure("figure1", title, 10, 4.3)
