"""Figure 1: accuracy against the number of labels, and what each method reached at each fraction of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from cpc_tf.reporting import efficiency, formats, methods, paper, plots
from cpc_tf.reporting.blocks import Figure
from cpc_tf.reporting.collect import Run
from cpc_tf.reporting.methods import Method, Spread

METRICS = {"top1": "Top-1 accuracy", "top5": "Top-5 accuracy"}


@dataclasses.dataclass(frozen=True)
class Curve:
    """A method at its fractions.

    Attributes:
      labels: fraction -> how many labels that is.
      runs: fraction -> one run a seed.
    """

    method: Method
    title: str
    labels: dict[float, int]
    runs: dict[float, list[Run]]

    def accuracy(self, fraction: float, metric: str) -> Spread | None:
        """Over the seeds, in 0 to 1."""
        found = self.runs.get(fraction)
        return methods.spread(run[metric] for run in found) if found else None

    def spreads(self, metric: str) -> list[Spread]:
        """With increasing labels."""
        return [self.accuracy(f, metric) for f in sorted(self.runs)]

    def points(self, metric: str) -> list[efficiency.Point]:
        """(labels, mean accuracy), with increasing labels."""
        return sorted((self.labels[f], self.accuracy(f, metric).mean) for f in self.runs)


@dataclasses.dataclass(frozen=True)
class Curves:
    """All methods of a dataset, and the two that are compared."""

    all: Sequence[Curve]
    cpc: Curve | None
    pixels: Curve | None
    chance: float

    def gain(self, fraction: float, metric: str) -> efficiency.Gain | None:
        """Of CPC over pixels, where CPC was measured."""
        if not self.cpc or not self.pixels or fraction not in self.cpc.runs:
            return None
        accuracy = self.cpc.accuracy(fraction, metric).mean
        return efficiency.interpolated(self.pixels.points(metric), self.cpc.labels[fraction], accuracy)

    def common(self) -> list[float]:
        """The fractions at which both were measured."""
        return sorted(set(self.cpc.runs) & set(self.pixels.runs)) if self.cpc and self.pixels else []


def curves(runs: Sequence[Run]) -> Curves:
    """The curves of one dataset's efficient classification."""
    by_method = methods.by_method(runs)
    titles = methods.titles(list(by_method))
    found = {}
    for method, own in by_method.items():
        at: dict[float, list[Run]] = {}
        for run in sorted(own, key=methods.fraction):
            at.setdefault(methods.fraction(run), []).append(run)
        labels = {fraction: same[0]["num_train_labels"] for fraction, same in at.items()}
        found[method] = Curve(method, titles[method], labels, at)
    main = {role: found.get(methods.main_method(by_method, role)) for role in methods.ROLES}
    classes = max((run.get("num_classes", 0) for run in runs), default=0)
    return Curves(list(found.values()), main["cpc"], main["pixels"], 1 / classes if classes else 0)


def figure(found: Curves, dataset: str) -> Figure:
    """Top-1 and top-5 side by side."""

    drawn = {
        f"-{metric}": plots.both(
            lambda canvas, theme, metric=metric: _panel(canvas, theme, found, metric, dataset), 5, 4.3
        )
        for metric in METRICS
    }
    data = [
        {"method": c.title, "encoder": run["encoder"], "label_fraction": f, "num_train_labels": c.labels[f],
         "seed": run.get("seed", 0), "top1": run["top1"], "top5": run["top5"]}
        for c in found.all for f, same in c.runs.items() for run in same
    ]  # fmt: skip
    most = max(len(same) for c in found.all for same in c.runs.values())
    shown = f"Points are means, bands go from the worst to the best of up to {most} runs. " if most > 1 else ""
    arrows = "Arrows: how far to the right the baseline is as good." if found.common() else ""
    return Figure(
        "figure1",
        f"Accuracy against labels (figure 1 of the paper). {shown}{arrows}".strip(),
        drawn,
        _alt(found, dataset),
        data,
    )


