"""What the report shows of few labels: figure 1, tables 2 and 3 of the paper with our rows, the search, confusions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cpc_tf.efficient import confusion, label_curve
from cpc_tf.efficient.label_curve import METRICS, Curves, curves, interpolated, method_of
from cpc_tf.results import paper, presets
from cpc_tf.results.blocks import TRAINING, Block, Details, Gain, Gap, Part, Row, Spread, Table, percent, spread
from cpc_tf.results.datasets import IMAGENET
from cpc_tf.results.methods import Method, fraction, methods
from cpc_tf.results.runs import Run, is_number
from cpc_tf.results.training import classifier_curves

FEW_LABELS = (10, "labels", "Few labels")
PHASES = {"frozen": " (fixed)", "fine-tuned": " (fine-tuned)", "supervised": ""}
RULES = {"Gain, interpolated": interpolated, "Gain between measured fractions": label_curve.between_measured}
TRIED = {"Weight decay": "weight_decay", "Dropout": "dropout", "Batch": "batch_size", "Steps": "steps"}
# Rows of tables over fractions of the labels: each the group it is in, its name, where it is from, the values.
Lines = list[tuple[str, str, str, Mapping[float, Any]]]


def report(runs: Sequence[Run], dataset: str) -> list[Part]:
    """What the results on a dataset show of few labels; a gap if there are none and a preset would measure them."""
    if not runs:
        what = "classification with few labels (figure 1, tables 2 and 3)"
        gap = presets.gap(what, label_curve.preset(dataset, pixels=False), dataset, "--label_fraction=0.01")
        return [Part(*FEW_LABELS, [gap])] if gap.how else []
    found, name = curves(runs), runs[0].dataset_title
    tables = [table_2(found, name), *_gaps(found, dataset), *table_3(found, name), *search(runs)]
    training: list[Block] = []
    for index, curve in enumerate(found.all, 1):
        title, groups = method_of(curve).title, {percent(f): point.runs for f, point in curve.items()}
        training += classifier_curves(
            f"training-efficient-{index}", f"classifiers with few labels: {title}", groups, True
        )
    return [
        Part(*FEW_LABELS, [label_curve.figure(found, name), *tables], headline(found)),
        Part(50, "confusions", "Confusions", confusion.blocks(found)),
        Part(72, *TRAINING, training),
    ]


def headline(found: Curves) -> list[str]:
    """What was found with the fewest and the most labels; a gain is claimed only of runs as long as by the presets."""
    common = sorted(found.ours.keys() & found.pixels.keys())
    if common:
        return [_comparison(found, at, claim=at == common[0]) for at in dict.fromkeys((common[0], common[-1]))]
    for own, lacking in ((found.ours, "the baseline on pixels"), (found.pixels, "an encoder trained without labels")):
        for at, point in own.items():
            reached = f"{point.title} reaches {point.spread('top1')} % top-1"
            return [_sentence([point], at, f"{reached}; {lacking} is not measured there yet.")]
    return []


def _comparison(found: Curves, at: float, claim: bool) -> str:
    both = [found.ours[at], found.pixels[at]]
    ours, pixels = (point.spread("top1") for point in both)
    gained, end = found.gain(at, "top1"), "."
    if ours.mean <= pixels.mean:
        end = ": the baseline is not behind."
    elif any(map(label_curve.short, both)):
        end = "; no gain is claimed."
    elif reasons := [*filter(None, map(label_curve.unjudged, both))]:
        end = f"; no gain is claimed, since {reasons[0]}."
    elif claim and gained and not (gained.bound and gained.factor < 1.05):  # else it has no more labels than these
        end = f": on pixels it takes {gained} times as many labels to get as far."
    reached = f"{both[0].title} reaches {ours} % top-1 and training on pixels {pixels} %"
    return _sentence(both, at, reached + end)


def _sentence(points: Sequence[Method], at: float, what: str) -> str:
    sentence = f"With {label_curve.labels(points[0]):,} labels ({percent(at)}), {what}"
    return presets.in_short_runs(map(label_curve.short, points), sentence)


def table_2(found: Curves, dataset: str) -> Table:
    """The paper's table 2, ours above the paper's."""
    labels = {f: label_curve.labels(point) for curve in found.all for f, point in curve.items()}
    lines: Lines = [("", "Number of labels", "aside", labels)]
    for metric, group in METRICS.items():
        for curve in found.all[::-1]:
            method, values = method_of(curve), {f: point.spread(metric) for f, point in curve.items()}
            pixels = f"{method.architecture or 'classifier'} trained on {method.title}"
            name = pixels if method.trained_by == "pixels" else f"trained on {method.title} features"
            lines.append((group, name, "measured", values))
        for name, rule in RULES.items():
            lines.append((group, name, "gain", {f: found.gain(f, metric, rule) for f in found.ours}))
        printed = {name: dict(zip(paper.FRACTIONS, values)) for name, values in paper.TABLE_2[metric].items()}
        lines += [(group, name, "paper", _spreads(values)) for name, values in printed.items()]
        baseline, best = [*printed[paper.PIXELS].items()], printed[paper.CPC].items()
        lines.append((group, "Gain, interpolated", "paper", {f: interpolated(baseline, f, x) for f, x in best}))
        gains = {f: gain and Gain(gain) for f, gain in zip(paper.FRACTIONS, paper.GAIN[metric])}
        lines.append((group, "Gain, as printed", "paper", gains))
    note = (
        "Percent; after ±, half the range of several runs; shorter runs, and those of other settings, have rows of "
        "their own. Gain: how many times as many labels the baseline needs for the same accuracy, interpolated in "
        "their logarithm, or in the paper's coarser way; only of runs that are known to be as long as by a preset."
    )
    return _over_fractions("table2", "Pixels against CPC features (table 2 of the paper)", lines, note, dataset)


def table_3(found: Curves, dataset: str) -> list[Table]:
    """The paper's table 3 with the phases of our runs; nothing if the runs do not state their phases."""
    printed: Lines = []
    for group, rows in paper.TABLE_3.items():
        values = {name: _spreads(dict(zip(paper.TABLE_3_FRACTIONS, percents))) for name, *percents in rows}
        printed += [(group, name, "paper", at) for name, at in values.items()]
    ours = _phases(found, "Top-5 accuracy", "top5"), _phases(found, "Top-1 accuracy (the paper prints none)", "top1")
    title = "Fixed and fine-tuned, beside other methods (table 3 of the paper)"
    note = "Fixed: the classifier alone is trained. Fine-tuned: then all of it."
    lines = [*ours[0], *printed, *ours[1]]
    return [_over_fractions("table3", title, lines, note, dataset)] if len(lines) > len(printed) else []


