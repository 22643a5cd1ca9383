"""Few labels in the report: accuracy against labels, what a gain over pixels is worth, phases,
search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from cpc_tf.drawing import plots
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.report.blocks import (
    TRAINING,
    Block,
    FigureBlock,
    Finding,
    Gain,
    Panels,
    Part,
    Spread,
    TableBlock,
    classifier_curves,
    folded_alone,
    notes,
    percent,
    spread,
)
from cpc_tf.report.linear import divided, multi_label
from cpc_tf.report.methods import NO_STACK, ComparedMethod, Stack, first_steps, methods
from cpc_tf.report.runs import Run, is_number, own_preset, remarks, shorter

NEEDS = ("num_train_labels", "label_fraction", "top1")
METRICS = {"top1": "Right (top-1)", "top5": "Among its first five (top-5)"}
UNKNOWN_LENGTH = "whether longer training would be better on these images is not known"
PHASES = {"frozen": " (fixed)", "fine-tuned": " (fine-tuned)", "supervised": ""}
TRIED = {
    **{
        "Network": "backbone",
        "Weight decay": "weight_decay",
        "Dropout": "dropout",
        "Batch": "batch_size",
    },
    "Steps": "steps",
}
COMPARED = "Shorter runs and runs of other settings have their own rows."
GAIN = (
    "Gain: how many times as many labels a classifier on pixels needs to be right as often,"
    " interpolated in their logarithm; only for runs that are known to be as long as the"
    " preset's."
)
SEARCHED = (
    "Chosen on labels held out of the training set. 0 steps: the classifier was better"
    " without fine-tuning. Drop: the steps after which the rate dropped to a tenth, at a"
    " plateau. All trials: report.json."
)

Curve = dict[float, ComparedMethod]
"""A method's runs at each fraction of the labels, in increasing order."""


def interpolated(
    baseline: Sequence[tuple[float, float]], labels: float, accuracy: float
) -> Gain | None:
    """Returns how many times as many labels a baseline of (labels, accuracy) needs for an accuracy.

    Between its points, accuracy is linear in the logarithm of the labels. The bound is 'more than'
    if the baseline never reaches the accuracy, 'less than' if its first point already does. None
    without a baseline.
    """
    points = sorted(baseline)
    if not points:
        return None
    if points[0][1] >= accuracy:
        return Gain(points[0][0] / labels, "" if points[0][1] == accuracy else "less than")
    for (x0, y0), (x1, y1) in zip(points, points[1:]):
        if y1 >= accuracy:
            return Gain(x0 * (x1 / x0) ** ((accuracy - y0) / (y1 - y0)) / labels)
    return Gain(points[-1][0] / labels, "more than")


class Curves(NamedTuple):
    """The curves of all methods on a dataset, and the two that are compared; {} if there is
    none.
    """

    all: Sequence[Curve]
    ours: Curve
    pixels: Curve

    def gain(self, at: float, metric: str) -> Gain | None:
        """Returns the gain of the pre-trained encoder over pixels, if the runs of both are known to
        be long enough.
        """
        ours = self.ours[at]
        judged = [point for point in self.pixels.values() if not doubt(point)]
        baseline = [(point.labels, point.spread(metric).mean) for point in judged]
        return (
            None if doubt(ours) else interpolated(baseline, ours.labels, ours.spread(metric).mean)
        )

    @property
    def metrics(self) -> dict[str, str]:
        """Those of METRICS that all runs have: of few classes there is no top-5."""
        runs = [run for curve in self.all for point in curve.values() for run in point.runs]
        return {
            metric: title for metric, title in METRICS.items() if all(metric in run for run in runs)
        }


def label_curves(runs: Sequence[Run]) -> Curves:
    """Returns the curves of one dataset; the methods with the most fractions are compared."""
    curves = [method.by(lambda run: run.fraction) for method in methods(runs)]
    # from labels alone, as in the paper
    alone = [curve for curve in curves if not method_of(curve).propagation]
    ours = [curve for curve in alone if method_of(curve).pretrained]
    pixels = [curve for curve in alone if method_of(curve).trained_by == "pixels"]
    return Curves(curves, max(ours, key=len, default={}), max(pixels, key=len, default={}))


def method_of(curve: Curve) -> ComparedMethod:
    """Returns the method of a curve, with the runs of its first point."""
    return next(iter(curve.values()))


def doubt(point: ComparedMethod) -> str:
    """Returns why the runs at a fraction may be too short to claim a gain, or ''. Without a preset
    nothing tells.
    """
    run = point.runs[0]
    names = ["efficient_pixels"] * (point.trained_by == "pixels")
    if any(
        trial.get("chosen") is True and trial.get("converged") is True
        for trial in run.get("search", [])
    ):
        return ""
    preset = own_preset(run["dataset"], *names, "efficient")
    steps = first_steps(run)
    if short := shorter(EfficientConfig, preset, steps, point.labels):
        return short
    if not preset:
        return UNKNOWN_LENGTH
    return "" if steps else "unknown number of steps"


