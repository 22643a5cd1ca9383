"""Which claims of the paper hold here, in small: by one rule, from all records of the studies.

A claim is judged by comparisons: what one arm is ahead of another, run by run with the same seed. A
comparison says yes if the 95 % interval of its mean (Student's t) lies above the claim's bound, no
if it lies below, and nothing with fewer than three pairs of runs or if what it was measured on
carries no claim.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from scipy import stats

from cpc_tf.core.texts import markdown_table
from cpc_tf.report.efficient import interpolated
from studies.ladder import study as ladders

Read = Callable[..., Sequence[dict]]
"""(study, fields) -> its records with these fields."""

FEWEST = 3  # pairs
# Data on which a comparison is shown and not judged -> why.
DOUBTS = {
    "photos": "950 test crops of 19 photographs",
    "collages": "settings were chosen on its test images",
}
YES = "yes"
NO = "no"
OPEN = "not shown"
UNTESTED = "not tested"


class Comparison(NamedTuple):
    """What one arm is ahead of another, in points or as a factor, for each pair of runs; `doubt`:
    of `DOUBTS`.
    """

    where: str
    differences: Sequence[float]
    bound: float = 0.0
    doubt: str = ""

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the mean; None of fewer than `FEWEST`."""
        count = len(self.differences)
        if count < FEWEST:
            return None
        half = stats.t.ppf(0.975, count - 1) * statistics.stdev(self.differences) / count**0.5
        mean = statistics.fmean(self.differences)
        return mean - half, mean + half

    @property
    def outcome(self) -> str:
        """YES, NO or OPEN, or why there is none."""
        if self.doubt:
            return f"not judged: {self.doubt}"
        if not self.interval:
            return f"not judged: fewer than {FEWEST} pairs of runs"
        low, high = self.interval
        if low > self.bound:
            return YES
        if high < self.bound:
            return NO
        return OPEN

    def cells(self) -> list[str]:
        """The place, mean, interval, number and outcome."""
        sign = "" if self.bound else "+"
        interval = (
            f"{self.interval[0]:{sign}.1f} to {self.interval[1]:{sign}.1f}"
            if self.interval
            else "-"
        )
        mean = f"{statistics.fmean(self.differences):{sign}.1f}"
        return [self.where, mean, interval, str(len(self.differences)), self.outcome]


class Claim(NamedTuple):
    """A claim of the paper; `limits`: what else stands between its tests here and the paper's."""

    text: str
    comparisons: Sequence[Comparison]
    limits: str = ""

    @property
    def verdict(self) -> str:
        """What its comparisons say together."""
        places: dict[str, list[str]] = {}
        for each in self.comparisons:
            places.setdefault(each.outcome, []).append(each.where)
        judged = [outcome for outcome in (YES, NO, OPEN) if outcome in places]
        if not judged:
            why = "; ".join(outcome.removeprefix("not judged: ") for outcome in places)
            return f"{OPEN}: {why}" if why else UNTESTED
        if judged in ([YES], [NO], [OPEN]):
            return f"{judged[0]}: {', '.join(places[judged[0]])}"
        return "in part: " + "; ".join(
            f"{outcome}: {', '.join(places[outcome])}" for outcome in judged
        )


def claims(read: Read) -> list[Claim]:
    """All claims that something here could test."""
    curve = read("label_curve")
    wide = "CPC with a wide encoder has no records in `studies/label_curve`"
    return [
        Claim("2 times fewer labels than on pixels, or better (Table 2)", [*_gains(curve)],
              "over the mean curve of a baseline with less than half the parameters; "
              "at 128 px one encoder"),
        Claim("above pixels with as many labels (Table 2)",
              [*_curve(curve, ("CPC", ""), ("pixels", ""))],
              "at 128 px one encoder, and a baseline that has not converged with all labels"),
        Claim("fine-tuned above fixed (Table 3)", [*_curve(curve, ("CPC", ""), ("CPC", "frozen"))]),
        Claim("above label propagation (Table 3)", [*_propagation(read("propagation"))]),
        Claim("a wide encoder helps CPC, not pixels (Sec. 4.2)", [], wide),
        Claim("linear, v1 to v2 (Table 1, Fig. 3)", [*_rungs(read, "v1", "LP")],
              "without PA; " + _PLAIN),
        Claim("layer norm over batch norm (Fig. 3)", [*_rungs(read, "BU", "LN")], _PLAIN),
        Claim("four directions (Fig. 3)", [*_rungs(read, "RC", "HP")], _PLAIN),
        Claim("patch augmentation (Fig. 3)",
              [*_policies(read("augmentation"), "none", "full")], "950 steps"),
        Claim("detection above pre-training on labels (Table 4)", [*_boxes(read("detection"))],
              "at 128 px one encoder of each kind; labels of other classes, on collages of 64 px "
              "of the same"),
    ]  # fmt: skip


_PLAIN = "classifiers without App. B's augmentation, tested in colours"


def verdicts(read: Read) -> str:
    """A line for each claim."""
    rows = [[each.text, each.verdict, each.limits or "-"] for each in claims(read)]
    return markdown_table(["claim of the paper", "in small", "limits"], rows)


def comparisons(read: Read) -> str:
    """A line for each comparison."""
    rows = [[claim.text, *each.cells()] for claim in claims(read) for each in claim.comparisons]
    return markdown_table(["claim", "where", "ahead by", "95 % interval", "n", "outcome"], rows)


