"""What the report shows of few labels: figure 1, tables 2 and 3 of the paper with our rows, the search, confusions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cpc_tf.efficient import confusion, label_curve
from cpc_tf.efficient.label_curve import METRICS, Curve, Curves, Point, curves, method_of
from cpc_tf.results import paper, presets
from cpc_tf.results.blocks import TRAINING, Block, Details, Gain, Gap, Part, Row, Spread, Table, percent, spread
from cpc_tf.results.methods import IMAGENET, dataset_name, fraction, methods
from cpc_tf.results.runs import Run, is_number
from cpc_tf.results.training import classifier_curves

FEW_LABELS = (10, "labels", "Few labels")
PHASES = {"frozen": " (fixed)", "fine-tuned": " (fine-tuned)", "supervised": ""}
RULES = {", interpolated": label_curve.interpolated, " between measured fractions": label_curve.between_measured}
TRIED = {"Weight decay": "weight_decay", "Dropout": "dropout", "Batch": "batch_size", "Steps": "steps"}
# A row of a table over fractions of the labels: its name, the values at some fractions, its source.
Line = tuple[str, Mapping[float, Any], str]


def report(runs: Sequence[Run], dataset: str) -> list[Part]:
    """What the results on a dataset show of few labels; a gap if there are none and a preset would measure them."""
    if not runs:
        missing = {"classification with few labels (figure 1, tables 2 and 3)": "--label_fraction=0.01"}
        gaps = [gap for gap in presets.gaps(dataset, ["efficient"], missing) if gap.how]
        return [Part(*FEW_LABELS, gaps)] if gaps else []
    found, name, searched = curves(runs), dataset_name(dataset), search(runs)
    chosen = [Details("The settings that the held-out labels chose", [searched])] if searched.rows else []
    gaps, drawn = _gaps(found, dataset), label_curve.figure(found, name)
    shown = [drawn, table_2(found, name), *gaps, *table_3(found, name), *chosen]
    training: list[Block] = []
    for index, curve in enumerate(found.all, 1):
        groups = {percent(f): point.method.runs for f, point in curve.items()}
        title = f"classifiers with few labels: {method_of(curve).title}"
        training += classifier_curves(f"training-efficient-{index}", title, groups, ordered=True)
    return [
        Part(*FEW_LABELS, shown, headline(found)),
        Part(50, "confusions", "Confusions", confusion.blocks(found)),
        Part(72, *TRAINING, training),
    ]


def headline(found: Curves) -> list[str]:
    """What was found with the fewest and the most labels. Of runs shorter than the preset's no gain is claimed."""
    common = sorted(found.ours.keys() & found.pixels.keys())
    if common:
        return [_comparison(found, at, claim=at == common[0]) for at in dict.fromkeys((common[0], common[-1]))]
    for own, lacking in ((found.ours, "the baseline on pixels"), (found.pixels, "an encoder trained without labels")):
        for at, point in own.items():
            reached = f"{point.method.title} reaches {point.method.spread('top1')} % top-1"
            return [_sentence([point], at, f"{reached}; {lacking} is not measured there yet.")]
    return []


def _comparison(found: Curves, at: float, claim: bool) -> str:
    both = [found.ours[at], found.pixels[at]]
    ours, pixels = (point.method.spread("top1") for point in both)
    gained, end = found.gain(at, "top1"), "."
    if ours.mean <= pixels.mean:
        end = ": the baseline is not behind."
    elif any(point.short for point in both):
        end = "; no gain is claimed."
    elif claim and gained and not (gained.bound and gained.factor < 1.05):  # else it has no more labels than these
        end = f": on pixels it takes {gained} times as many labels to get as far."
    reached = f"{both[0].method.title} reaches {ours} % top-1 and training on pixels {pixels} %"
    return _sentence(both, at, reached + end)


def _sentence(points: Sequence[Point], at: float, what: str) -> str:
    sentence = f"With {points[0].labels:,} labels ({percent(at)}), {what}"
    return presets.in_short_runs([(point.steps, point.full) for point in points], sentence)


def table_2(found: Curves, dataset: str) -> Table:
    """The paper's table 2, ours above the paper's."""
    labels = {f: point.labels for curve in found.all for f, point in curve.items()}
    groups: dict[str, list[Line]] = {"": [("Number of labels", labels, "aside")]}
    for metric, title in METRICS.items():
        ours = {_trained_on(c): {f: p.method.spread(metric) for f, p in c.items()} for c in found.all[::-1]}
        lines = [(name, values, "measured") for name, values in ours.items()]
        for name, rule in RULES.items():
            lines.append((f"Gain{name}", {f: found.gain(f, metric, rule) for f in found.ours}, "gain"))
        printed = paper.TABLE_2[metric]
        lines += [(name, _in_percent(paper.FRACTIONS, values), "paper") for name, values in printed.items()]
        baseline = list(zip(paper.FRACTIONS, printed[paper.PIXELS]))
        gains = {f: label_curve.interpolated(baseline, f, best) for f, best in zip(paper.FRACTIONS, printed[paper.CPC])}
        lines.append(("Gain, interpolated", gains, "paper"))
        gains = {f: gain and Gain(gain) for f, gain in zip(paper.FRACTIONS, paper.GAIN[metric])}
        groups[title] = [*lines, ("Gain, as printed", gains, "paper")]
    note = (
        "Percent; after ±, half the range of several runs; of runs at one fraction the longest count. Gain: how many "
        "times as many labels the baseline needs for the same accuracy, interpolated in their logarithm, or in the "
        "paper's coarser way; not of runs shorter than the preset's."
    )
    title = "Pixels against CPC features (table 2 of the paper)"
    return _over_fractions("table2", title, {*paper.FRACTIONS, *labels}, groups, note, dataset)


