"""Which claims of the paper hold here, in small: by one rule, from all records of the studies.

A claim is judged by comparisons: what one arm is ahead of another in runs of the same seed. All
comparisons that are judged are one family (`studies/judging.py`). One says yes if its interval lies
above no effect and no if it lies below: a claim that is contradicted is another finding than one
that nothing shows. What has fewer than three pairs of runs is not judged, nor what `DOUBTS` names.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from cpc_tf.core.texts import markdown_table
from cpc_tf.report.blocks import Gain
from cpc_tf.report.efficient import interpolated
from studies.judging import ERROR, Effect, Test, difference, effect, holm
from studies.ladder import study as ladders
from studies.tables import OVER

Read = Callable[..., Sequence[dict]]
"""(study, fields) -> its records with these fields."""

FEWEST = 3  # pairs
BOUND = 2.0  # times as many labels
YES = "yes"
NO = "no"
OPEN = "not shown"
UNTESTED = "not tested"
FEW = f"fewer than {FEWEST} pairs of runs"
BEYOND = "some choices of labels are beyond the baseline's curve"
# Why comparisons of a study on some images are shown and not judged: its README says more.
PHOTOS = "950 test crops of 19 photographs"
CHOSEN = "settings were chosen on its test images"
DOUBTS = {
    ("label_curve", "photos"): PHOTOS,
    ("label_curve", "photos-128px"): PHOTOS,
    ("label_curve", "imagenette-224"): CHOSEN,
    ("propagation", "imagenette-224"): CHOSEN,  # the settings of the label curve
    ("ladder", "photos"): PHOTOS,
    ("augmentation", "photos"): PHOTOS,
    ("detection", "collages"): CHOSEN,
    ("detection", "collages-128px"): CHOSEN,
}
# Images -> the largest part of the labels for which the steps of the baseline were not.
CHOSEN_BEYOND = {"imagenette-128px": 0.1}
CHOSEN_STEPS = "the baseline's steps were chosen on its test images"


class Comparison(NamedTuple):
    """What one arm is ahead of another.

    Attributes:
      where: images, and what else tells it from others of its claim.
      effect: in points, or the logarithm of a factor.
      over: what the effect's repetitions are.
      doubt: why it is not judged, or ''.
      factor: whether it is one.
      test: among all that are judged; None if it is not.
    """

    where: str
    effect: Effect
    over: str
    doubt: str = ""
    factor: bool = False
    test: Test | None = None

    @property
    def images(self) -> str:
        """The first word of the place."""
        return re.split("[ ,]", self.where)[0]

    @property
    def level(self) -> float:
        """That of its interval: by its test, or 95 % of what is not judged."""
        return 1 - (self.test.error if self.test else ERROR)

    @property
    def interval(self) -> tuple[float, float] | None:
        """In points or as factors, at `level`; None of fewer than `FEWEST`, or if it is not
        known.
        """
        if self.effect.count < FEWEST or math.isnan(self.effect.error):
            return None
        low, high = self.effect.interval(1 - self.level)
        return (math.exp(low), math.exp(high)) if self.factor else (low, high)

    @property
    def outcome(self) -> str:
        """YES, NO, OPEN, or why there is none."""
        if not self.test:
            return f"not judged: {self.doubt}"
        low, high = self.effect.interval(self.test.error)
        if low > self.effect.none:
            return YES
        if high < self.effect.none:
            return NO
        return OPEN

    @property
    def ahead(self) -> str:
        """The estimate: '+4.3 points', '4.5 times'."""
        if self.factor:
            return f"{math.exp(self.effect.estimate):.1f} times"
        return f"{self.effect.estimate:+.1f} points"

    @property
    def span(self) -> str:
        """The interval: '+0.5 to +7.0', or '-'."""
        if not self.interval:
            return "-"
        sign = "" if self.factor else "+"
        return " to ".join(f"{end:{sign}.1f}" for end in self.interval)

    @property
    def repeated(self) -> str:
        """'3 encoders', or '1 run'."""
        return f"{self.effect.count} {self.over}" if self.effect.count > 1 else "1 run"

    def cells(self) -> list[str]:
        """The place, estimate, interval, adjusted p, repetitions and outcome."""
        level = f" ({100 * self.level:.1f} %)" if self.interval else ""
        p = f"{self.test.p:.2g}" if self.test else "-"
        return [self.where, self.ahead, self.span + level, p, self.repeated, self.outcome]


class Claim(NamedTuple):
    """A claim of the paper; `limits`: what else stands between its tests here and the paper's."""

    text: str
    comparisons: Sequence[Comparison]
    limits: str = ""

    @property
    def judged(self) -> list[Comparison]:
        """Those of its comparisons that say something, yes first."""
        found = [each for each in self.comparisons if each.test]
        return sorted(found, key=lambda each: (YES, NO, OPEN).index(each.outcome))

    @property
    def verdict(self) -> str:
        """What its comparisons say together."""
        outcomes = list(dict.fromkeys(each.outcome for each in self.judged))
        if not self.comparisons:
            return UNTESTED
        if not outcomes:
            return "not judged"
        return outcomes[0] if len(outcomes) == 1 else "in part"

    def cells(self) -> list[str]:
        """The claim, its verdict, what is judged, what is not, and its limits."""
        judged = [
            f"{each.outcome}: {each.where}: {each.ahead} ({each.span}), {each.repeated}"
            for each in self.judged
        ]
        others: dict[str, list[Comparison]] = {}
        for each in self.comparisons:
            if not each.test:
                others.setdefault(each.images, []).append(each)
        unjudged = [f"{images} {_range(found)}" for images, found in others.items()]
        cells = [self.text, f"**{self.verdict}**", "<br>".join(judged), ", ".join(unjudged)]
        return [cell or "-" for cell in (*cells, self.limits)]


