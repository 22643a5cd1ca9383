"""What the report shows of few labels: figure 1, tables 2 and 3 of the paper with our rows, the search, confusions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cpc_tf.efficient import confusion, gain
from cpc_tf.efficient.label_curve import METRICS, Curves, Point, curves, figure, preset_names
from cpc_tf.results import paper, presets
from cpc_tf.results.blocks import TRAINING, Block, Details, Gap, Part, Row, Table
from cpc_tf.results.methods import IMAGENET, dataset_name, fraction, methods
from cpc_tf.results.records import is_number
from cpc_tf.results.runs import Run
from cpc_tf.results.training import classifier_curves
from cpc_tf.results.values import Cell, percent, spread

FEW_LABELS = (10, "labels", "Few labels")
PHASES = {"frozen": " (fixed)", "fine-tuned": " (fine-tuned)", "supervised": ""}


def report(runs: Sequence[Run], dataset: str) -> list[Part]:
    """What the results on a dataset show of few labels; a gap if there are none and a preset would measure them."""
    if not runs:
        how = presets.how(dataset, ["efficient"], "--label_fraction=0.01")
        gap = Gap("Not measured: classification with few labels (figure 1, tables 2 and 3).", how)
        return [Part(*FEW_LABELS, [gap])] if how else []
    found, name, searched = curves(runs), dataset_name(dataset), search(runs)
    chosen = [Details("The settings that the held-out labels chose", [searched])] if searched.rows else []
    shown = [figure(found, name), table_2(found, name), *gaps(found, dataset), *table_3(found, name), *chosen]
    training: list[Block] = []
    for index, curve in enumerate(found.all):
        groups = {percent(f): point.method.runs for f, point in curve.items()}
        title = f"classifiers with few labels: {_title(curve)}"
        training += classifier_curves(f"training-efficient-{index + 1}", title, groups, ordered=True)
    return [
        Part(*FEW_LABELS, shown, headline(found)),
        Part(50, "confusions", "Confusions", confusion.blocks(found)),
        Part(72, *TRAINING, training),
    ]


def headline(found: Curves) -> list[str]:
    """What was found with the fewest and the most labels. Of runs shorter than the preset's no gain is claimed."""
    common = found.common()
    if common:
        return [_comparison(found, at, claim=at == common[0]) for at in dict.fromkeys((common[0], common[-1]))]
    sentences = []
    for own, lacking in ((found.ours, "the baseline on pixels"), (found.pixels, "an encoder trained without labels")):
        for at in list(own)[: not sentences]:
            reached = f"{_title(own)} reaches {own[at].method.spread('top1')} % top-1"
            sentences.append(_sentence([own[at]], at, f"{reached}; {lacking} is not measured there yet."))
    return sentences


def _comparison(found: Curves, at: float, claim: bool) -> str:
    both = [found.ours[at], found.pixels[at]]
    ours, pixels = (point.method.spread("top1") for point in both)
    gained, end = found.gain(at, "top1"), "."
    if ours.mean <= pixels.mean:
        end = ": the baseline is not behind."
    elif any(point.short for point in both):
        end = "; no gain is claimed."
    elif claim and gained and not (gained.bound and gained.factor < 1.05):  # else it has no more labels than these
        end = f": on pixels it takes {f'{gained.bound} {gained}'.lstrip()} times as many labels to get as far."
    return _sentence(both, at, f"{_title(found.ours)} reaches {ours} % top-1 and training on pixels {pixels} %{end}")


def _sentence(points: Sequence[Point], at: float, what: str) -> str:
    sentence = f"With {points[0].labels:,} labels ({percent(at)}), {what}"
    return presets.in_short_runs([(point.steps, point.full) for point in points], sentence)


def _title(curve: dict[float, Point]) -> str:
    return next(iter(curve.values())).method.title


def table_2(found: Curves, dataset: str) -> Table:
    """The paper's table 2, ours above the paper's."""
    fractions = _fractions(found, paper.FRACTIONS)
    labels = {f: f"{point.labels:,}" for curve in found.all for f, point in curve.items()}
    rules = {", interpolated": gain.interpolated, " between measured fractions": gain.between_measured}
    rows = []
    for metric, title in METRICS.items():
        rows.append(Row([title], "group"))
        for curve in found.all[::-1]:
            values = [curve[f].method.spread(metric) if f in curve else None for f in fractions]
            rows.append(Row([_trained_on(curve), *values]))
        for kind, rule in rules.items():
            gains = [found.gain(f, metric, rule) for f in fractions]
            rows += [Row([f"Gain{kind}", *gains], "gain")] if any(gains) else []
        in_paper = {name: dict(zip(paper.FRACTIONS, values)) for name, values in paper.TABLE_2[metric].items()}
        rows += [_paper_row(name, values, fractions) for name, values in in_paper.items()]
        baseline, ours = in_paper[paper.PIXELS].items(), in_paper[paper.CPC]
        gains = [gain.interpolated(baseline, f, ours[f]) if f in ours else None for f in fractions]
        printed = dict(zip(paper.FRACTIONS, paper.GAIN[metric]))
        times = [f"{printed[f]:g}\N{MULTIPLICATION SIGN}" if printed.get(f) else None for f in fractions]
        rows += [Row(["Gain, interpolated", *gains], "paper gain"), Row(["Gain, as printed", *times], "paper gain")]
    note = (
        "Percent; after ±, half the range of several runs; of runs at one fraction the longest count. Gain: how many "
        "times as many labels the baseline needs for the same accuracy, if no run is shorter than the preset's. "
        "Interpolated: linear in the logarithm of the labels, on the means. Between measured fractions: the paper's "
        "coarser way, the largest fraction at which the baseline was measured and is not better."
    )
    columns = ["Labeled data", *(Cell(percent(f), labels.get(f, "")) for f in fractions)]
    title = "Pixels against CPC features (table 2 of the paper)"
    return Table("table2", title, columns, rows, note + _other_data(dataset))