def table_3(found: Curves, dataset: str) -> list[Table]:
    """The paper's table 3 with the phases of our runs; nothing if the runs do not state their phases."""
    ours = {metric: [line for curve in found.all[::-1] for line in _phases(curve, metric)] for metric in METRICS}
    groups = {"Top-5 accuracy": ours["top5"]}
    for heading, lines in paper.TABLE_3.items():
        own = [(name, _in_percent(paper.TABLE_3_FRACTIONS, values), "paper") for name, *values in lines]
        groups[heading or "Trained on labels alone"] = own
    groups["Top-1 accuracy (the paper prints none)"] = ours["top1"]
    title, fractions = "Fixed and fine-tuned, beside other methods (table 3 of the paper)", paper.TABLE_3_FRACTIONS
    note = "Fixed: the classifier alone is trained. Fine-tuned: then all of it."
    known = {f for curve in found.all for f in curve}
    table = _over_fractions("table3", title, {*fractions, *known}, groups, note, dataset)
    return [table] if any(ours.values()) else []


def _over_fractions(
    name: str, title: str, fractions: Iterable[float], groups: Mapping[str, Sequence[Line]], note: str, dataset: str
) -> Table:
    """A table with a column for each fraction of the labels; rows without any value are left out."""
    columns, rows = sorted(fractions), []
    for heading, lines in groups.items():
        rows += [Row([heading], "group")] if heading else []
        rows += [Row([own, *map(at.get, columns)], source) for own, at, source in lines if any(at.values())]
    note += "" if dataset in IMAGENET else f" The paper's figures are of ImageNet, ours of {dataset}."
    return Table(name, title, ["Labeled data", *map(percent, columns)], rows, note)


def _phases(curve: Curve, metric: str) -> list[Line]:
    lines = []
    for phase, name in PHASES.items():
        stated = {f: [r.get("phases", {}).get(phase, {}).get(metric) for r in p.method.runs] for f, p in curve.items()}
        values = {f: spread(v for v in own if is_number(v) and 0 <= v <= 1) for f, own in stated.items()}
        lines += [(f"{method_of(curve).title}{name}", values, "measured")] if any(values.values()) else []
    return lines


def _in_percent(fractions: Sequence[float], values: Sequence[float | None]) -> dict[float, Spread]:
    return {f: spread([value / 100]) for f, value in zip(fractions, values) if value is not None}


def _trained_on(curve: Curve) -> str:
    method = method_of(curve)
    pixels = method.trained_by == "pixels"
    return (
        f"{method.architecture or 'classifier'} trained on pixels" if pixels else f"trained on {method.title} features"
    )


def search(runs: Sequence[Run]) -> Table:
    """What each search chose; report.json has all that was tried."""
    rows = []
    for title, run in [(m.title, run) for m in methods(runs) for run in sorted(m.runs, key=fraction)]:
        tried = run.get("search", [])
        for trial in (trial for trial in tried if trial.get("chosen") is True):
            rate, right = trial.get("learning_rate", trial.get("encoder_rate")), trial.get("held_out_top1")
            same_phase = sum(other.get("phase") == trial.get("phase") for other in tried)
            right = spread([right]) if is_number(right) else None
            name = f"{title}, {percent(fraction(run))}, seed {run.get('seed', 0)}"
            rows.append(Row([name, trial.get("phase"), rate, *map(trial.get, TRIED.values()), right, same_phase]))
    note = "Chosen on labels held out of the training set. 0 steps: no fine-tuning was better. All trials: report.json."
    columns = ["Run", "Phase", "Rate", *TRIED, "Held-out top-1, %", "Tried"]
    return Table("search", "Chosen settings", columns, rows, note)


def _gaps(found: Curves, dataset: str) -> list[Gap]:
    """Where one of the two compared methods lacks a fraction of the paper, or one that the other has."""
    gaps, ours = [], method_of(found.ours).title if found.ours else "an encoder trained without labels"
    for pixels, own, name in ((False, found.ours, ours), (True, found.pixels, "the baseline on pixels")):
        lacking = sorted({*paper.FRACTIONS, *found.ours, *found.pixels} - own.keys())
        for first in lacking[:1]:
            what = f"{name} at {', '.join(map(percent, lacking))} of the labels"
            gaps += presets.gaps(dataset, label_curve.PRESETS[pixels], {what: f"--label_fraction={first:g}"})
    return gaps