def _range(found: Sequence[Comparison]) -> str:
    """'+1.2 to +4.3 points'."""
    ordered = sorted(found, key=lambda each: each.effect.estimate)
    ends = dict.fromkeys([ordered[0].ahead, ordered[-1].ahead])
    unit = ordered[0].ahead.partition(" ")[2]
    return " to ".join(end.partition(" ")[0] for end in ends) + f" {unit}"


def claims(read: Read) -> list[Claim]:
    """All claims that something here could test, judged together."""
    stated = _stated(read)
    family = [each.effect.p for claim in stated for each in claim.comparisons if not each.doubt]
    tests = iter(holm(family))
    judged = []
    for claim in stated:
        comparisons = [
            each if each.doubt else each._replace(test=next(tests)) for each in claim.comparisons
        ]
        judged.append(claim._replace(comparisons=comparisons))
    return judged


def _stated(read: Read) -> list[Claim]:
    """All claims, before their comparisons are judged."""
    curve = read("label_curve")
    ladder = read("ladder")
    small = "the baseline has less than half the parameters; at 128 px one encoder"
    return [
        Claim("2 times fewer labels than on pixels, or better (Table 2)", [*_gains(curve)],
              small + ", whose baseline has single runs with 2 and 10 %"),
        Claim("above pixels with as many labels (Table 2)", [*_pixels(curve)], small),
        Claim("fine-tuned above fixed (Table 3)", [*_fine_tuned(curve)], "at 128 px one encoder"),
        Claim("above label propagation (Table 3)", [*_propagation(read("propagation"))]),
        Claim("a wide encoder helps CPC, and more than pixels (Sec. 4.2)", [*_wide(curve)]),
        Claim("linear, v1 to v2 (Table 1, Fig. 3)", [*_rungs(ladder, "v1", "LP")],
              "without PA"),
        Claim("layer norm over batch norm (Fig. 3)", [*_rungs(ladder, "BU", "LN")]),
        Claim("four directions (Fig. 3)", [*_rungs(ladder, "RC", "HP")]),
        Claim("patch augmentation (Fig. 3)",
              [*_policies(read("augmentation")), *_rungs(ladder, "LP", "PA")],
              "without a rung 950 steps"),
        Claim("detection above pre-training on labels (Table 4)", [*_boxes(read("detection"))],
              "at 128 px one encoder of each kind, and labels of other classes"),
    ]  # fmt: skip


def verdicts(read: Read) -> str:
    """A line for each claim."""
    columns = [
        "claim of the paper",
        "in small",
        "judged, with its interval",
        "shown, not judged",
        "limits",
    ]
    return markdown_table(columns, [each.cells() for each in claims(read)])


def page_one(read: Read) -> str:
    """A line for each claim that is judged: its verdict, its comparison, and the range of those
    that are not judged.
    """
    rows = []
    for claim in claims(read):
        others = [each for each in claim.comparisons if not each.test]
        for each in claim.judged:
            ahead = f"{each.where}: {each.ahead} ({each.span}), {each.repeated}"
            elsewhere = _range(others) if others else "-"
            rows.append([claim.text, f"**{each.outcome}**", ahead, elsewhere])
    columns = ["claim of the paper", "here", "ahead by", "elsewhere, not judged"]
    return markdown_table(columns, rows)


