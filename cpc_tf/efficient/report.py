"""What the report shows of few labels: figure 1, tables 2 and 3 of the paper with our rows, the search, confusions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cpc_tf.efficient import confusion, gain
from cpc_tf.efficient.label_curve import METRICS, Curve, Curves, curves, figure, steps
from cpc_tf.results import paper, presets
from cpc_tf.results.blocks import TRAINING, Block, Details, Gap, Part, Row, Subject, Table
from cpc_tf.results.methods import IMAGENET, architecture, by_method, dataset_name, fraction, titles
from cpc_tf.results.records import is_number
from cpc_tf.results.runs import Run
from cpc_tf.results.training import classifier_curves
from cpc_tf.results.values import Cell, accuracy, percent, printed, spread

FEW_LABELS = Subject(10, "labels", "Few labels")
CONFUSIONS = Subject(50, "confusions", "Confusions")
PHASES = {"frozen": " (fixed)", "fine-tuned": " (fine-tuned)", "supervised": ""}


def report(runs: Sequence[Run]) -> list[Part]:
    """What the results on one dataset, of all tasks, show of few labels; a gap if they show nothing."""
    own, dataset = [run for run in runs if run["kind"] == "efficient"], runs[0]["dataset"]
    if not own:
        classified = any("top1" in run.record for run in runs) or presets.own_preset(dataset, "efficient")
        how = presets.how(dataset, "efficient", flag="--label_fraction=0.01")
        gap = Gap("Not measured: classification with few labels (figure 1, tables 2 and 3).", how)
        return [Part(FEW_LABELS, [gap] if classified else [])]
    found, name = curves(own), dataset_name(dataset)
    searched = search(own)
    chosen = [Details("The settings that the held-out labels chose", [searched])] if searched else []
    shown = [figure(found, name), table_2(found, name), *gaps(found, dataset), *table_3(found, name), *chosen]
    training: list[Block] = []
    methods = by_method(own)
    for index, (method, title) in enumerate(titles(list(methods)).items()):
        groups: dict[str, list[Run]] = {}
        for run in sorted(methods[method], key=fraction):
            groups.setdefault(percent(fraction(run)), []).append(run)
        file, what = f"training-efficient-{index + 1}", f"classifiers with few labels: {title}"
        training += classifier_curves(file, what, groups, ordered=True)
    return [
        Part(FEW_LABELS, shown, headline(found)),
        Part(CONFUSIONS, confusion.blocks(found)),
        Part(TRAINING, training),
    ]


def headline(found: Curves) -> list[str]:
    """What was found with the fewest and the most labels. Of runs shorter than the preset's no gain is claimed."""
    common = found.common()
    if common:
        return [_comparison(found, at, claim=at == common[0]) for at in dict.fromkeys((common[0], common[-1]))]
    for own, lacking in (
        (found.ours, "the baseline on pixels"),
        (found.pixels, "an encoder pre-trained without labels"),
    ):
        if own:
            at = min(own.runs)
            reached = f"{_name(own)} reaches {accuracy([own.accuracy(at, 'top1').mean])} top-1"
            return [_after(_short([own], at), f"{_with(own, at)}, {reached}; {lacking} is not measured there yet.")]
    return []


def _comparison(found: Curves, at: float, claim: bool) -> str:
    both = [found.ours, found.pixels]
    ours, pixels = (curve.accuracy(at, "top1").mean for curve in both)
    first = f"{_with(found.ours, at)}, {found.ours.title} reaches {accuracy([ours])} top-1 and training on pixels "
    first += accuracy([pixels])
    short, gained = _short(both, at), found.gain(at, "top1")
    if ours <= pixels:
        end = ": the baseline is not behind."
    elif short:
        end = "; no gain is claimed."
    elif claim and gained and not (gained.bound and gained.factor < 1.05):  # the baseline knows more labels than these
        needs = f"{gained.bound} {gained.number} times".lstrip()
        end = f": on pixels it takes {needs} as many labels to get as far."
    else:
        end = "."
    return _after(short, f"{first}{end}")


def _short(compared: Sequence[Curve], at: float) -> str:
    return presets.in_short_runs([(steps(curve.runs[at][0]), curve.full) for curve in compared])


def _after(start: str, sentence: str) -> str:
    return f"{start}{sentence[0].lower()}{sentence[1:]}" if start else sentence


def _with(curve: Curve, at: float) -> str:
    return f"With {curve.labels(at):,} labels ({percent(at)})"


def _name(curve: Curve) -> str:
    return "training on pixels" if curve.method.trained_by == "pixels" else curve.title