def report(runs: Sequence[Run], dataset: str) -> list[Part]:
    """Returns the parts of the page about the classifiers with few labels on a dataset."""
    runs, multi = divided(runs)
    multi_parts = multi_label("efficient", "classifier", multi)
    if not runs:
        return multi_parts
    curves = label_curves(runs)
    title = (
        "Few labels"
        if any(run.fraction < 1 for run in runs)
        else "Classifiers trained on all labels"
    )
    training: list[Block] = []
    for index, curve in enumerate(curves.all, 1):
        groups = {percent(f): point.runs for f, point in curve.items()}
        title_of = f"classifiers: {method_of(curve).title}"
        training += classifier_curves(f"training-efficient-{index}", title_of, groups, ordered=True)
    blocks = [
        *figure_1(curves),
        accuracies(curves),
        *phases(curves),
        *search(runs),
    ]
    return [
        Part(10, "labels", title, blocks, findings(curves)),
        Part(72, *TRAINING, training),
        *multi_parts,
    ]


def findings(curves: Curves) -> list[Finding]:
    """Returns the accuracies with the fewest and the most labels; a gain is claimed only of runs of
    the full length.
    """
    common = sorted(curves.ours.keys() & curves.pixels.keys())
    compared: list[Finding] = []
    for at in dict.fromkeys((*common[:1], *common[-1:])):
        both = [curves.ours[at], curves.pixels[at]]
        gain, (ours, pixels) = curves.gain(at, "top1"), (point.spread("top1") for point in both)
        remark = ""
        if ours.mean <= pixels.mean:
            remark = "pixels are not behind"
        elif any(map(doubt, both)):
            remark = "" if compared else "no gain is claimed"
        # else pixels have no more
        elif at == common[0] and gain and not (gain.bound and gain.factor < 1.05):
            remark = f"pixels need {gain} times as many labels"
        compared.append(_finding(both, at, remark))
    alone = curves.ours or curves.pixels
    if alone and not compared:
        at, point = next(iter(alone.items()))
        return [_finding([point], at, "")]
    return compared


def _finding(points: Sequence[ComparedMethod], at: float, remark: str) -> Finding:
    values = {point.title: str(point.spread("top1")) for point in points}
    doubts = [
        reason for reason in map(doubt, points) if len(points) > 1 or reason != UNKNOWN_LENGTH
    ]
    return Finding(
        f"{points[0].labels:,} labels ({percent(at)}), top-1", values, remarks(*doubts, remark)
    )


def against_labels(
    panels: Mapping[str, Sequence[plots.Line]], labels: Mapping[int, float]
) -> Panels:
    """Returns panels of accuracy in percent over labels; `labels`: their number -> which part of
    all they are.
    """
    ticks = {count: f"{count:,}\n{percent(part)}" for count, part in labels.items()}
    limits = min(labels) / 1.3, max(labels) * 1.3
    axes = {"xlabel": "labels (part of all)", "xscale": "log", "xlim": limits}
    return Panels(panels, axes, ticks, most=dict.fromkeys(panels, 100))


def figure_1(curves: Curves) -> list[FigureBlock]:
    """Returns figure 1 of the paper with our runs; none if no method was measured with several
    numbers of labels.
    """
    panels: dict[str, list[plots.Line]] = {}
    for metric, name in curves.metrics.items():
        lines = panels[f"{name}, % of new images"] = []
        for curve in curves.all:
            points = [
                (point.labels, *(100 * x for x in point.spread(metric)[:3]))
                for point in curve.values()
            ]
            style = "-" if curve in (curves.ours, curves.pixels) else "--"
            method = method_of(curve)
            lines.append(plots.Line(method.title, points, method.trained_by, style))
    labels = {point.labels: f for curve in curves.all for f, point in curve.items()}
    title = "Right by number of labels (figure 1 of the paper)."
    if any(len(point.runs) > 1 for curve in curves.all for point in curve.values()):
        title += " Bands go from the worst to the best run."
    return against_labels(panels, labels).figure("figure1", title, 4.6, 3.5)