def table_3(found: Curves, dataset: str) -> list[Table]:
    """The paper's table 3 with the phases of our runs; nothing if the runs do not state their phases."""
    fractions = _fractions(found, paper.TABLE_3_FRACTIONS)
    ours = {metric: _phase_rows(found, metric, fractions) for metric in METRICS}
    rows = [Row(["Top-5 accuracy"], "group"), *ours["top5"]]
    for group, lines in paper.TABLE_3.items():
        rows += [Row([group], "subgroup")] if group else []
        known = {name: dict(zip(paper.TABLE_3_FRACTIONS, values)) for name, *values in lines}
        rows += [_paper_row(name, values, fractions) for name, values in known.items()]
    rows += [Row(["Top-1 accuracy (the paper prints none)"], "group"), *ours["top1"]]
    note = "Fixed: the classifier alone is trained. Fine-tuned: then all of it." + _other_data(dataset)
    title = "Fixed and fine-tuned, beside other methods (table 3 of the paper)"
    table = Table("table3", title, ["Labeled data", *map(percent, fractions)], rows, note)
    return [table] if any(ours.values()) else []


def search(runs: Sequence[Run]) -> Table:
    """What each search chose; the CSV file has all that was tried."""
    rows, data = [], []
    for method in methods(runs):
        for run in sorted(method.runs, key=lambda run: (fraction(run), run.get("seed", 0))):
            tried, seed = run.get("search", []), run.get("seed", 0)
            name = f"{method.title}, {percent(fraction(run))}, seed {seed}"
            data += [{"run": name, "label_fraction": fraction(run), "seed": seed, **trial} for trial in tried]
            for trial in (trial for trial in tried if trial.get("chosen") is True):
                rate, right = trial.get("learning_rate", trial.get("encoder_rate")), trial.get("held_out_top1")
                values = [trial.get(key) for key in ("weight_decay", "dropout", "batch_size", "steps")]
                same_phase = sum(other.get("phase") == trial.get("phase") for other in tried)
                right = spread([right]) if is_number(right) else None
                rows.append(Row([name, trial.get("phase"), rate, *values, right, same_phase]))
    columns = ["Run", "Phase", "Rate", "Weight decay", "Dropout", "Batch", "Steps", "Held-out top-1, %", "Tried"]
    note = (
        "Chosen by the accuracy on labels held out of the training set, never on the test set. While fine-tuning, the "
        "rate is the encoder's; 0 steps: no fine-tuning was better."
    )
    return Table("search", "Chosen settings", columns, rows, note, words=(1,), all_data=data)


def gaps(found: Curves, dataset: str) -> list[Gap]:
    """Where one of the two compared methods lacks a fraction of the paper, or one that the other has."""
    wanted, missing = sorted({*paper.FRACTIONS, *found.ours, *found.pixels}), []
    for pixels, own in ((False, found.ours), (True, found.pixels)):
        name = "the baseline on pixels" if pixels else _title(own) if own else "an encoder trained without labels"
        lacking = [f for f in wanted if f not in own]
        if lacking:
            how = presets.how(dataset, preset_names(pixels), f"--label_fraction={lacking[0]:g}")
            missing.append(Gap(f"Not measured: {name} at {', '.join(map(percent, lacking))} of the labels.", how))
    return missing


def _fractions(found: Curves, in_paper: Sequence[float]) -> list[float]:
    return sorted({*in_paper, *(f for curve in found.all for f in curve)})


def _trained_on(curve: dict[float, Point]) -> str:
    method = next(iter(curve.values())).method
    if method.trained_by == "pixels":
        return f"{method.architecture or 'classifier'} trained on pixels"
    return f"trained on {method.title} features" if method.pretrained else f"trained on a {method.title}"


def _phase_rows(found: Curves, metric: str, fractions: Sequence[float]) -> list[Row]:
    rows = []
    for curve in found.all[::-1]:
        runs = [curve[f].method.runs if f in curve else [] for f in fractions]
        for phase, name in PHASES.items():
            known = [[run.get("phases", {}).get(phase, {}).get(metric) for run in own] for own in runs]
            values = [spread(v for v in own if is_number(v) and 0 <= v <= 1) for own in known]
            rows += [Row([f"{_title(curve)}{name}", *values])] if any(values) else []
    return rows


def _paper_row(name: str, values: dict[float, Any], fractions: Sequence[float]) -> Row:
    return Row([name, *(spread([values[f] / 100]) if values.get(f) else None for f in fractions)], "paper")


def _other_data(dataset: str) -> str:
    return "" if dataset in IMAGENET else f" The paper's figures are of ImageNet, ours of {dataset}."