def _panel(canvas: Canvas, theme: plots.Theme, found: Curves, metric: str, dataset: str) -> None:
    axis = canvas.subplots()
    ticks = {}
    for number, curve in enumerate(found.all):
        color = theme.roles[curve.method.role]
        main = curve in (found.cpc, found.pixels)
        style = plots.DASHES[0 if main else 1 + number % 3]
        at = sorted(curve.runs)
        x = [curve.labels[f] for f in at]
        spreads = curve.spreads(metric)
        ticks.update({curve.labels[f]: f for f in at})
        axis.fill_between(
            x, [100 * s.low for s in spreads], [100 * s.high for s in spreads], color=color, alpha=0.18, linewidth=0
        )
        axis.plot(
            x,
            [100 * s.mean for s in spreads],
            style,
            color=color,
            marker=plots.MARKERS[curve.method.role],
            markersize=5.5,
            linewidth=2 if main else 1.4,
            label=curve.title,
        )
    if dataset in methods.IMAGENET:
        for role, name in (("cpc", paper.CPC), ("pixels", paper.PIXELS)):
            x = [1281167 * f for f in paper.FRACTIONS]
            y, color = paper.TABLE_2[metric][name], theme.roles[role]
            axis.plot(x, y, ":", color=color, linewidth=1.2, label=f"{name}, paper")
    chance = 100 * found.chance * (5 if metric == "top5" else 1)
    floor = 10 * max(0, (min(100 * s.low for c in found.all for s in c.spreads(metric)) - 8) // 10)
    if max(floor, 0.01) < chance < 100:
        axis.axhline(chance, color=theme.muted, linewidth=1, linestyle=(0, (1, 2)), label="chance")
    _arrows(axis, theme, found, metric)
    axis.set_xscale("log")
    axis.set_xlim(min(ticks) / 1.3, max(ticks) * 1.3)
    axis.set_xticks(list(ticks), [f"{n:,}\n{formats.percent(f)}" for n, f in ticks.items()], fontsize=8.5)
    axis.xaxis.minorticks_off()
    axis.set_ylim(floor, 101.5)
    axis.set_xlabel("labels (part of all)")
    axis.set_title(f"{METRICS[metric]}, %")
    canvas.legend(loc="outside upper left", ncols=2 if dataset in methods.IMAGENET else 4, fontsize=9)


def _arrows(axis: Axes, theme: plots.Theme, found: Curves, metric: str) -> None:
    """From CPC's first and last but one common points to where the baseline is as good."""
    common = found.common()
    gains = {fraction: found.gain(fraction, metric) for fraction in (common[:1] + common[-2:-1])}
    for fraction, gain in gains.items():
        exact = not gain.bound or (gain.bound == "more than" and fraction == common[0])
        if gain.factor < 1.15 or not exact:
            continue  # nothing to point at
        start, height = found.cpc.labels[fraction], 100 * found.cpc.accuracy(fraction, metric).mean
        arrow = {"arrowstyle": "->", "color": theme.muted, "linewidth": 1.3, "shrinkA": 6, "shrinkB": 1}
        axis.annotate("", (start * gain.factor, height), (start, height), arrowprops=arrow)
        axis.annotate(
            str(gain), (start * gain.factor, height), (5, 0), textcoords="offset points",
            ha="left", va="top", fontsize=9, color=theme.ink,
        )  # fmt: skip


def _alt(found: Curves, dataset: str) -> str:
    parts = []
    for curve in found.all:
        at = sorted(curve.runs)
        values = ", ".join(f"{100 * curve.accuracy(f, 'top1').mean:.1f} % with {curve.labels[f]:,} labels" for f in at)
        parts.append(f"{curve.title}: {values}")
    return f"Top-1 and top-5 accuracy on {dataset} against the number of labels. Top-1 of " + "; ".join(parts) + "."