def comparisons(read: Read) -> str:
    """A line for each comparison."""
    columns = [
        "claim",
        "where",
        "ahead by",
        "interval, its level",
        "p (Holm)",
        "repeated",
        "outcome",
    ]
    rows = [[claim.text, *each.cells()] for claim in claims(read) for each in claim.comparisons]
    return markdown_table(columns, rows)


Seeds = dict[int, float]
"""{seed: accuracy}, or how many points one arm is ahead."""
Curve = dict[tuple[str, float], Seeds]
"""{(images, part of the labels): Seeds}"""


def ahead(ours: Seeds, theirs: Seeds) -> Seeds:
    """How many points ours are ahead, for the seeds that both have."""
    return {seed: 100 * (ours[seed] - theirs[seed]) for seed in ours.keys() & theirs.keys()}


def _of(records: Sequence[dict], value: str = "top1", **fields: object) -> Seeds:
    """The runs with some fields."""
    own = [record for record in records if fields.items() <= record.items()]
    return {record["seed"]: record[value] for record in own}


def _compared(where: str, differences: Seeds, over: str, doubt: str = "") -> Iterator[Comparison]:
    """The comparison of some differences, in points; none if there are none."""
    values = [differences[seed] for seed in sorted(differences)]
    if values:
        few = FEW if len(values) < FEWEST else ""
        yield Comparison(where, difference(values), over, doubt or few)


def _curve(records: Sequence[dict], features: str, phase: str = "") -> Curve:
    """An arm of the label curves, at the end of a phase; '' is the last."""
    curve: Curve = {}
    for record in records:
        if record["features"] == features:
            point = record["dataset"], record["label_fraction"]
            end = record["phases"][phase] if phase else record
            curve.setdefault(point, {})[record["seed"]] = end["top1"]
    return curve


def _doubt(images: str, part: float = 0.0) -> str:
    """Why comparisons on a label curve are not judged; `part`: of the labels with which the
    baseline was trained.
    """
    if part > CHOSEN_BEYOND.get(images, math.inf):
        return CHOSEN_STEPS
    return DOUBTS.get(("label_curve", images), "")


def at(images: str, part: float) -> str:
    """The name of a point of a label curve."""
    return f"`{images}` with {100 * part:g} %"


def _pixels(records: Sequence[dict]) -> Iterator[Comparison]:
    """Fine-tuned CPC above the baseline."""
    ours, theirs = _curve(records, "CPC"), _curve(records, "pixels")
    for images, part in sorted(ours.keys() & theirs.keys()):
        points = ahead(ours[images, part], theirs[images, part])
        yield from _compared(at(images, part), points, OVER[images], _doubt(images, part))


def _fine_tuned(records: Sequence[dict]) -> Iterator[Comparison]:
    """Fine-tuned CPC above its own frozen features."""
    ours, theirs = _curve(records, "CPC"), _curve(records, "CPC", "frozen")
    for images, part in sorted(ours):
        points = ahead(ours[images, part], theirs[images, part])
        yield from _compared(at(images, part), points, OVER[images], _doubt(images))


def gain(
    records: Sequence[dict], images: str, part: float
) -> tuple[Callable[[Sequence[int]], Gain | None], int]:
    """Returns how many times as many labels the baseline needs for what fine-tuned CPC has at a
    point of a label curve, as a function of some of CPC's runs, by place, and the number of runs.

    It is CPC's mean on the baseline's mean curve, both of the same seeds. A point of the baseline
    that lacks some of CPC's seeds counts with the mean of its runs.
    """
    own = _curve(records, "CPC").get((images, part), {})
    labels = {
        record["label_fraction"]: record["num_train_labels"]
        for record in records
        if record["dataset"] == images
    }
    baseline = {
        fraction: runs
        for (name, fraction), runs in _curve(records, "pixels").items()
        if name == images
    }

    def of(places: Sequence[int]) -> Gain | None:
        seeds = [sorted(own)[place] for place in places]
        curve = []
        for fraction, runs in baseline.items():
            drawn = seeds if runs.keys() >= own.keys() else runs
            curve.append((labels[fraction], statistics.fmean(runs[seed] for seed in drawn)))
        return interpolated(curve, labels[part], statistics.fmean(own[seed] for seed in seeds))

    return of, len(own)


