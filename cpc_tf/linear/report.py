"""What the report shows of linear classification: table 1 and figure 3 of the paper, and the study of augmentations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cpc_tf.linear.config import LinearConfig
from cpc_tf.results import paper, plots, presets
from cpc_tf.results.blocks import FEATURES, TRAINING, Block, Figure, Gap, Part, Row, Spread, Table, paper_rows, spread
from cpc_tf.results.datasets import dataset_id, dataset_name
from cpc_tf.results.methods import Method, apart, identity, methods
from cpc_tf.results.runs import Run
from cpc_tf.results.training import classifier_curves, pictures

METRICS = ("top1", "top5")
NEIGHBOURS = "Nearest training images in feature space ({}): green frame, same class; red frame, another."
NEIGHBOURS_ALT = "Test images, each beside the training images whose mean latents are nearest to its own, by encoder."
BASELINES = {"untrained": "the encoder's untrained copy", "pixels": "raw pixels"}


def report(runs: Sequence[Run], dataset: str) -> list[Part]:
    """What the results on a dataset show of linear classifiers; gaps where they show nothing and a preset would."""
    found = methods(run for run in runs if not run.get("rung") and not run.get("policy"))
    rungs = {name: [run for run in runs if run.get("rung", "").lower() == name.lower()] for name in paper.LADDER}
    rungs = {name: own for name, own in rungs.items() if own}
    name = runs[0].dataset_title if runs else dataset_name(dataset)
    shown = [*([_table_1(found, name)] if found else []), *_gaps(found, dataset), *_policies(runs)]
    seen = [run for method in found if method.trained_by not in BASELINES for run in method.runs]
    neighbours = pictures(seen, "linear.png", "neighbours", NEIGHBOURS, NEIGHBOURS_ALT)
    curves = classifier_curves("training-linear-1", "linear classifiers", {m.title: m.runs for m in found})
    curves += classifier_curves("training-linear-2", "linear classifiers of the ladder", rungs, ordered=True)
    return [
        Part(20, "linear", "Linear classifiers", shown, _headline(found)),
        _ladder(rungs, dataset),
        Part(61, *FEATURES, neighbours),
        Part(71, *TRAINING, curves),
    ]


def _headline(found: Sequence[Method]) -> list[str]:
    found = sorted(found, key=lambda method: -method.spread("top1").mean)
    ours = [method for method in found if method.pretrained]
    if not ours:
        return []
    encoders = {frozenset(run["encoder"] for run in method.runs) for method in ours}  # of other settings the same
    beside = [f"the best of {len(encoders)} encoders"] * (len(encoders) > 1)
    for baseline in BASELINES:
        beside += [f"{m.title} {m.spread('top1')} %" for m in found if m.trained_by == baseline][:1]
    run, end = ours[0].runs[0], f" ({', '.join(beside)})." if beside else "."
    preset = presets.own_preset(run["dataset"], "linear")
    short = presets.shorter(LinearConfig, preset, run.get("steps", 0), run.get("num_train_labels", 0))
    sentence = f"A linear classifier on frozen {ours[0].title} features: {ours[0].spread('top1')} % top-1{end}"
    return [presets.in_short_runs([short], sentence)]


def _table_1(found: Sequence[Method], dataset: str) -> Table:
    rows, group = [], f"Measured on {dataset}"
    for method in found:
        parameters = identity(method.runs[0]).parameters
        title = " - ".join([method.title, *([method.architecture] if parameters and method.architecture else [])])
        rows.append(Row([title, parameters and parameters / 1e6, *map(method.spread, METRICS)], group=group))
    classes = found[0].runs[0]["num_classes"]
    rows.append(Row(["chance", None, *(spread([min(k, classes) / classes]) for k in (1, 5))], "aside", group))
    note = "Percent; a linear classifier on the frozen encoder. After ±, half the range of several runs."
    columns = ["Method", "Params (M)", "Top-1", "Top-5"]
    rows += paper_rows(paper.TABLE_1, " (paper, ImageNet)")
    return Table("table1", "Linear classification (table 1 of the paper)", columns, rows, note)


def _gaps(found: Sequence[Method], dataset: str) -> list[Gap]:
    known, preset = {method.trained_by for method in found}, presets.own_preset(dataset, "linear")
    if not any(method.pretrained for method in found):
        return [presets.gap("a linear classifier on CPC features (table 1)", preset, dataset)] if preset else []
    missing = [f"a linear classifier on {what}" for kind, what in BASELINES.items() if kind not in known]
    return [presets.gap(what, preset, dataset, "--baselines") for what in missing]


def _policies(runs: Sequence[Run]) -> list[Table]:
    """What pre-training with each policy of augmentation gave: records with a `policy`."""
    rows = []
    for name in {run["policy"]: None for run in runs if run.get("policy")}:
        for settings, own in apart([run for run in runs if run.get("policy") == name]).items():
            title = f"{name} ({settings})" if settings else name
            rows.append(Row([title, *(spread(run[metric] for run in own) for metric in METRICS), len(own)]))
    rows.sort(key=lambda row: (-row.values[1].mean, row.values[0]))
    title = "What each patch augmentation is worth to a linear classifier, %"
    return [Table("policies", title, ["Policy", "Top-1", "Top-5", "Runs"], rows)] if rows else []


def _ladder(rungs: Mapping[str, Sequence[Run]], dataset: str) -> Part:
    """Figure 3, its table, its sentence, and what is missing, on photos also if that is all."""
    groups = {rung: apart(own) for rung, own in rungs.items()}
    usual = {rung: "" if "" in own else max(own, key=lambda said: len(own[said])) for rung, own in groups.items()}
    top1 = {rung: spread(run["top1"] for run in own[usual[rung]]) for rung, own in groups.items()}
    others = [f"{rung} ({said})" for rung, own in groups.items() for said in own if said != usual[rung]]
    rows, before = [], None
    for rung, (title, change) in paper.LADDER.items():
        here = top1.get(rung)
        ours = f"{100 * (here.mean - before.mean):+.1f}".replace("-", "\N{MINUS SIGN}") if here and before else None
        rows.append(Row([rung, title, here, ours, change or None]))
        before = here
    note = "Percent and percentage points. The paper's changes are those of its section 4.1; figure 3 prints no values."
    columns = ["Rung", "Adds", "Top-1", "Change", "Paper: change"]
    table = Table("ladder-table", "What each rung adds", columns, rows, note)
    blocks: list[Block] = [_ladder_figure(top1), table] if rungs else []
    if others:
        blocks.append(Gap(f"Runs of other settings, left out of the means: {'; '.join(others)}."))
    missing = [rung for rung in paper.LADDER if rung not in rungs]
    if missing and (rungs or dataset_id(dataset) == "photos"):
        how = "python -m experiments.ladder" if presets.installed() else ""
        blocks.append(Gap(f"Not measured: {', '.join(missing)} (figure 3).", how))
    sentence = "From CPC v1 to the whole of v2 the linear classifier goes from {v1} % to {PA} %."
    sentences = [sentence.format(**top1)] if {"v1", "PA"} <= {*top1} else []
    return Part(30, "rungs", "From CPC v1 to CPC v2", blocks, sentences)


def _ladder_figure(top1: Mapping[str, Spread]) -> Figure:
    points, ticks = [], []
    for index, (rung, (adds, _)) in enumerate(paper.LADDER.items()):
        ticks.append("\n".join([rung, *adds.rsplit(" ", 1), *["(not measured)"] * (rung not in top1)]))
        points += [(index, *(100 * x for x in top1[rung][:3]))] if rung in top1 else []

    panels = {"Linear top-1 accuracy, %": [plots.Line("mean", points, "cpc")]}
    title = "The ladder (figure 3 of the paper): each rung adds one change. Bands go from the worst to the best run."
    alt = "; ".join(f"{rung} {here} %" for rung, here in top1.items())
    curves = plots.Curves(panels, 1, {}, dict(enumerate(ticks)))
    return curves.figure("ladder", title, 10, 4)._replace(alt=f"Linear top-1 accuracy: {alt}.")
