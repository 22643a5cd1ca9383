"""What the page is made of: values, tables, figures and findings, each also as plain data."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Union

from matplotlib.figure import Figure as Canvas

from cpc_tf.drawing import plots
from cpc_tf.drawing.plots import Line
from cpc_tf.evaluation import counts
from cpc_tf.report.runs import Run

# Subjects to which several tasks contribute.
CLASSES = ("classes", "Class by class")
ALIKE = ("alike", "What it finds similar")
TRAINING = ("training", "How the training went")


# How a figure was measured.
ON_TEST_IMAGES = "on test images"
BY_CROSS_VALIDATION = "by cross-validation"

# What several runs of a method are several of -> what each has another one of.
SEVERAL = {"encoders": "encoder", "labels": "seed of labels and new weights"}


class Spread(NamedTuple):
    """Fractions (0 to 1) of several runs.

    `deviation`: their standard deviation, as that of a sample; `tested`: the number of images they
    are shares of, 0 if unknown; `over`: what the runs are several of, a key of SEVERAL;
    `independent`: how many independent images these are worth, 0 if all are.
    """

    mean: float
    low: float
    high: float
    runs: int
    deviation: float = 0.0
    tested: int = 0
    over: str = "labels"
    independent: float = 0.0

    @property
    def interval(self) -> str:
        """The 95 % interval of a share of few images, '43 to 82'; else ''."""
        count = self.independent or self.tested
        return counts.interval_text(self.mean, count) if 0 < count < counts.MANY else ""

    def __str__(self) -> str:
        if not self.interval:
            return f"{100 * self.mean:.1f}"
        return f"{counts.percent(self.mean, self.tested)} ({self.interval})"


def spread(
    values: Iterable[float], tested: int = 0, over: str = "labels", independent: float = 0.0
) -> Spread | None:
    """Returns the spread of values; None if there are none. `tested`, `over`, `independent`: see
    `Spread`.
    """
    values = list(values)
    if not values:
        return None
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    ends = min(values), max(values)
    return Spread(
        statistics.fmean(values), *ends, len(values), deviation, tested, over, independent
    )


class Gain(NamedTuple):
    """`factor` times as many labels; `bound`: 'more than' or 'less than' where the baseline was not
    measured, or ''.
    """

    factor: float
    bound: str = ""

    def __str__(self) -> str:
        factor = f"{self.factor:.2g}" if self.factor < 10 else f"{self.factor:.0f}"
        return f"{self.bound} {factor}".lstrip()


ABOUT_ROWS = ("source", "group")  # keys of a row that are no columns


class TableBlock(NamedTuple):
    """A table, and its CSV file, of this name.

    A row is {title of a column: value}; the first one names it. Its 'source' is 'measured', if it
    has none, 'gain' or 'aside', its 'group' the heading above.
    """

    name: str
    title: str
    rows: Sequence[Mapping[str, Any]]
    note: str = ""
    fold: str = ""

    @property
    def columns(self) -> list[str]:
        """The first column, and the others that a measured row fills."""
        measured = [row for row in self.rows if row.get("source") != "aside"] or self.rows
        names = dict.fromkeys(name for row in self.rows for name in row if name not in ABOUT_ROWS)
        first = next(iter(names))
        filled = {name for row in measured for name, value in row.items() if value is not None}
        return [name for name in names if name == first or name in filled]

    @property
    def words(self) -> set[str]:
        """The columns after the first that hold words."""
        cells = ((name, row.get(name)) for row in self.rows for name in self.columns[1:])
        return {name for name, value in cells if isinstance(value, str) and value[:1].isalpha()}

    @property
    def data(self) -> list[dict[str, Any]]:
        """The rows, unrounded; each field of a spread or a gain is a column. Spreads are in
        percent.
        """
        records = []
        for row in self.rows:
            record = {"source": row.get("source", "measured"), "group": row.get("group", "")}
            for column in self.columns:
                record |= _fields(column, row.get(column))
            records.append(record)
        return records


class FigureBlock(NamedTuple):
    """A PNG with its caption `title`, its description `alt`, and its data.

    `more`: further PNGs with the same caption, beside the first where the page is wide, else below
    it.
    `photographs`: whether it shows images, whose colours are not changed in the dark.
    `captions`: the lines below each PNG, if each has its own; these are then small.
    `colors`: names of the colours in it, for the legend.
    """

    name: str
    title: str
    png: bytes
    alt: str
    data: Sequence[dict[str, Any]] = ()
    more: Sequence[bytes] = ()
    photographs: bool = False
    captions: Sequence[Sequence[str]] = ()
    colors: Sequence[str] = ()
    fold: str = ""

    @property
    def pngs(self) -> dict[str, bytes]:
        """{name of its file, without the ending: PNG}."""
        more = {f"{self.name}-{number}": png for number, png in enumerate(self.more, 2)}
        return {self.name: self.png, **more}


class ListBlock(NamedTuple):
    """Lines without a file of their own: (what, value), or (what for, command to copy)."""

    lines: Sequence[tuple[str, str]]
    commands: bool = False
    fold: str = ""
    data = ()


# `fold`: a line that shows this block, and those beside it with the same line, when it is clicked;
# '': always shown.
Block = Union[TableBlock, FigureBlock, ListBlock]


class Finding(NamedTuple):
    """A row of the summary: what was measured, {title of a method: value}, a remark, and how it was
    `measured`.
    """

    what: str
    values: Mapping[str, str]
    remark: str = ""
    measured: str = ON_TEST_IMAGES


class Part(NamedTuple):
    """What a task adds to a subject of the page, which several tasks may share. Parts are sorted by
    `order`.
    """

    order: int
    name: str
    title: str
    blocks: Sequence[Block]
    findings: Sequence[Finding] = ()


def folded_alone(results: TableBlock, count: int) -> TableBlock:
    """Returns a table, folded if it has but one result: that is in the sentence that the page opens
    with.
    """
    return results if count > 1 else results._replace(fold=results.title)


def text(value: Any) -> str:
    """Returns a value as a table shows it: spreads in percent, counts with separators, floats with
    three digits.
    """
    if isinstance(value, Spread):
        mean, *interval = str(value).split(" ", 1)
        seeds = f"±{100 * value.deviation:.1f}, n={value.runs}" if value.runs > 1 else ""
        return " ".join(filter(None, [mean, seeds, *interval]))
    if isinstance(value, Gain):
        return f"{value}\N{MULTIPLICATION SIGN}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    if value is None:
        return "\N{EN DASH}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def notes(rows: Iterable[Mapping[str, Any]]) -> str:
    """Returns the sentences that explain the spreads of a table: those of several runs, and of few
    images.
    """
    spreads = [value for row in rows for value in row.values() if isinstance(value, Spread)]
    over = [
        name for name in SEVERAL if any(value.runs > 1 and value.over == name for value in spreads)
    ]
    sentences = [
        (
            "After ±, the standard deviation over n runs, each with another"
            f" {' or '.join(SEVERAL[name] for name in over)}."
            if over
            else ""
        ),
        (
            "In brackets, the 95 % interval of so few images."
            if any(value.interval for value in spreads)
            else ""
        ),
    ]
    return " ".join(filter(None, sentences))


def percent(fraction: float) -> str:
    """Returns '1 %', with as many digits as it needs."""
    return f"{100 * fraction:.3g} %"


def _fields(column: str, value: Any) -> dict[str, Any]:
    """Returns a cell as columns of a CSV file: 'Top-1, %', 'Top-1 low, %', 'Top-1 runs' and so on
    of a spread.
    """
    if isinstance(value, Gain):
        return {column: round(value.factor, 6), f"{column} bound": value.bound}
    if not isinstance(value, Spread):
        return {column: value}
    title = column.removesuffix(", %")
    in_percent = ", %" if column.endswith(", %") else ""
    mean, low, high = (round(100 * x, 4) for x in value[:3])
    fields = {column: mean, f"{title} low{in_percent}": low, f"{title} high{in_percent}": high}
    fields |= {
        f"{title} deviation{in_percent}": round(100 * value.deviation, 4),
        f"{title} runs": value.runs,
    }
    return {**fields, **({f"{title} tested": value.tested} if value.tested else {})}


class Panels(NamedTuple):
    """Panels (title -> curves), each an image with a legend.

    `axes`: settings of all axes; `ticks`: value -> text; `warn_below`: title -> value below which
    there is a warning;
    `healthy`: title -> the least value of the healthy range, which is shaded; `most`: title -> the
    largest possible value, where an axis ends at the latest.
    """

    panels: Mapping[str, Sequence[Line]]
    axes: Mapping[str, Any] = {"xlabel": "step"}
    ticks: Mapping[float, str] = {}
    warn_below: Mapping[str, float] = {}
    healthy: Mapping[str, float] = {}
    most: Mapping[str, float] = {}

    def draw(self, canvas: Canvas, theme: plots.Theme) -> None:
        """Draws all panels, two beside each other."""
        entries = {}
        for axis, (title, lines) in zip(
            plots.grid(canvas, len(self.panels), 2), self.panels.items()
        ):
            entries |= {line.label: line.draw(axis, theme) for line in lines}
            axis.set(title=title, **self.axes)
            if self.ticks:
                axis.set_xticks([*self.ticks], [*self.ticks.values()], fontsize=8.5)
                axis.minorticks_off()
            if title in self.warn_below:
                axis.axhline(
                    self.warn_below[title], color=theme.named["ink"], linewidth=1, linestyle="--"
                )
            if title in {**self.warn_below, **self.healthy}:
                axis.set_ylim(0, None)
            if title in self.healthy:
                plots.shade_healthy(axis, self.healthy[title], theme)
            if axis.get_ylim()[1] > self.most.get(title, math.inf):
                axis.set_ylim(top=self.most[title])
        if len(entries) > 1:
            canvas.legend(
                entries.values(), entries, loc="outside lower left", ncols=2, fontsize=8.5
            )

    def figure(
        self, name: str, title: str, width: float, height: float, fold: str = ""
    ) -> list[FigureBlock]:
        """Returns a figure for the page with an image of each panel; its description says where
        the curves end.

        A panel is left out if none of its curves has two points; without any panel there is no
        figure.
        """
        panels = {
            panel: lines
            for panel, lines in self.panels.items()
            if any(len(line.points) > 1 for line in lines)
        }
        if not panels:
            return []
        lines = [(panel, line) for panel, lines in panels.items() for line in lines]
        points = [(panel, line.label, x, y) for panel, line in lines for x, y, *_ in line.points]
        columns = ("panel", "curve", self.axes.get("xlabel", "x"), "value")
        ends = [
            f"{panel} of {line.label}: {line.points[-1][1]:.3g}"
            for panel, line in lines
            if line.points
        ]
        alt = f"Curves. At the end: {'; '.join(ends[:12])}."
        alone = (self._replace(panels={panel: lines}) for panel, lines in panels.items())
        first, *more = (plots.png(panel.draw, width, height, 160) for panel in alone)
        colors = [line.color for _, line in lines if isinstance(line.color, str)]
        colors += ["healthy"] * any(panel in self.healthy for panel in panels)
        return [
            FigureBlock(
                name,
                title,
                first,
                alt,
                [dict(zip(columns, point)) for point in points],
                more,
                colors=colors,
                fold=fold,
            )
        ]


def classifier_curves(
    name: str, title: str, groups: Mapping[str, Sequence[Run]], ordered: bool = False
) -> list[Block]:
    """Returns training loss and accuracy, with panels for each phase and a curve for each run.

    Args:
      groups: label of a colour -> runs.
      ordered: whether the groups are steps of one quantity; they are drawn in shades.
    """
    panels: dict[str, list[Line]] = {}
    for index, (group, runs) in enumerate(groups.items(), 1):
        color = index / len(groups) if ordered else runs[0].identity.trained_by
        for phase, records in [
            (phase, run.metrics(phase)) for run in runs for phase in ("", *run.get("phases", {}))
        ]:
            for key in ("loss", "accuracy") if records else ():
                panels.setdefault(f"{phase} training {key}".strip(), []).append(
                    line(group, records, key, color)
                )
    title = f"Training curves of {title}"
    accuracies = {panel: 1.0 for panel in panels if panel.endswith("accuracy")}
    return Panels(panels, most=accuracies).figure(name, f"{title}.", 4.6, 2.8, fold=title)


def line(label: str, records: Sequence[dict], key: str, color: str | int | float) -> Line:
    """Returns the curve of one quantity, where it was recorded."""
    return Line(
        label, [(record["step"], record[key]) for record in records if key in record], color
    )


def pictures(
    runs: Sequence[Run], file: str, name: str, title: str, alt: str, photographs: bool = True
) -> list[Block]:
    """Returns the image `file` of the runs with the lowest seed, the first unfolded; {} in
    `title`: their place.
    """
    pngs = [
        (run, png) for run in sorted(runs, key=lambda run: run.fraction) if (png := run.png(file))
    ]
    lowest = min((run.get("seed", 0) for run, _ in pngs), default=0)
    pngs = [(run, png) for run, png in pngs if run.get("seed", 0) == lowest]
    named = [(title.format(run.place), png) for run, png in pngs]
    figures = []
    for number, (each, png) in enumerate(named, 1):
        fold = f"{len(named) - 1} more: {name}" if number > 1 else ""
        figures.append(
            FigureBlock(f"{name}-{number}", each, png, alt, photographs=photographs, fold=fold)
        )
    return figures