def table_2(found: Curves, dataset: str) -> Table:
    """The paper's table 2, ours above the paper's."""
    fractions = sorted({*paper.FRACTIONS, *found.fractions})
    labels = {f: f"{curve.labels(f):,}" for curve in found.all for f in curve.runs}
    several = sum(curve.method.pretrained for curve in found.all) > 1
    of_ours = f"Gain of {found.ours.title}" if several else "Gain"
    rows = []
    for metric, title in METRICS.items():
        rows.append(Row([title], "group"))
        rows += [Row([_trained_on(c), *(c.accuracy(f, metric) for f in fractions)]) for c in found.all[::-1]]
        if found.ours and found.pixels:
            for rule, kind in (
                (gain.interpolated, ", interpolated"),
                (gain.between_measured, " between measured fractions"),
            ):
                rows.append(Row([f"{of_ours}{kind}", *(found.gain(f, metric, rule) for f in fractions)], "gain"))
        in_paper = paper.TABLE_2[metric]
        rows += [_paper_row(name, paper.FRACTIONS, values, fractions) for name, values in in_paper.items()]
        baseline, best = zip(paper.FRACTIONS, in_paper[paper.PIXELS]), dict(zip(paper.FRACTIONS, in_paper[paper.CPC]))
        points = list(baseline)
        gains = [gain.interpolated(points, f, best[f]) if f in best else None for f in fractions]
        as_printed = dict(zip(paper.FRACTIONS, paper.GAIN[metric]))
        times = [f"{as_printed[f]:g}\N{MULTIPLICATION SIGN}" if as_printed.get(f) else None for f in fractions]
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
    fractions = sorted({*paper.TABLE_3_FRACTIONS, *found.fractions})
    ours = {metric: _phase_rows(found, metric, fractions) for metric in ("top5", "top1")}
    if not any(ours.values()):
        return []
    rows = [Row(["Top-5 accuracy"], "group"), *ours["top5"]]
    for group, lines in paper.TABLE_3.items():
        rows += [Row([group], "subgroup")] if group else []
        rows += [_paper_row(name, paper.TABLE_3_FRACTIONS, values, fractions) for name, *values in lines]
    rows += [Row(["Top-1 accuracy (the paper prints none)"], "group"), *ours["top1"]]
    note = "Fixed: the classifier alone is trained. Fine-tuned: then all of it." + _other_data(dataset)
    title = "Fixed and fine-tuned, beside other methods (table 3 of the paper)"
    return [Table("table3", title, ["Labeled data", *map(percent, fractions)], rows, note)]


def search(runs: Sequence[Run]) -> Table | None:
    """What each search chose; the CSV file has all that was tried."""
    rows, data = [], []
    keys = ("weight_decay", "dropout", "batch_size", "steps")
    for method, own in by_method(runs).items():
        for run in sorted(own, key=lambda run: (fraction(run), run.get("seed", 0))):
            tried, seed = run.get("search", []), run.get("seed", 0)
            data += [{"method": method.name, "label_fraction": fraction(run), "seed": seed, **trial} for trial in tried]
            for trial in (trial for trial in tried if trial.get("chosen") is True):
                rate, held_out = trial.get("learning_rate", trial.get("encoder_rate")), trial.get("held_out_top1")
                same_phase = sum(other.get("phase") == trial.get("phase") for other in tried)
                right = spread([held_out]) if is_number(held_out) else None
                name = f"{method.name}, {percent(fraction(run))}, seed {seed}"
                rows.append(Row([name, trial.get("phase"), rate, *map(trial.get, keys), right, same_phase]))
    columns = ["Run", "Phase", "Rate", "Weight decay", "Dropout", "Batch", "Steps", "Held-out top-1, %", "Tried"]
    note = (
        "Chosen by the accuracy on labels held out of the training set, never on the test set. While fine-tuning, the "
        "rate is the encoder's; 0 steps: no fine-tuning was better."
    )
    return Table("search", "Chosen settings", columns, rows, note, words=(1,), all_data=data) if rows else None


def gaps(found: Curves, dataset: str) -> list[Gap]:
    """Where one of the two compared methods lacks a fraction of the paper, or one that the other has."""
    compared = [(found.ours, "an encoder pre-trained without labels"), (found.pixels, "the baseline on pixels")]
    wanted = sorted({*paper.FRACTIONS, *(f for curve, _ in compared if curve for f in curve.runs)})
    missing = []
    for index, (own, name) in enumerate(compared):
        lacking = [f for f in wanted if not own or f not in own.runs]
        if lacking:
            name = own.title if own and not index else name
            what = f"Not measured: {name} at {', '.join(map(percent, lacking))} of the labels."
            flag = f"--label_fraction={lacking[0]:g}"
            names = ("efficient_pixels", "efficient") if index else ("efficient",)
            missing.append(Gap(what, presets.how(dataset, *names, flag=flag)))
    return missing


def _trained_on(curve: Curve) -> str:
    if curve.method.trained_by == "pixels":
        return f"{architecture(curve.method.architecture) or 'classifier'} trained on pixels"
    return f"trained on {curve.title} features" if curve.method.pretrained else f"trained on a {curve.title}"


def _phase_rows(found: Curves, metric: str, fractions: Sequence[float]) -> list[Row]:
    rows = []
    for curve in found.all[::-1]:
        for phase, name in PHASES.items():
            here = [
                [run.get("phases", {}).get(phase, {}).get(metric) for run in curve.runs.get(f, [])] for f in fractions
            ]
            numbers = [spread(v for v in values if is_number(v) and 0 <= v <= 1) for values in here]
            rows += [Row([f"{curve.title}{name}", *numbers])] if any(numbers) else []
    return rows


def _paper_row(name: str, known: Sequence[float], values: Sequence[Any], fractions: Sequence[float]) -> Row:
    of = dict(zip(known, values))
    return Row([name, *(printed(of.get(f)) for f in fractions)], "paper")


def _other_data(dataset: str) -> str:
    return "" if dataset in IMAGENET else f" The paper's figures are of ImageNet, ours of {dataset}."
