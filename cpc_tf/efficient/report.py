"""Few labels in the report: figure 1, tables 2 and 3 of the paper with our rows, the search, confusions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Canvas

from cpc_tf.efficient import label_curve
from cpc_tf.efficient.label_curve import IMAGENET, Curves, interpolated, labels_of, method_of
from cpc_tf.results import glyphs, paper, plots, predictions, several
from cpc_tf.results.blocks import (
    TRAINING,
    Block,
    Details,
    Figure,
    Gain,
    Part,
    Row,
    Spread,
    Table,
    notes,
    percent,
    spread,
)
from cpc_tf.results.methods import fraction, methods
from cpc_tf.results.runs import Run, is_number

PHASES = {"frozen": " (fixed)", "fine-tuned": " (fine-tuned)", "supervised": ""}
TRIED = {
    **{"Network": "backbone", "Weight decay": "weight_decay", "Dropout": "dropout", "Batch": "batch_size"},
    **{"Steps": "steps", "Drop": "drop_step"},
}
MOST_NAMED = 40  # classes that the axes of a confusion matrix can name
PAIRS = 8  # classes in the table of confusions

COMPARED = (
    "Shorter runs and runs of other settings have their own rows. Gain: how many times as many labels the baseline "
    "needs for the same accuracy, interpolated in their logarithm, or by the paper's coarser rule; only for runs that "
    "are known to be as long as the preset's."
)

# Rows of tables over fractions of the labels: group, name, source, values by fraction.
Lines = list[tuple[str, str, str, Mapping[float, Any]]]


def report(runs: Sequence[Run], dataset: str) -> list[Part]:
    """Returns the parts of the page about the classifiers with few labels on a dataset."""
    runs, several_labels = several.divided(runs)
    apart = several.parts("efficient", several_labels)
    if not runs:
        return apart
    found, name = label_curve.curves(runs), runs[0].dataset_title
    blocks = [*label_curve.figure_1(found, name), table_2(found, name), *table_3(found, name), *search(runs)]
    title = "Few labels" if any(fraction(run) < 1 for run in runs) else "Classifiers trained on all labels"
    training: list[Block] = []
    for index, curve in enumerate(found.all, 1):
        groups = {percent(f): point.runs for f, point in curve.items()}
        what = f"classifiers: {method_of(curve).title}"
        training += plots.classifier_curves(f"training-efficient-{index}", what, groups, ordered=True)
    return [
        Part(10, "labels", title, blocks, label_curve.findings(found)),
        Part(50, "confusions", "Confusions", confusions(found)),
        Part(72, *TRAINING, training),
        *apart,
    ]


def table_2(found: Curves, dataset: str) -> Table:
    """Returns table 2, our rows above the paper's."""
    labels = {f: labels_of(point) for curve in found.all for f, point in curve.items()}
    lines: Lines = [("", "Number of labels", "aside", labels)]
    for metric, title in found.metrics.items():
        group = f"{title}, %"
        for curve in found.all[::-1]:
            method, values = method_of(curve), {f: point.spread(metric) for f, point in curve.items()}
            pixels = f"{method.architecture or 'classifier'} trained on {method.title}"
            features = method.title if method.propagation else f"trained on {method.title} features"
            name = pixels if method.trained_by == "pixels" else features
            lines.append((group, name, "measured", values))
        for name, rule in label_curve.RULES.items():
            lines.append((group, name, "gain", {f: found.gain(f, metric, rule) for f in found.ours}))
        printed = {name: dict(zip(paper.FRACTIONS, values)) for name, values in paper.TABLE_2[metric].items()}
        lines += [(group, name, "paper", _spreads(values)) for name, values in printed.items()]
        baseline, best = [*printed[paper.PIXELS].items()], printed[paper.CPC].items()
        lines.append((group, "Gain, interpolated", "paper", {f: interpolated(baseline, f, x) for f, x in best}))
        gains = {f: gain and Gain(gain) for f, gain in zip(paper.FRACTIONS, paper.GAIN[metric])}
        lines.append((group, "Gain, as printed", "paper", gains))
    values = [value for *_, source, at in lines if source == "measured" for value in at.values()]
    note = " ".join(filter(None, [notes(values), COMPARED if found.ours and found.pixels else ""]))
    both = f"{method_of(found.ours).title} against pixels" if found.ours and found.pixels else ""
    return _over_fractions("table2", both or "Accuracy by number of labels", lines, note, dataset)


def table_3(found: Curves, dataset: str) -> list[Table]:
    """Returns table 3 with the phases of our runs, if some have two, or can be compared with the paper's."""
    runs = [run for curve in found.all for point in curve.values() for run in point.runs]
    if dataset not in IMAGENET and not any(len(run.get("phases", {})) > 1 or run.get("propagation") for run in runs):
        return []
    printed: Lines = []
    for group, rows in paper.TABLE_3.items():
        values = {name: _spreads(dict(zip(paper.TABLE_3_FRACTIONS, percents))) for name, *percents in rows}
        printed += [(group, name, "paper", at) for name, at in values.items()]
    titles = {"top5": "Top-5 accuracy, %", "top1": "Top-1 accuracy, % (the paper prints none)"}
    ours = [_phases(found, title, metric) for metric, title in titles.items()]
    title = "Fixed and fine-tuned"
    note = "Fixed: the classifier alone is trained. Fine-tuned: then all of it."
    lines = [*ours[0], *printed, *ours[1]]
    return [_over_fractions("table3", title, lines, note, dataset)] if any(ours) else []