def _gains(records: Sequence[dict]) -> Iterator[Comparison]:
    """The gains on the baseline's curve; with more than 10 % of the labels that ends too early."""
    for images, part in sorted(_curve(records, "CPC")):
        of, count = gain(records, images, part)
        found = of(range(count))
        if not found or found.bound or part > 0.1:
            continue

        def logarithm(places: Sequence[int], of: Callable = of) -> float:
            drawn = of(places)
            return math.nan if drawn.bound else math.log(drawn.factor)

        times = effect(logarithm, count, math.log(BOUND))
        doubt = _doubt(images, part * found.factor) or (FEW if count < FEWEST else "")
        if not doubt and math.isnan(times.error):
            doubt = BEYOND
        yield Comparison(at(images, part), times, OVER[images], doubt, factor=True)


def _wide(records: Sequence[dict]) -> Iterator[Comparison]:
    """What a wide network gives CPC, and by how much that is more than what it gives pixels."""
    gained: dict[str, Curve] = {"CPC": {}, "pixels": {}}
    for features in {record["features"] for record in records if "wide" in record["features"]}:
        kind = features.partition(",")[0]
        narrow = _curve(records, kind)
        for point, runs in _curve(records, features).items():
            gained[kind][point] = ahead(runs, narrow.get(point, {}))

    for images, part in sorted(gained["CPC"]):
        ours, theirs = (points.get((images, part), {}) for points in gained.values())
        more = {seed: ours[seed] - theirs[seed] for seed in ours.keys() & theirs.keys()}
        where = at(images, part)
        yield from _compared(where, ours, OVER[images], _doubt(images))
        yield from _compared(
            f"{where}, less what pixels gain", more, OVER[images], _doubt(images, part)
        )


def _propagation(records: Sequence[dict]) -> Iterator[Comparison]:
    """CPC alone, fine-tuned, above each method of label propagation on pixels; CPC with the blocks
    of its classifier, and with the network of the baseline.
    """
    names = ("dataset", "label_fraction", "propagation")
    pixels = [record for record in records if record["features"] == "pixels"]
    for point in dict.fromkeys(tuple(record[name] for name in names) for record in pixels):
        images, part, method = point
        if method == "none":
            continue
        theirs = _of(pixels, **dict(zip(names, point)))
        doubt = DOUBTS.get(("propagation", images), "")
        for features, network in {"CPC": "", "CPC, no blocks": ", equal networks"}.items():
            alone = {"dataset": images, "label_fraction": part, "propagation": "none"}
            ours = _of(records, features=features, **alone)
            where = f"{at(images, part)}, {method}{network}"
            yield from _compared(where, ahead(ours, theirs), OVER[images], doubt)


def _rungs(records: Sequence[dict], before: str, after: str) -> Iterator[Comparison]:
    """What a rung of the ladder is ahead of an earlier one, by each kind of classifier."""
    measured = [{**record, "top1": ladders.top1(record)} for record in records]
    names = ("dataset", "classifier")
    for images, kind in dict.fromkeys(tuple(record[name] for name in names) for record in records):
        arms = [
            _of(measured, dataset=images, classifier=kind, rung=rung) for rung in (after, before)
        ]
        doubt = DOUBTS.get(("ladder", images), "")
        yield from _compared(f"`{images}`, {kind}", ahead(*arms), OVER["ladder"], doubt)


def _policies(records: Sequence[dict]) -> Iterator[Comparison]:
    """The paper's augmentation above none."""
    for images in dict.fromkeys(record["dataset"] for record in records):
        arms = [_of(records, dataset=images, policy=policy) for policy in ("full", "none")]
        doubt = DOUBTS.get(("augmentation", images), "")
        yield from _compared(f"`{images}`", ahead(*arms), OVER["augmentation"], doubt)


def _boxes(records: Sequence[dict]) -> Iterator[Comparison]:
    """Detectors on CPC above those on an encoder trained on labels."""
    for images in dict.fromkeys(record["dataset"] for record in records):
        arms = [_of(records, "map11", dataset=images, features=by) for by in ("CPC", "supervised")]
        doubt = DOUBTS.get(("detection", images), "")
        yield from _compared(f"`{images}`", ahead(*arms), OVER[images], doubt)
