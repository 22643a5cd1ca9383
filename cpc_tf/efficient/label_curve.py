"""Accuracy against the number of labels: what each method reached, whose runs were short, and figure 1."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from matplotlib.axes import Axes

from cpc_tf.efficient import gain
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.results import paper, plots, presets
from cpc_tf.results.blocks import Figure
from cpc_tf.results.methods import IMAGENET, Method, by_method, fraction, main_method, titles
from cpc_tf.results.records import is_number
from cpc_tf.results.runs import Run
from cpc_tf.results.values import Gain, Spread, percent, spread

METRICS = {"top1": "Top-1 accuracy", "top5": "Top-5 accuracy"}


@dataclasses.dataclass(frozen=True)
class Curve:
    """A method at its fractions.

    Attributes:
      runs: fraction -> one run a seed, in increasing order.
      full: the steps that the preset trains for; 0 if the dataset has none.
    """

    method: Method
    title: str
    runs: dict[float, list[Run]]
    full: int

    def labels(self, at: float) -> int:
        """How many labels a fraction is."""
        return self.runs[at][0]["num_train_labels"]

    def accuracy(self, at: float, metric: str) -> Spread | None:
        """Over the seeds, in 0 to 1."""
        return spread(run[metric] for run in self.runs.get(at, []))

    def short(self, at: float) -> bool:
        """Whether the runs at a fraction are known to be shorter than the preset's."""
        return 0 < steps(self.runs[at][0]) < self.full

    def points(self, metric: str) -> list[gain.Point]:
        """(labels, mean accuracy) of the fractions whose runs are not short."""
        return [(self.labels(f), self.accuracy(f, metric).mean) for f in self.runs if not self.short(f)]


@dataclasses.dataclass(frozen=True)
class Curves:
    """All methods of a dataset, and the two that are compared."""

    all: Sequence[Curve]
    ours: Curve | None
    pixels: Curve | None

    @property
    def fractions(self) -> set[float]:
        """All that were measured."""
        return {f for curve in self.all for f in curve.runs}

    def gain(self, at: float, metric: str, rule: Callable[..., Gain | None] = gain.interpolated) -> Gain | None:
        """Of the pre-trained encoder over pixels, where both were measured in runs that are not short."""
        if not self.ours or not self.pixels or at not in self.ours.runs or self.ours.short(at):
            return None
        return rule(self.pixels.points(metric), self.ours.labels(at), self.ours.accuracy(at, metric).mean)

    def common(self) -> list[float]:
        """The fractions at which both were measured."""
        return sorted(set(self.ours.runs) & set(self.pixels.runs)) if self.ours and self.pixels else []


def curves(runs: Sequence[Run]) -> Curves:
    """The curves of one dataset. Of a method's runs at one fraction, the longest count: a trial is no seed."""
    methods = by_method(runs)
    names, found = titles(list(methods)), {}
    for method, own in methods.items():
        at: dict[float, list[Run]] = {}
        for run in sorted(own, key=fraction):
            at.setdefault(fraction(run), []).append(run)
        longest = {f: [run for run in same if steps(run) == max(map(steps, same))] for f, same in at.items()}
        preset = presets.own_preset(own[0]["dataset"], *preset_names(method))
        full = presets.settings(EfficientConfig, preset).training.train_steps if preset else 0
        found[method] = Curve(method, names[method], longest, full)
    ours, pixels = (found.get(main_method(methods, pretrained=pretrained)) for pretrained in (True, False))
    return Curves(list(found.values()), ours, pixels)


def preset_names(method: Method | None) -> tuple[str, ...]:
    """The presets that measure a method, the best first."""
    return ("efficient",) if method is None or method.trained_by != "pixels" else ("efficient_pixels", "efficient")


def steps(run: Run) -> int:
    """For how long the first phase, whose length is a setting, was trained; 0 if that is not recorded."""
    phases = run.get("phases") or {"": {}}
    length = next(iter(phases.values())).get("steps")
    return int(length) if is_number(length) else 0


