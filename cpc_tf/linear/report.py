"""Linear classification in the report: table 1 and figure 3 of the paper, and the study of augmentations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cpc_tf.linear.config import LinearConfig
from cpc_tf.results import paper, plots, presets
from cpc_tf.results.blocks import FEATURES, TRAINING, Block, Finding, Part, Row, Table, paper_rows, spread
from cpc_tf.results.methods import Method, apart, identity, methods
from cpc_tf.results.runs import Run
from cpc_tf.results.training import classifier_curves, pictures

METRICS = ("top1", "top5")
NEIGHBOURS = "Nearest training images in feature space ({}): green frame, same class; red frame, another."
NEIGHBOURS_ALT = "Test images, each beside the training images whose mean latents are nearest to its own, by encoder."
BASELINES = ("untrained", "pixels")


def report(runs: Sequence[Run], dataset: str) -> list[Part]:
    """Returns the parts of the page about the linear classifiers on a dataset."""
    found = methods(run for run in runs if not run.get("rung") and not run.get("policy"))
    rungs = {name: [run for run in runs if run.get("rung", "").lower() == name.lower()] for name in paper.LADDER}
    rungs = {name: own for name, own in rungs.items() if own}
    tables = [*([_table_1(found, runs[0].dataset_title)] if found else []), *_policies(runs)]
    ours = [run for method in found if method.trained_by not in BASELINES for run in method.runs]
    neighbours = pictures(ours, "linear.png", "neighbours", NEIGHBOURS, NEIGHBOURS_ALT)
    curves = classifier_curves("training-linear-1", "linear classifiers", {m.title: m.runs for m in found})
    curves += classifier_curves("training-linear-2", "linear classifiers of the ladder", rungs, ordered=True)
    return [
        Part(20, "linear", "Linear classifiers", tables, _findings(found)),
        Part(30, "rungs", "From CPC v1 to CPC v2", _ladder(rungs) if rungs else []),
        Part(61, *FEATURES, neighbours),
        Part(71, *TRAINING, curves),
    ]


def _findings(found: Sequence[Method]) -> list[Finding]:
    """The best pre-trained encoder, and the best of each baseline."""
    found = sorted(found, key=lambda method: -method.spread("top1").mean)
    ours = [method for method in found if method.pretrained]
    if not ours:
        return []
    baselines = [next((m for m in found if m.trained_by == kind), None) for kind in BASELINES]
    values = {method.title: str(method.spread("top1")) for method in (ours[0], *filter(None, baselines))}
    encoders = {frozenset(run["encoder"] for run in method.runs) for method in ours}  # of other settings the same
    best = f"the best of {len(encoders)} encoders" if len(encoders) > 1 else ""
    run = ours[0].runs[0]
    preset = presets.own_preset(run["dataset"], "linear")
    short = presets.shorter(LinearConfig, preset, run.get("steps", 0), run.get("num_train_labels", 0))
    return [Finding("linear classifier, top-1", values, presets.remark([short], best))]


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


def _policies(runs: Sequence[Run]) -> list[Table]:
    """A table of the records that state a `policy` of augmentation."""
    rows = []
    for name in {run["policy"]: None for run in runs if run.get("policy")}:
        for settings, own in apart([run for run in runs if run.get("policy") == name]).items():
            title = f"{name} ({settings})" if settings else name
            rows.append(Row([title, *(spread(run[metric] for run in own) for metric in METRICS), len(own)]))
    rows.sort(key=lambda row: (-row.values[1].mean, row.values[0]))
    title = "What each patch augmentation is worth to a linear classifier, %"
    return [Table("policies", title, ["Policy", "Top-1", "Top-5", "Runs"], rows)] if rows else []


def _ladder(rungs: Mapping[str, Sequence[Run]]) -> list[Block]:
    """Figure 3 and its table; of each rung, the runs of the usual settings."""
    groups = {rung: apart(own) for rung, own in rungs.items()}
    usual = {rung: "" if "" in own else max(own, key=lambda said: len(own[said])) for rung, own in groups.items()}
    top1 = {rung: spread(run["top1"] for run in own[usual[rung]]) for rung, own in groups.items()}
    rows, points, before = [], [], None
    for index, (rung, (adds, change)) in enumerate(paper.LADDER.items()):
        here = top1.get(rung)
        ours = f"{100 * (here.mean - before.mean):+.1f}".replace("-", "\N{MINUS SIGN}") if here and before else None
        rows.append(Row([rung, adds, here, ours, change or None]))
        points += [(index, *(100 * x for x in here[:3]))] if here else []
        before = here
    note = "Percent and percentage points. The paper's changes are those of its section 4.1; figure 3 prints no values."
    if others := [f"{rung} ({said})" for rung, own in groups.items() for said in own if said != usual[rung]]:
        note += f" Runs of other settings are left out of the means: {'; '.join(others)}."
    table = Table(
        "ladder-table", "What each rung adds", ["Rung", "Adds", "Top-1", "Change", "Paper: change"], rows, note
    )
    ticks = ["\n".join([rung, *adds.rsplit(" ", 1)]) for rung, (adds, _) in paper.LADDER.items()]
    panels = {"Linear top-1 accuracy on test images, %": [plots.Line("mean", points, "cpc")]}
    title = "The ladder (figure 3 of the paper): each rung adds one change. Bands go from the worst to the best run."
    alt = "; ".join(f"{rung} {here} %" for rung, here in top1.items())
    figure = plots.Curves(panels, 1, {}, dict(enumerate(ticks))).figure("ladder", title, 10, 4)
    return [figure._replace(alt=f"Linear top-1 accuracy: {alt}."), table]