def _phases(found: Curves, group: str, metric: str) -> Lines:
    lines: Lines = []
    for curve in found.all[::-1]:
        for phase, name in PHASES.items():
            stated = {f: [r.get("phases", {}).get(phase, {}).get(metric) for r in p.runs] for f, p in curve.items()}
            values = {f: spread(v for v in own if is_number(v) and 0 <= v <= 1) for f, own in stated.items()}
            lines += [(group, method_of(curve).title + name, "measured", values)] if any(values.values()) else []
    return lines


def _over_fractions(name: str, title: str, lines: Lines, note: str, dataset: str) -> Table:
    """A table with a column for each fraction of the labels; rows without any value are left out."""
    columns = sorted({f for *_, at in lines for f in at})
    rows = [Row([own, *map(at.get, columns)], source, group) for group, own, source, at in lines if any(at.values())]
    note += "" if dataset in IMAGENET else f" The paper's figures are of ImageNet, ours of {dataset}."
    return Table(name, title, ["Labeled data", *map(percent, columns)], rows, note)


def _spreads(percents: Mapping[float, float | None]) -> dict[float, Spread]:
    return {f: spread([value / 100]) for f, value in percents.items() if value is not None}


def search(runs: Sequence[Run]) -> list[Block]:
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
    table = Table("search", "Chosen settings", columns, rows, note)
    return [Details("The settings that the held-out labels chose", [table])] if rows else []


def _gaps(found: Curves, dataset: str) -> list[Gap]:
    """Where one of the two compared methods lacks a fraction of the paper, or one that the other has."""
    gaps, ours = [], method_of(found.ours).title if found.ours else "an encoder trained without labels"
    for pixels, own, name in ((False, found.ours, ours), (True, found.pixels, "the baseline on pixels")):
        if lacking := sorted({*paper.FRACTIONS, *found.ours, *found.pixels} - own.keys()):
            what = f"{name} at {', '.join(map(percent, lacking))} of the labels"
            flag = f"--label_fraction={lacking[0]:g}"
            gaps.append(presets.gap(what, label_curve.preset(dataset, pixels), dataset, flag))
    return gaps
