"""Draws the images of docs/results.md that stand on several studies, or on no study of their own.

Points are single runs or choices, lines and bars are means.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FormatStrFormatter, NullFormatter

from cpc_tf.drawing import plots
from studies import claims
from studies.label.study import DEFAULT, NUMBERS
from studies.label_curve import study as curves
from studies.ladder import study as ladders
from studies.paper import figures as paper

OUTCOMES = {claims.YES: "healthy", claims.NO: "pixels", claims.OPEN: "muted"}  # colours


def forest(found: Sequence[claims.Claim]) -> bytes:
    """All judged comparisons with their intervals: points on the left, factors on the right."""
    lines = [
        (f"{claim.text.partition(' (')[0]}\n{each.where.replace('`', '')}", each)
        for claim in found
        for each in claim.judged
    ]
    parts = [[line for line in lines if line[1].factor == factor] for factor in (False, True)]

    def fill(canvas: Canvas, theme: plots.Theme) -> None:
        heights = [len(part) for part in parts if part]
        axes = canvas.subplots(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
        for axis, part in zip(axes, filter(None, parts)):
            _forest_panel(axis, theme, part)
        drawn = {each.outcome for _, each in lines}
        names = {claims.YES: "yes", claims.NO: "no", claims.OPEN: "not shown"}
        handles = [
            axes[0].plot([], [], "o-", color=theme.named[OUTCOMES[outcome]], label=name)[0]
            for outcome, name in names.items()
            if outcome in drawn
        ]
        canvas.legend(handles=handles, loc="outside upper right", ncols=3, fontsize=9)

    return plots.png(fill, 9, 1.4 + 0.62 * len(lines), dpi=110)


def _forest_panel(
    axis: Axes, theme: plots.Theme, lines: Sequence[tuple[str, claims.Comparison]]
) -> None:
    """Draws a line for each comparison, from above, and one at no effect."""
    factor = lines[0][1].factor
    for y, (_, each) in enumerate(reversed(lines)):
        color = theme.named[OUTCOMES[each.outcome]]
        estimate = math.exp(each.effect.estimate) if factor else each.effect.estimate
        axis.plot(each.interval, [y, y], color=color, linewidth=3, solid_capstyle="butt")
        axis.plot(estimate, y, "o", color=color, markersize=7)
    none = claims.BOUND if factor else 0
    axis.axvline(none, color=theme.named["ink"], linewidth=1, linestyle="--")
    axis.set_yticks(range(len(lines)), [name for name, _ in reversed(lines)], fontsize=9)
    axis.set(ylim=(-0.6, len(lines) - 0.4), xlabel="points ahead; dashed: no effect")
    axis.grid(visible=False, axis="y")
    if factor:
        axis.set(xscale="log", xlabel="times as many labels; dashed: the claim's two")
        axis.xaxis.set_major_formatter(FormatStrFormatter("%g"))
        axis.xaxis.set_minor_formatter(FormatStrFormatter("%g"))


def by_images(records: Sequence[dict], titles: Mapping[str, str]) -> bytes:
    """Top-1 against labels, a panel for each set of images; points are runs."""

    def fill(canvas: Canvas, theme: plots.Theme) -> None:
        panels = plots.grid(canvas, len(titles), columns=len(titles), sharey=True)
        for axis, (images, title) in zip(panels, titles.items()):
            own = [record for record in records if record["dataset"] == images]
            labels = sorted({record["num_train_labels"] for record in own})
            for name, features in {
                "CPC, fine-tuned": "CPC",
                "supervised baseline": "pixels",
            }.items():
                runs = {
                    count: curves.top1([r for r in own if r["features"] == features
                                        and r["num_train_labels"] == count])
                    for count in labels
                }  # fmt: skip
                runs = {count: values for count, values in runs.items() if values}
                _line(axis, theme, name, runs, features.lower())
            axis.set(title=title, xscale="log", xlabel="labels")
            axis.set_xticks(labels, [f"{count:,}" for count in labels], rotation=45, fontsize=8)
            axis.xaxis.set_minor_formatter(NullFormatter())
            axis.tick_params(axis="x", which="minor", length=0)
        panels[0].set_ylabel("top-1, %")
        panels[0].legend(loc="lower right", fontsize=9)

    return plots.png(fill, 9.5, 3.7, dpi=110)


def _line(
    axis: Axes, theme: plots.Theme, name: str, runs: Mapping[float, Sequence[float]], color: str
) -> None:
    """Draws the means of runs as a line, which ends where there are none, and each run, in
    percent.
    """
    means = [100 * statistics.fmean(values) if values else math.nan for values in runs.values()]
    look = {"color": theme.color(color), "marker": "_", "markersize": 11, "linewidth": 1.6}
    axis.plot([*runs], means, label=name, **look)
    for x, values in runs.items():
        points = [100 * value for value in values]
        axis.plot([x] * len(points), points, plots.MARKERS.get(color, "o"), markersize=4,
                  color=theme.color(color))  # fmt: skip


def ladder(records: Sequence[dict], rungs: Sequence[str]) -> bytes:
    """Linear top-1 of each rung: a panel for each set of images, one below the other, and a line
    for each classifier.
    """
    sets = list(dict.fromkeys(record["dataset"] for record in records))

    def fill(canvas: Canvas, theme: plots.Theme) -> None:
        panels = plots.grid(canvas, len(sets), columns=1)
        for axis, images in zip(panels, sets):
            kinds = []
            for kind, color in {"plain": "labels", "augmented": "cpc"}.items():
                runs = {
                    place: [ladders.top1(r) for r in records
                            if (r["dataset"], r["rung"], r["classifier"]) == (images, rung, kind)]
                    for place, rung in enumerate(rungs)
                }  # fmt: skip
                if any(runs.values()):
                    # The untrained copy is no rung: no line leads from it, and Matplotlib leaves a
                    # label that begins with "_" out of the legend.
                    untrained = [place for place in runs if rungs[place] == ladders.UNTRAINED]
                    for place in untrained:
                        _line(axis, theme, "_untrained", {place: runs.pop(place)}, color)
                    _line(axis, theme, f"classifier: {kind}", runs, color)
                    kinds.append(kind)
            added = {*paper.LADDER} - {"v1"}
            names = [f"+ {rung}" if rung in added else rung for rung in rungs]
            names[-1] = "ours"  # small_patches, as the table says
            axis.set_xticks(range(len(rungs)), names, fontsize=9)
            alone = f", classifier: {kinds[0]}" if len(kinds) == 1 else ""
            axis.set(title=f"{images}{alone}", ylabel="linear top-1, %")
            if len(kinds) > 1:
                axis.legend(loc="lower right", fontsize=9)

    return plots.png(fill, 8, 2.8 * len(sets), dpi=110)


def detection(records: Sequence[dict], titles: Mapping[str, str]) -> bytes:
    """mAP of each detector by what trained its encoder: a panel for each set of images."""
    arms = {"CPC": "cpc", "CPC, adapted": "relative_position", "supervised": "labels",
            "random": "untrained"}  # fmt: skip

    def fill(canvas: Canvas, theme: plots.Theme) -> None:
        panels = plots.grid(canvas, len(titles), columns=len(titles), sharey=True)
        for axis, (images, title) in zip(panels, titles.items()):
            own = [record for record in records if record["dataset"] == images]
            for y, (features, color) in enumerate(reversed(arms.items())):
                values = [100 * r["map11"] for r in own if r["features"] == features]
                if values:
                    axis.barh(y, statistics.fmean(values), color=theme.named[color], alpha=0.35)
                    axis.plot(
                        values, [y] * len(values), "o", color=theme.named[color], markersize=5
                    )
            axis.set(title=title, xlabel="mAP, %", xlim=(0, 100))
            axis.set_yticks(range(len(arms)), [*reversed(arms)])
            axis.grid(visible=False, axis="y")

    return plots.png(fill, 11, 2.9, dpi=110)


def label_orders(records: Sequence[dict]) -> bytes:
    """Top-1 against the number of labels in the order of `cpc-tf label` and at random."""
    sets = list(dict.fromkeys(record["dataset"] for record in records))

    def fill(canvas: Canvas, theme: plots.Theme) -> None:
        panels = plots.grid(canvas, len(sets), columns=len(sets), sharey=True)
        for axis, images in zip(panels, sets):
            for order, (name, color) in {
                DEFAULT: ("order of cpc-tf label", "cpc"),
                "random": ("at random", "untrained"),
            }.items():
                own = [r["at"] for r in records if (r["dataset"], r["order"]) == (images, order)]
                runs = {number: [at[str(number)]["top1"] for at in own] for number in NUMBERS}
                _line(axis, theme, name, runs, color)
            axis.set(title=images, xlabel="labels")
            axis.set_xticks(NUMBERS)
        panels[0].set_ylabel("top-1, %")
        panels[0].legend(loc="lower right", fontsize=9)

    return plots.png(fill, 10, 3.6, dpi=110)


def coverage(rows: Sequence[Sequence[dict]]) -> bytes:
    """How many of the stated intervals held the truth, and how far the stated accuracy is off, by
    labels per class; a point for each set of images and kind of labels.
    """
    panels: dict[str, tuple[Callable[[dict], float], float]] = {
        "intervals that held the truth, %": (lambda row: 100 * row["held"] / row["draws"], 95),
        "stated minus true, points": (lambda row: 100 * row["bias"], 0),
    }

    def fill(canvas: Canvas, theme: plots.Theme) -> None:
        axes = plots.grid(canvas, len(panels), columns=len(panels))
        numbers = sorted({row["each"] for of in rows for row in of if row["draws"]})
        for axis, (title, (value, right)) in zip(axes, panels.items()):
            for place, number in enumerate(numbers):
                found = [row for of in rows for row in of if row["each"] == number and row["draws"]]
                values = [value(row) for row in found]
                draws = sum(row["draws"] for row in found)
                mean = sum(one * row["draws"] for one, row in zip(values, found)) / draws
                axis.plot([place] * len(values), values, "o", alpha=0.4, color=theme.named["cpc"])
                axis.plot([place - 0.2, place + 0.2], [mean, mean], color=theme.named["ink"],
                          linewidth=3)  # fmt: skip
            axis.axhline(right, color=theme.named["muted"], linewidth=1, linestyle="--")
            axis.set(title=title, xlabel="labels per class")
            axis.set_xticks(range(len(numbers)), [f"{number}" for number in numbers])

    return plots.png(fill, 10, 3.4, dpi=110)


def speed(tables: Mapping[str, Mapping]) -> bytes:
    """Times and rates that were recorded by hand: ours in blue."""
    shown = {
        "training step of 32 images on two cores, ms": ("speed", 1),
        "augmentation on one core, images a second": ("augmentation_speed", 1),
    }

    def fill(canvas: Canvas, theme: plots.Theme) -> None:
        for axis, (title, (name, column)) in zip(canvas.subplots(1, len(shown)), shown.items()):
            rows = [[cell.strip("*") for cell in row] for row in tables[name]["rows"]][::-1]
            for y, row in enumerate(rows):
                other = "PyTorch" in row[0] or "OpenCV" in row[0]
                color = theme.named["untrained" if other else "cpc"]
                axis.barh(y, float(row[column]), color=color)
                axis.text(float(row[column]), y, f" {row[column]}", va="center", fontsize=9)
            labels = [row[0].partition(" (")[0].replace(", file", ",\nfile") for row in rows]
            labels = [label.replace("TensorFlow's ", "TensorFlow's\n") for label in labels]
            labels = [label.replace("with OpenCV", "\nwith OpenCV") for label in labels]
            axis.set_yticks(range(len(rows)), labels, fontsize=9)
            axis.set_title(title, fontsize=10)
            axis.grid(visible=False, axis="y")
            axis.margins(x=0.15)

    return plots.png(fill, 11, 2.9, dpi=110)
