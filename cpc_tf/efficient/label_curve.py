"""Accuracy against the number of labels: what each method reached, whose runs were short, and figure 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes

from cpc_tf.efficient import gain
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.results import paper, plots, presets
from cpc_tf.results.blocks import Figure
from cpc_tf.results.methods import IMAGENET, Method, fraction, methods
from cpc_tf.results.records import is_number
from cpc_tf.results.runs import Run
from cpc_tf.results.values import Gain, percent

METRICS = {"top1": "Top-1 accuracy", "top5": "Top-5 accuracy"}


class Point(NamedTuple):
    """What a method reached with one fraction of the labels.

    Attributes:
      method: with the runs at this fraction.
      labels: how many labels that is.
      steps: how long the first phase was trained, whose length is a setting; 0 if that is not recorded.
      full: how long the preset trains it; 0 if the dataset has none.
    """

    method: Method
    labels: int
    steps: int
    full: int

    @property
    def short(self) -> bool:
        """Whether the runs are known to be shorter than the preset's."""
        return 0 < self.steps < self.full


class Curves(NamedTuple):
    """All methods of a dataset: fraction -> point, in increasing order, and the two that are compared, if any."""

    all: Sequence[dict[float, Point]]
    ours: dict[float, Point]
    pixels: dict[float, Point]

    def gain(self, at: float, metric: str, rule: Callable[..., Gain | None] = gain.interpolated) -> Gain | None:
        """Of the pre-trained encoder over pixels, where both were measured in runs that are not short."""
        if at not in self.ours or self.ours[at].short:
            return None
        baseline = [(p.labels, p.method.spread(metric).mean) for p in self.pixels.values() if not p.short]
        return rule(baseline, self.ours[at].labels, self.ours[at].method.spread(metric).mean)

    def common(self) -> list[float]:
        """The fractions at which both were measured."""
        return sorted(self.ours.keys() & self.pixels.keys())


def curves(runs: Sequence[Run]) -> Curves:
    """The curves of one dataset; compared are the first methods with the most fractions."""
    found = {}
    for method in methods(runs):
        at: dict[float, list[Run]] = {}
        for run in sorted(method.runs, key=fraction):
            at.setdefault(fraction(run), []).append(run)
        found[method.title] = {f: _point(method._replace(runs=own)) for f, own in at.items()}
    compared = {True: {}, False: {}}
    for method in methods(runs):
        role, curve = method.pretrained, found[method.title]
        if (role or method.trained_by == "pixels") and len(curve) > len(compared[role]):
            compared[role] = curve
    return Curves(list(found.values()), compared[True], compared[False])


def _point(method: Method) -> Point:
    """Of the runs at a fraction the longest count: a short trial is no seed of a study."""
    longest = max(map(_steps, method.runs))
    own = [run for run in method.runs if _steps(run) == longest]
    labels, names = own[0]["num_train_labels"], preset_names(method.trained_by == "pixels")
    full = presets.full_steps(EfficientConfig, presets.own_preset(own[0]["dataset"], *names), labels)
    return Point(method._replace(runs=own), labels, longest, full)


def preset_names(pixels: bool) -> tuple[str, ...]:
    """The presets of the baseline on pixels, or of a pre-trained encoder; the first that exists."""
    return ("efficient_pixels", "efficient") if pixels else ("efficient",)


def _steps(run: Run) -> int:
    first = next(iter(run.get("phases", {}).values()), {})
    return int(first["steps"]) if is_number(first.get("steps")) else 0


