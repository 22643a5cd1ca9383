"""The sentences of docs/results.md that have figures: one for each question, from the records.

A sentence says what its records say. Where they are missing it says that nothing is claimed.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence

from studies import claims
from studies.causes import study as causes
from studies.claims import Claim, Comparison, Read
from studies.coverage import study as coverages
from studies.coverage.measure import NUMBERS
from studies.encoders import study as encoders
from studies.label.simulate import DEFAULT
from studies.objectives import study as objectives

LARGE = "`imagenette-128px` with 1 %"
EACH = 12  # labels per class
OBJECTIVES = "objectives"  # the study


def _nothing(why: str) -> str:
    return f"**Nothing is claimed: {why}.**"


def _starting(found: Sequence[Claim], *starts: str) -> list[Claim]:
    return [claim for claim in found if claim.text.startswith(starts)]


def _said(each: Comparison) -> str:
    """'+17.6 points (+10.0 to +25.2): yes'."""
    span = f" ({each.span})" if each.test else ""
    return f"{each.ahead}{span}: {each.outcome}"


def of_claims(read: Read) -> str:
    """How many claims have which verdict."""
    found = claims.claims(read)
    verdicts: dict[str, list[str]] = {}
    for claim in found:
        verdicts.setdefault(claim.verdict, []).append(claim.text.partition(" (")[0])
    parts = [
        f"{verdict}: {len(texts)}"
        + (f" ({'; '.join(texts)})" if verdict in (claims.YES, claims.NO) else "")
        for verdict, texts in verdicts.items()
    ]
    order = (claims.YES, "in part", claims.NO, claims.OPEN, "not judged", claims.UNTESTED)
    parts.sort(key=lambda part: order.index(part.partition(":")[0]))
    count = sum(len(claim.judged) for claim in found)
    return (
        f"**Of {len(found)} claims of the paper, on small data: {', '.join(parts)}.** "
        f"{count} comparisons are judged."
    )


def of_labels(read: Read) -> str:
    """What CPC is ahead by with 1 % of the labels, and how many more the baseline needs."""
    ahead, times = (
        next((each for each in claim.comparisons if each.where == LARGE), None)
        for start in ("above pixels", "2 times")
        for claim in _starting(claims.claims(read), start)
    )
    if not ahead or not ahead.test:
        return _nothing(f"{LARGE} of the labels has too few runs")
    sentence = (
        f"**With 1 % of the labels CPC, fine-tuned, is {_points(ahead)} ahead of the supervised "
        f"baseline ({ahead.span}): {ahead.outcome}."
    )
    if not times:
        return f"{sentence}**"
    needs = f"For the same accuracy the baseline needs {times.ahead} as many labels"
    if not times.test:
        return f"{sentence}** {needs}, which is not judged: {times.doubt}."
    return f"{sentence} {needs} ({times.span}); at least two times: {times.outcome}.**"


def _points(each: Comparison) -> str:
    return each.ahead.lstrip("+")


def of_images(read: Read) -> str:
    """On which images CPC was ahead, with the fewest labels."""
    (claim,) = _starting(claims.claims(read), "above pixels")
    least = [each for each in claim.comparisons if each.where.endswith(" with 1 %")]
    if not least:
        return _nothing("no label curve has 1 % of the labels")
    judged = [f"{each.images} {_said(each)}" for each in least if each.test]
    others = [f"{each.images} {each.ahead}" for each in least if not each.test]
    return (
        "**With 1 % of the labels fine-tuned CPC is ahead of the supervised baseline by: "
        f"{'; '.join(judged)}."
        f"** Shown and not judged: {', '.join(others) or 'nothing'}."
    )


def of_objectives(read: Read) -> str:
    """Which objectives are ahead of CPC in equal time."""
    found = read(OBJECTIVES)
    times = sorted({record["minutes"] for record in found}, reverse=True)
    for minutes in times:  # the longest whole study
        if said := objectives.answer(found, minutes):
            return said
    return _nothing(f"{len(found)} runs are recorded, and no study is complete")


def of_ladder(read: Read) -> str:
    """What is judged of Fig. 3."""
    found = [claim for claim in claims.claims(read) if "Fig. 3" in claim.text]
    judged = [claim for claim in found if claim.judged]
    if not judged:
        doubts = dict.fromkeys(each.doubt for claim in found for each in claim.comparisons)
        return _nothing(f"not judged: {'; '.join(doubts) or 'there are no records'}")
    parts = [
        f"{claim.text.partition(' (')[0]} {each.images} {_said(each)}"
        for claim in judged
        for each in claim.judged
    ]
    return f"**{'; '.join(parts)}.**"


def of_detection(read: Read) -> str:
    """What CPC is ahead by as the encoder of a detector."""
    (claim,) = _starting(claims.claims(read), "detection")
    if not claim.comparisons:
        return _nothing("no detector is recorded")
    judged = [f"{each.images} {_said(each)}" for each in claim.judged]
    others = [f"{each.images} {each.ahead}" for each in claim.comparisons if not each.test]
    return (
        "**A detector with a CPC encoder, minus one whose encoder was trained on labels, in mAP: "
        f"{'; '.join(judged)}.** Shown and not judged: {', '.join(others) or 'nothing'}."
    )


def of_encoders(read: Read) -> str:
    """Which of two encoders is ahead on which images, and how good both side by side are."""
    found = read("encoders")
    means: dict[str, dict[str, float]] = {}
    for record in found:
        draws = encoders.accuracies(found, record["set"], record["encoder"], EACH)
        means.setdefault(record["set"], {})[record["encoder"]] = 100 * statistics.fmean(draws)
    needed = ("CPC", "Lite0", "CPC + Lite0")
    means = {name: of for name, of in means.items() if {*needed} <= of.keys()}
    if not means:
        return _nothing(f"{', '.join(needed)} are not recorded on the same images")
    gaps = {name: of["Lite0"] - of["CPC"] for name, of in means.items()}
    labels = [f"{name} {gap:+.1f}" for name, gap in gaps.items() if gap > 1]
    ours = [f"{name} {-gap:+.1f}" for name, gap in gaps.items() if gap < -1]
    level = [name for name, gap in gaps.items() if abs(gap) <= 1]
    near = sum(max(of[name] for name in needed) - of["CPC + Lite0"] <= 1 for of in means.values())
    return (
        f"**With {EACH} labels per class the network that learned from ImageNet's labels is ahead"
        f" of the released CPC by, in points: {', '.join(labels) or 'none'}; CPC is ahead by: "
        f"{', '.join(ours) or 'none'}; "
        f"within a point: {', '.join(level) or 'none'}.** Both side by side are the best of the "
        f"three, or within a point of it, on {near} of {len(means)}."
    )


def of_orders(read: Read) -> str:
    """What the order of `cpc-tf label` is ahead of a random one by."""
    found = read("label")
    runs: dict[tuple, dict[int, Mapping]] = {}
    for record in found:
        runs.setdefault((record["dataset"], record["order"]), {})[record["seed"]] = record["at"]
    parts = []
    for number in ("20", "200"):
        for images in dict.fromkeys(record["dataset"] for record in found):
            ours, theirs = (runs.get((images, order), {}) for order in (DEFAULT, "random"))
            points = [
                100 * (ours[seed][number]["top1"] - theirs[seed][number]["top1"])
                for seed in ours.keys() & theirs.keys()
            ]
            if points:
                ahead = sum(each > 0 for each in points)
                mean = f"{statistics.fmean(points):+.1f}"
                parts.append(f"{mean} with {number} on `{images}` ({ahead} of {len(points)} times)")
    if not parts:
        return _nothing("no order is recorded")
    return (
        "**With images labelled in the order of `cpc-tf label` a classifier is ahead of one with "
        f"as many random images by, in points: {', '.join(parts)}.**"
    )


def of_coverage(read: Read) -> str:
    """How often a stated interval held the truth."""
    found = read("coverage")
    if not found:
        return _nothing("no interval is recorded")
    three = [row for record in found for row in record["rows"] if row["each"] == 3]
    held, draws = (sum(row.get(name, 0) for row in three) for name in ("held", "draws"))
    return (
        "**The 95 % interval that `cpc-tf classify` states contained the true accuracy "
        f"in {coverages.held(found, least=5)} draws with {NUMBERS[2]} labels per class or more, in "
        f"{100 * held / draws:.0f} % of {draws:,} with three; with two none is stated.**"
    )


def of_settings(read: Read) -> str:
    """The largest gain that a single change brought at equal time."""
    found = read("causes")
    means = {
        (record["cause"], record["rung"]): 100
        * statistics.fmean(record[reading] for reading in causes.READINGS)
        for record in found
    }
    reference = means.pop((causes.REFERENCE.cause, causes.REFERENCE.name), None)
    if reference is None or not means:
        return _nothing("no change is recorded beside its reference")
    (cause, name), best = max(means.items(), key=lambda item: item[1])
    points = round(best - reference, 1) + 0.0  # no -0.0
    return (
        f"**Nothing is claimed: in equal time on one core the best of {len(means)} single changes "
        f"to the preset ({cause}: {name}) is {points:+.1f} points ahead in the mean of four "
        "figures, in one run each.**"
    )


def of_cost(tables: Mapping[str, Mapping]) -> str:
    """What the released encoder took, and the time of a step beside PyTorch's."""
    speed, cost = tables["speed"]["rows"], tables["cost"]["rows"]
    ours, theirs = (float(speed[row][1].strip("*")) for row in (0, 2))
    return (
        f"**Pre-training the released encoder took {cost[1][2]} on {cost[1][1]}; a training step "
        f"in bfloat16 takes {ours / theirs:.2f} of the time of the same network in PyTorch.**"
    )


ANSWERS: dict[str, Callable[[Read], str]] = {
    "claims": of_claims,
    "labels": of_labels,
    "images": of_images,
    "objectives": of_objectives,
    "ladder": of_ladder,
    "detection": of_detection,
    "encoders": of_encoders,
    "orders": of_orders,
    "coverage": of_coverage,
    "settings": of_settings,
}