def accuracies(curves: Curves) -> TableBlock:
    """Returns the accuracies of all methods with each number of labels, and the gains."""
    labels = {f: point.labels for curve in curves.all for f, point in curve.items()}
    rows = [_over_fractions("Number of labels", labels, source="aside")]
    for metric, title in curves.metrics.items():
        group = f"{title}, % of new images"
        for curve in curves.all[::-1]:
            method = method_of(curve)
            values = {f: point.spread(metric) for f, point in curve.items()}
            name = method.title if method.propagation else f"trained on {method.title} features"
            if method.trained_by == "pixels":
                name = f"{method.network or 'classifier'} trained on {method.title}"
            rows.append(_over_fractions(name, values, method.stack, group=group))
        gains = {f: curves.gain(f, metric) for f in curves.ours}
        if any(gains.values()):
            rows.append(_over_fractions("Gain", gains, source="gain", group=group))
    both = curves.ours and curves.pixels
    title = (
        f"{method_of(curves.ours).title} against pixels" if both else "Right by number of labels"
    )
    sentences = [notes(rows)]
    if both:
        sentences.append(COMPARED)
    if any(row.get("source") == "gain" for row in rows):
        sentences.append(GAIN)
    note = " ".join(filter(None, sentences))
    results = TableBlock("table2", title, _ordered(rows), note)
    return folded_alone(results, sum(map(len, curves.all)))


def phases(curves: Curves) -> list[Block]:
    """Returns a table of the phases of our runs, if some have two or learn from images without
    labels, too.
    """
    runs = [run for curve in curves.all for point in curve.values() for run in point.runs]
    if not any(len(run.get("phases", {})) > 1 or run.get("propagation") for run in runs):
        return []
    rows = []
    for metric, title in METRICS.items():
        for curve in curves.all[::-1]:
            method = method_of(curve)
            for phase, name in PHASES.items():
                if phase == "frozen" and method.propagation not in ("", "self_training"):
                    continue  # learns from labels alone
                values = {f: _of_phase(point, phase, metric) for f, point in curve.items()}
                if any(values.values()):
                    group = f"{title}, % of new images"
                    rows.append(_over_fractions(method.title + name, values, group=group))
    if not rows:
        return []
    note = "Fixed: the classifier alone is trained. Fine-tuned: then all of it."
    note = f"{note} {notes(rows)}".rstrip()
    title = "Fixed and fine-tuned"
    return [TableBlock("table3", title, _ordered(rows), note, fold=title)]


def _of_phase(point: ComparedMethod, phase: str, metric: str) -> Spread | None:
    """Returns the spread of a metric at the end of a phase."""
    stated = [run.get("phases", {}).get(phase, {}).get(metric) for run in point.runs]
    sound = [share for share in stated if is_number(share) and 0 <= share <= 1]
    return spread(sound, point.spread("top1").tested, point.over)


def _over_fractions(
    name: str, values: Mapping[float, Any], stack: Stack = NO_STACK, **about: str
) -> dict[Any, Any]:
    """Returns a row with a value for each fraction of the labels, and the networks and their
    size.
    """
    network, millions = stack
    return {"Labels": name, **values, "Network": network, "Weights, millions": millions, **about}


def _ordered(rows: Sequence[dict[Any, Any]]) -> list[dict[str, Any]]:
    """Returns rows of `_over_fractions` whose columns are in increasing order of the fractions,
    with their titles.
    """
    fractions = sorted({name for row in rows for name in row if isinstance(name, float)})
    ordered = []
    for row in rows:
        values = {percent(fraction): row.get(fraction) for fraction in fractions}
        others = {name: value for name, value in row.items() if not isinstance(name, float)}
        ordered.append({"Labels": row["Labels"], **values, **others})
    return ordered


def search(runs: Sequence[Run]) -> list[Block]:
    """Returns a table of the chosen settings; report.json has all trials."""
    rows = []
    for title, run in [
        (m.title, run)
        for m in methods(runs)
        for run in sorted(m.runs, key=lambda run: run.fraction)
    ]:
        tried = run.get("search", [])
        calibration = run.get("calibration")
        held_out = calibration.get("held_out") if isinstance(calibration, dict) else 0
        held_out = held_out if isinstance(held_out, int) else 0
        name = f"{title}, {percent(run.fraction)}, seed {run.get('seed', 0)}"
        for trial in (trial for trial in tried if trial.get("chosen") is True):
            right = trial.get("held_out_top1")
            drops = trial.get("drop_steps", [trial["drop_step"]] if "drop_step" in trial else [])
            drops = ", ".join(map(str, drops)) if isinstance(drops, list) else ""
            rows.append(
                {
                    "Run": name,
                    "Phase": trial.get("phase"),
                    "Rate": trial.get("learning_rate", trial.get("encoder_rate")),
                    **{column: trial.get(key) for column, key in TRIED.items()},
                    "Drop": drops or None,
                    "Held-out top-1, %": spread([right], held_out) if is_number(right) else None,
                    "Tried": sum(other.get("phase") == trial.get("phase") for other in tried),
                }
            )
    fold = "The settings that the held-out labels chose"
    return [TableBlock("search", "Chosen settings", rows, SEARCHED, fold=fold)] if rows else []