def figure(found: Curves, dataset: str) -> Figure:
    """Top-1 and top-5 side by side."""
    points = [(point, run) for curve in found.all for point in curve.values() for run in point.method.runs]
    most = max(len(point.method.runs) for point, _ in points)
    title = "Accuracy against labels (figure 1 of the paper)." + (
        f" Points are means, bands go from the worst to the best of up to {most} runs." if most > 1 else ""
    )
    claimed = any(found.gain(at, metric) for at in found.common() for metric in METRICS)
    title += " Arrows: how far to the right the baseline is as good." if claimed else ""
    pictures = {}
    for metric in METRICS:
        panel = _panel(found, metric, dataset)
        draw = lambda canvas, theme, panel=panel: plots.panels(canvas, theme, [panel], 1, "upper left")  # noqa: E731
        pictures[f"-{metric}"] = plots.both(draw, 5, 4.3, dpi=200)
    means = [f"{p.method.title} {p.method.spread('top1')} % with {p.labels:,}" for c in found.all for p in c.values()]
    alt = f"Accuracy on {dataset} against the number of labels. Top-1: {', '.join(means)}."
    shown = ("encoder", "label_fraction", "num_train_labels", "seed", "top1", "top5")
    data = [{"method": point.method.title, **{name: run.get(name) for name in shown}} for point, run in points]
    return Figure("figure1", title, pictures, alt, data)


def _panel(found: Curves, metric: str, dataset: str) -> plots.Panel:
    lines = []
    for curve in found.all:
        (method, *_), *_ = points = list(curve.values())
        mean, low, high, _ = zip(*(point.method.spread(metric) for point in points))
        mean, low, high = ([100 * value for value in values] for values in (mean, low, high))
        style = "-" if curve in (found.ours, found.pixels) else "--"
        lines.append(plots.Line(method.title, [p.labels for p in points], mean, method.trained_by, style, low, high))
    floor = 10 * max(0, (min(min(line.low) for line in lines) - 8) // 10)
    if dataset in IMAGENET:
        for name, method in (("cpc", paper.CPC), ("pixels", paper.PIXELS)):
            x = [paper.IMAGES * f for f in paper.FRACTIONS]
            lines.append(plots.Line(f"{method}, paper", x, paper.TABLE_2[metric][method], name, ":"))
    classes = max(p.method.runs[0].get("num_classes", 0) for curve in found.all for p in curve.values())
    ticks = {point.labels: f"{point.labels:,}\n{percent(f)}" for curve in found.all for f, point in curve.items()}

    def finish(axis: Axes, theme: plots.Theme) -> None:
        chance = 100 / classes * (5 if metric == "top5" else 1) if classes else 0
        if max(floor, 0.01) < chance < 100:
            axis.axhline(chance, color=theme.muted, linewidth=1, linestyle=(0, (1, 2)), label="chance")
        _arrows(axis, theme, found, metric)
        axis.set_xscale("log")
        axis.set(xlim=(min(ticks) / 1.3, max(ticks) * 1.3), ylim=(floor, 101.5))
        axis.set_xticks(list(ticks), list(ticks.values()), fontsize=8.5)
        axis.xaxis.minorticks_off()

    return plots.Panel(f"{METRICS[metric]}, %", lines, "labels (part of all)", finish=finish)


def _arrows(axis: Axes, theme: plots.Theme, found: Curves, metric: str) -> None:
    """From the first and last but one common points to where the baseline is as good."""
    common = found.common()
    for at in common[:1] + common[-2:-1]:
        gained = found.gain(at, metric)
        exact = gained and (not gained.bound or (gained.bound == "more than" and at == common[0]))
        if not exact or gained.factor < 1.15:
            continue  # nothing to point at
        start, height = found.ours[at].labels, 100 * found.ours[at].method.spread(metric).mean
        end, text = (start * gained.factor, height), f"{gained.bound} {gained}\N{MULTIPLICATION SIGN}".lstrip()
        arrow = {"arrowstyle": "->", "color": theme.muted, "linewidth": 1.3, "shrinkA": 6, "shrinkB": 1}
        axis.annotate("", end, (start, height), arrowprops=arrow)
        axis.annotate(text, end, (5, 0), textcoords="offset points", va="top", fontsize=9, color=theme.ink)