def _phases(found: Curves, group: str, metric: str) -> Lines:
    lines: Lines = []
    for curve in found.all[::-1]:
        for phase, name in PHASES.items():
            if phase == "frozen" and method_of(curve).propagation:
                continue  # learns from labels alone
            stated = {f: [r.get("phases", {}).get(phase, {}).get(metric) for r in p.runs] for f, p in curve.items()}
            of = {f: point.spread("top1").tested for f, point in curve.items()}
            values = {f: spread((v for v in own if is_number(v) and 0 <= v <= 1), of[f]) for f, own in stated.items()}
            lines += [(group, method_of(curve).title + name, "measured", values)] if any(values.values()) else []
    return lines


def _over_fractions(name: str, title: str, lines: Lines, note: str, dataset: str) -> Table:
    """Returns a table with a column for each fraction of the labels, without empty rows."""
    columns = sorted({f for *_, at in lines for f in at})
    rows = [Row([own, *map(at.get, columns)], source, group) for group, own, source, at in lines if any(at.values())]
    theirs = f"table {name[-1]} of the paper"
    theirs += "" if dataset in IMAGENET else f" (its figures are of ImageNet, ours of {dataset})"
    return Table(name, title, ["Labeled data", *map(percent, columns)], rows, note, theirs)


def _spreads(percents: Mapping[float, float | None]) -> dict[float, Spread]:
    return {f: spread([value / 100]) for f, value in percents.items() if value is not None}


def search(runs: Sequence[Run]) -> list[Block]:
    """Returns a table of the chosen settings; report.json has all trials."""
    rows = []
    for title, run in [(m.title, run) for m in methods(runs) for run in sorted(m.runs, key=fraction)]:
        tried = run.get("search", [])
        for trial in (trial for trial in tried if trial.get("chosen") is True):
            rate, right = trial.get("learning_rate", trial.get("encoder_rate")), trial.get("held_out_top1")
            same_phase = sum(other.get("phase") == trial.get("phase") for other in tried)
            calibration = run.get("calibration")
            held_out = calibration.get("held_out") if isinstance(calibration, dict) else None
            held_out = held_out if isinstance(held_out, int) else 0
            right = spread([right], held_out) if is_number(right) else None
            name = f"{title}, {percent(fraction(run))}, seed {run.get('seed', 0)}"
            rows.append(Row([name, trial.get("phase"), rate, *map(trial.get, TRIED.values()), right, same_phase]))
    note = (
        "Chosen on labels held out of the training set. 0 steps: no fine-tuning was better. Drop: the step after "
        "which the rate was a tenth, at a plateau; 0: none. All trials: report.json."
    )
    columns = ["Run", "Phase", "Rate", *TRIED, "Held-out top-1, %", "Tried"]
    table = Table("search", "Chosen settings", columns, rows, note)
    return [Details("The settings that the held-out labels chose", [table])] if rows else []


def confusions(found: Curves) -> list[Block]:
    """Returns the confusion matrix of the pre-trained encoder at the largest fraction with predictions, and a table."""
    for at, point in reversed(found.ours.items()):
        counts, title = matrix(point.runs), f"{point.title}, {percent(at)} of the labels"
        if counts is not None:
            names = point.runs[0].get("class_names", [])
            names = names if len(names) == len(counts) else [str(i) for i in range(len(counts))]
            return [_matrix_figure(counts, names, title), _pairs(counts, names)]
    return []


def matrix(runs: Sequence[Run]) -> np.ndarray | None:
    """Returns counts [true class, predicted class] of the test images over all runs; None without predictions."""
    classes = runs[0].get("num_classes", 0)
    known = [found for run in runs if (found := predictions.read(run)) and found.pairs.max() < classes]
    if not known:
        return None
    counts = np.zeros([classes, classes], np.int64)
    np.add.at(counts, tuple(np.concatenate([found.pairs for found in known]).T), 1)
    return counts


def _matrix_figure(counts: np.ndarray, names: Sequence[str], title: str) -> Figure:
    shown = range(len(names) if len(names) <= MOST_NAMED else 0)
    short = plots.shortened(glyphs.drawable(tuple(names), "class")[: len(shown)])

    def draw(canvas: Canvas, theme: plots.Theme) -> None:
        axis = canvas.subplots()
        image = axis.imshow(100 * _shares(counts), vmin=0, vmax=100, cmap=theme.shades)
        axis.set(title=f"{title}, test images", xlabel="prediction", ylabel="class")
        axis.grid(visible=False)
        axis.set_xticks(shown, short, rotation=90, fontsize=7)
        axis.set_yticks(shown, short, fontsize=7)
        canvas.colorbar(image, shrink=0.6, pad=0.02).set_label("% of the class")

    found = zip(*np.nonzero(counts))
    data = [{"class": names[i], "prediction": names[j], "count": int(counts[i, j])} for i, j in found]
    caption = "Confusion matrix of the test images, all runs together; each row sums to 100 %."
    alt = f"Confusion matrix, {title}: {100 * np.trace(counts) / counts.sum():.1f} % on the diagonal."
    return Figure("confusion", caption, plots.png(draw, 6.5, 5.6, 160), alt, data)


def _shares(counts: np.ndarray) -> np.ndarray:
    return counts / np.maximum(counts.sum(1, keepdims=True), 1)


def _pairs(counts: np.ndarray, names: Sequence[str]) -> Table:
    shares = _shares(counts) * (1 - np.eye(len(names)))
    worst = zip(*np.unravel_index(np.argsort(-shares, axis=None, kind="stable")[:PAIRS], counts.shape))
    rows = [Row([names[i], names[j], spread([shares[i, j]]), int(counts[i, j])]) for i, j in worst if shares[i, j]]
    return Table("confused", "What is confused most", ["Class", "Taken for", "Of the class, %", "Images"], rows)