def paired(
    ours: Iterable[dict], theirs: Iterable[dict], of: Sequence[Callable[[dict], float]]
) -> list[float]:
    """Differences in points of the runs of each seed that both have, by a function of each side's
    records.
    """
    values = [
        {record["seed"]: value(record) for record in side}
        for side, value in zip((ours, theirs), of)
    ]
    return [
        100 * (values[0][seed] - values[1][seed])
        for seed in sorted(values[0].keys() & values[1].keys())
    ]


def doubt_of(dataset: str) -> str:
    """Why comparisons on a dataset are not judged; '' if they are."""
    return DOUBTS.get(dataset.partition("-")[0], "")


def _points(records: Sequence[dict], features: str) -> Iterator[tuple[str, float, list[dict]]]:
    """Dataset, fraction of the labels and records of each point of the curves."""
    for dataset in dict.fromkeys(record["dataset"] for record in records):
        own = [
            record
            for record in records
            if (record["dataset"], record["features"]) == (dataset, features)
        ]
        for fraction in sorted({record["label_fraction"] for record in own}):
            yield (
                dataset,
                fraction,
                [record for record in own if record["label_fraction"] == fraction],
            )


def _curve(
    records: Sequence[dict], ours: tuple[str, str], theirs: tuple[str, str]
) -> Iterator[Comparison]:
    """At each point of the curves: (features, phase; '' is the last) against another."""

    def top1(phase: str) -> Callable[[dict], float]:
        return lambda record: (record["phases"][phase] if phase else record)["top1"]

    others = {point[:2]: point[2] for point in _points(records, theirs[0])}
    for dataset, fraction, own in _points(records, ours[0]):
        found = paired(own, others.get((dataset, fraction), []), [top1(ours[1]), top1(theirs[1])])
        if found:
            yield Comparison(
                f"`{dataset}` with {100 * fraction:g} %", found, doubt=doubt_of(dataset)
            )


def gains(records: Sequence[dict], dataset: str, fraction: float) -> list[float]:
    """How many times as many labels the baseline's mean curve needs for each of CPC's fine-tuned
    runs at a point.
    """
    baseline = [
        (own[0]["num_train_labels"], statistics.fmean(record["top1"] for record in own))
        for of, _, own in _points(records, "pixels")
        if of == dataset
    ]
    points = {point[:2]: point[2] for point in _points(records, "CPC")}
    found = [
        interpolated(baseline, r["num_train_labels"], r["top1"])
        for r in points.get((dataset, fraction), [])
    ]
    return [each.factor for each in found if each]


def _gains(records: Sequence[dict]) -> Iterator[Comparison]:
    for dataset, fraction, _ in _points(records, "CPC"):
        found = gains(records, dataset, fraction)
        if found and fraction <= 0.1:  # with more the baseline's curve ends too early
            yield Comparison(
                f"`{dataset}` with {100 * fraction:g} %", found, bound=2.0, doubt=doubt_of(dataset)
            )


def _propagation(records: Sequence[dict]) -> Iterator[Comparison]:
    """CPC alone against each method of label propagation on pixels."""
    cells: dict[tuple, list[dict]] = {}
    for record in records:
        at = record["dataset"], record["label_fraction"], record["features"], record["propagation"]
        cells.setdefault(at, []).append(record)
    for (dataset, fraction, features, method), own in cells.items():
        ours = cells.get((dataset, fraction, "CPC", "none"), [])
        found = paired(ours, own, [_top1] * 2)
        if features == "pixels" and method != "none" and found:
            yield Comparison(
                f"`{dataset}` with {100 * fraction:g} %, {method}", found, doubt=doubt_of(dataset)
            )


def _top1(record: dict) -> float:
    return record["top1"]


def _rungs(read: Read, before: str, after: str) -> Iterator[Comparison]:
    """What a rung of the ladder is ahead of an earlier one, by each kind of classifier."""
    found = read("ladder")
    for classifier in dict.fromkeys(record["classifier"] for record in found):
        of = [
            [r for r in found if (r["rung"], r["classifier"]) == (rung, classifier)]
            for rung in (after, before)
        ]
        differences = paired(*of, [ladders.top1] * 2)
        if differences:
            yield Comparison(f"`photos`, {classifier}", differences, doubt=doubt_of("photos"))


def _policies(records: Sequence[dict], before: str, after: str) -> Iterator[Comparison]:
    for dataset in dict.fromkeys(record["dataset"] for record in records):
        of = [
            [r for r in records if (r["policy"], r["dataset"]) == (name, dataset)]
            for name in (after, before)
        ]
        if differences := paired(*of, [_top1] * 2):
            yield Comparison(f"`{dataset}`", differences, doubt=doubt_of(dataset))


def _boxes(records: Sequence[dict]) -> Iterator[Comparison]:
    for dataset in dict.fromkeys(record["dataset"] for record in records):
        of = [
            [r for r in records if (r["features"], r["dataset"]) == (w, dataset)]
            for w in ("CPC", "supervised")
        ]
        if differences := paired(*of, [lambda record: record["map11"]] * 2):
            yield Comparison(f"`{dataset}`", differences, doubt=doubt_of(dataset))