def figure(found: Curves, dataset: str) -> Figure:
    """Top-1 and top-5 side by side."""
    runs = [(curve, f, run) for curve in found.all for f, same in curve.runs.items() for run in same]
    most = max(len(same) for curve in found.all for same in curve.runs.values())
    title = "Accuracy against labels (figure 1 of the paper)." + (
        f" Points are means, bands go from the worst to the best of up to {most} runs." if most > 1 else ""
    )
    title += " Arrows: how far to the right the baseline is as good." if found.common() else ""
    pictures, parts = {}, []
    for metric in METRICS:
        panel = _panel(found, metric, dataset)
        pictures[f"-{metric}"] = plots.both(
            lambda canvas, theme, panel=panel: plots.panels(canvas, theme, [panel], 1, "upper left"), 5, 4.3, dpi=200
        )
    for curve in found.all:
        values = [f"{100 * curve.accuracy(f, 'top1').mean:.1f} % with {curve.labels(f):,} labels" for f in curve.runs]
        parts.append(f"{curve.title}: {', '.join(values)}")
    alt = f"Top-1 and top-5 accuracy on {dataset} against the number of labels. Top-1 of {'; '.join(parts)}."
    shown = ("encoder", "label_fraction", "num_train_labels", "seed", "top1", "top5")
    data = [{"method": curve.title, **{name: run.get(name) for name in shown}} for curve, _, run in runs]
    return Figure("figure1", title, pictures, alt, data)


def _panel(found: Curves, metric: str, dataset: str) -> plots.Panel:
    lines, ticks = [], {}
    for curve in found.all:
        spreads = [curve.accuracy(f, metric) for f in curve.runs]
        x = [curve.labels(f) for f in curve.runs]
        ticks.update(zip(x, curve.runs))
        mean, low, high = ([100 * value for value in values] for values in list(zip(*spreads))[:3])
        name = curve.method.trained_by
        style, marker = "-" if curve in (found.ours, found.pixels) else "--", plots.MARKERS.get(name, "o")
        lines.append(plots.Line(curve.title, x, mean, name, style, low, high, marker))
    if dataset in IMAGENET:
        for name, method in (("cpc", paper.CPC), ("pixels", paper.PIXELS)):
            x = [paper.IMAGES * f for f in paper.FRACTIONS]
            lines.append(plots.Line(f"{method}, paper", x, paper.TABLE_2[metric][method], name, ":"))
    classes = max((run.get("num_classes", 0) for c in found.all for same in c.runs.values() for run in same), default=0)
    floor = 10 * max(0, (min(low for line in lines for low in line.low or line.y) - 8) // 10)

    def finish(axis: Axes, theme: plots.Theme) -> None:
        chance = 100 / classes * (5 if metric == "top5" else 1) if classes else 0
        if max(floor, 0.01) < chance < 100:
            axis.axhline(chance, color=theme.muted, linewidth=1, linestyle=(0, (1, 2)), label="chance")
        _arrows(axis, theme, found, metric)
        axis.set_xscale("log")
        axis.set_xlim(min(ticks) / 1.3, max(ticks) * 1.3)
        axis.set_xticks(list(ticks), [f"{n:,}\n{percent(f)}" for n, f in ticks.items()], fontsize=8.5)
        axis.xaxis.minorticks_off()
        axis.set_ylim(floor, 101.5)

    return plots.Panel(f"{METRICS[metric]}, %", lines, "labels (part of all)", finish=finish)


def _arrows(axis: Axes, theme: plots.Theme, found: Curves, metric: str) -> None:
    """From the first and last but one common points to where the baseline is as good."""
    common = found.common()
    for at in common[:1] + common[-2:-1]:
        gained = found.gain(at, metric)
        exact = gained and (not gained.bound or (gained.bound == "more than" and at == common[0]))
        if not exact or gained.factor < 1.15:
            continue  # nothing to point at
        start, height = found.ours.labels(at), 100 * found.ours.accuracy(at, metric).mean
        end, text = (start * gained.factor, height), f"{gained.bound} {gained.cell.text}".lstrip()
        arrow = {"arrowstyle": "->", "color": theme.muted, "linewidth": 1.3, "shrinkA": 6, "shrinkB": 1}
        axis.annotate("", end, (start, height), arrowprops=arrow)
        axis.annotate(text, end, (5, 0), textcoords="offset points", va="top", fontsize=9, color=theme.ink)
