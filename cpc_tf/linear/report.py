"""What the report shows of linear classification: table 1 and figure 3 of the paper, and the study of augmentations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure as Canvas

from cpc_tf.linear.config import LinearConfig
from cpc_tf.results import paper, plots, presets
from cpc_tf.results.blocks import FEATURES, TRAINING, Block, Figure, Gap, Part, Row, Subject, Table, paper_rows
from cpc_tf.results.methods import Method, architecture, by_method, dataset_name, identity, titles
from cpc_tf.results.runs import Run
from cpc_tf.results.training import classifier_curves, pictures
from cpc_tf.results.values import Spread, accuracy, cell, spread

LINEAR = Subject(20, "linear", "Linear classifiers")
RUNGS = Subject(30, "rungs", "From CPC v1 to CPC v2")
METRICS = ("top1", "top5")


def report(runs: Sequence[Run]) -> list[Part]:
    """What the results on one dataset, of all tasks, show of linear classifiers; gaps where they show nothing."""
    own, dataset = [run for run in runs if run["kind"] == "linear"], runs[0]["dataset"]
    if not own and not any("top1" in run.record for run in runs) and not presets.own_preset(dataset, "linear"):
        return []
    plain = [run for run in own if not run.get("rung") and not run.get("policy")]
    policies = [run for run in own if run.get("policy")]
    methods = by_method(plain)
    names = titles(list(methods))
    shown = [*([_table_1(methods, names, dataset_name(dataset))] if plain else []), *_gaps(methods, dataset)]
    shown += [_policies(policies)] if policies else []
    rungs = {name: [run for run in own if run.get("rung", "").lower() == name.lower()] for name in paper.LADDER}
    rungs = {name: found for name, found in rungs.items() if found}
    shown_of_rungs, said_of_rungs = _ladder(rungs, dataset_name(dataset)) if rungs else ([], [])
    missing = [name for name in paper.LADDER if name not in rungs]
    if missing and (rungs or presets.own_preset(dataset, "linear") == "flags/photos/linear.flags"):
        how = "python -m experiments.ladder, with flags/ablation"
        shown_of_rungs.append(Gap(f"Not measured: {', '.join(missing)} (figure 3).", how))
    neighbours = pictures(
        [run for run in own if identity(run).trained_by not in ("untrained", "pixels")],
        "linear.png",
        "neighbours",
        "Nearest training images in feature space ({}): green frame, same class; red frame, another.",
        "Test images, each beside the training images whose mean latents are nearest to its own, by encoder.",
    )
    curves = classifier_curves("training-linear-1", "linear classifiers", {names[m]: methods[m] for m in methods})
    curves += classifier_curves("training-linear-2", "linear classifiers of the ladder", rungs, ordered=True)
    return [
        Part(LINEAR, shown, _headline(methods, names)),
        Part(RUNGS, shown_of_rungs, said_of_rungs),
        Part(FEATURES, neighbours),
        Part(TRAINING, curves),
    ]


def _headline(methods: Mapping[Method, list[Run]], names: Mapping[Method, str]) -> list[str]:
    mean = {method: spread(run["top1"] for run in own).mean for method, own in methods.items()}
    ours = [method for method in mean if method.pretrained]
    if not ours:
        return []
    best = max(ours, key=mean.get)
    beside = [f"the best of {len(ours)} encoders"] * (len(ours) > 1)
    for baseline in ("untrained", "pixels"):
        of = [method for method in mean if method.trained_by == baseline]
        beside += [f"{of[0].name} {accuracy([max(mean[m] for m in of)])}"] if of else []
    run = methods[best][0]
    preset = presets.own_preset(run["dataset"], "linear")
    labels = run.get("num_train_labels", 0)
    full = presets.settings(LinearConfig, preset).training.steps(labels) if preset and labels else 0
    short = presets.in_short_runs([(run.get("steps", 0), full)])
    start = f"{short}a" if short else "A"
    end = f" ({', '.join(beside)})." if beside else "."
    return [f"{start} linear classifier on frozen {names[best]} features: {accuracy([mean[best]])} top-1{end}"]


def _table_1(methods: Mapping[Method, list[Run]], names: Mapping[Method, str], dataset: str) -> Table:
    rows = [Row([f"Measured on {dataset}"], "group")]
    for method, own in methods.items():
        known = identity(own[0])
        title = " - ".join(
            filter(None, [names[method], "" if method.trained_by == "pixels" else architecture(known.architecture)])
        )
        millions = known.parameters / 1e6 if known.parameters else None
        rows.append(Row([title, millions, *(spread(run[metric] for run in own) for metric in METRICS)]))
    classes = next(iter(methods.values()))[0]["num_classes"]
    rows.append(Row(["chance", None, spread([1 / classes]), spread([min(5, classes) / classes])], "chance"))
    note = (
        "Percent; a linear classifier on the frozen encoder, with all labels. Parameters: of the encoder alone, in "
        "millions. After ±, half the range of several runs."
    )
    columns = ["Method", "Params (M)", "Top-1", "Top-5"]
    title = "Linear classification (table 1 of the paper)"
    return Table("table1", title, columns, rows + paper_rows(paper.TABLE_1, " (paper, ImageNet)"), note)


def _gaps(methods: Mapping[Method, list[Run]], dataset: str) -> list[Block]:
    known = {"ours" if method.pretrained else method.trained_by for method in methods}
    if "ours" not in known:
        return [Gap("Not measured: a linear classifier on CPC features (table 1).", presets.how(dataset, "linear"))]
    baselines = {"untrained": "the encoder's untrained copy", "pixels": "raw pixels"}
    missing = [name for kind, name in baselines.items() if kind not in known]
    how = presets.how(dataset, "linear", flag="--baselines")
    return [Gap(f"Not measured: a linear classifier on {name}.", how) for name in missing]


def _policies(runs: Sequence[Run]) -> Table:
    """What pre-training with each policy of augmentation gave: records with a `policy`."""
    rows = []
    for name in {run["policy"] for run in runs}:
        own = [run for run in runs if run["policy"] == name]
        rows.append(Row([name, *(spread(run[metric] for run in own) for metric in METRICS), len(own)]))
    rows.sort(key=lambda row: (-row.values[1].mean, row.values[0]))
    note = "Percent; linear classifier after pre-training of equal length with each policy."
    return Table("policies", "What each patch augmentation is worth", ["Policy", "Top-1", "Top-5", "Runs"], rows, note)


def _ladder(rungs: Mapping[str, list[Run]], dataset: str) -> tuple[list[Block], list[str]]:
    """Figure 3, its table and what to say of it."""
    top1 = {rung: spread(run["top1"] for run in own) for rung, own in rungs.items()}
    rows, before = [], None
    for rung, (title, change) in paper.LADDER.items():
        here = top1.get(rung)
        ours = f"{100 * (here.mean - before.mean):+.1f}".replace("-", "\N{MINUS SIGN}") if here and before else None
        rows.append(Row([rung, title, here, ours, change or None]))
        before = here
    note = (
        "Percent and percentage points. The paper's changes are those its section 4.1 names; figure 3's own values "
        "are not printed in the text, and are of a custom validation set of ImageNet."
    )
    columns = ["Rung", "Adds", "Top-1", "Change", "Paper: change"]
    table = Table("ladder-table", "What each rung adds", columns, rows, note, words=(1,))
    said = []
    if {"v1", "PA"} <= set(top1):
        low, high = (accuracy([top1[rung].mean]) for rung in ("v1", "PA"))
        said = [f"From CPC v1 to the whole of v2 the linear classifier goes from {low} to {high}."]
    return [_ladder_figure(rungs, top1, dataset), table], said


def _ladder_figure(rungs: Mapping[str, list[Run]], top1: Mapping[str, Spread], dataset: str) -> Figure:
    floor = max(0, 10 * (min(100 * here.low for here in top1.values()) // 10 - 1))

    def draw(canvas: Canvas, theme: plots.Theme) -> None:
        axis = canvas.subplots()
        for x, rung in enumerate(paper.LADDER):
            if rung not in top1:
                axis.text(x, floor, "not\nmeasured", ha="center", va="bottom", fontsize=8.5, color=theme.muted)
                continue
            mean, seeds = 100 * top1[rung].mean, [100 * run["top1"] for run in rungs[rung]]
            axis.bar(x, mean - floor, 0.68, bottom=floor, color=theme.color(x / (len(paper.LADDER) - 1)))
            if len(seeds) > 1:
                axis.plot([x] * len(seeds), seeds, "o-", color=theme.ink, markersize=3.5, linewidth=1.2)
            above = {"textcoords": "offset points", "ha": "center", "fontweight": "bold"}
            axis.annotate(f"{mean:.1f}", (x, max(seeds)), (0, 4), **above)
        axis.set_xlim(-0.6, len(paper.LADDER) - 0.4)
        axis.set_ylim(floor, None)
        axis.margins(y=0.12)
        adds = [f"+{rung}\n{chr(10).join(title.rsplit(' ', 1))}" for rung, (title, _) in paper.LADDER.items()]
        axis.set_xticks(range(len(adds)), ["CPC v1", *adds[1:]], fontsize=9)
        axis.tick_params(axis="x", length=0)
        axis.grid(visible=False, axis="x")
        axis.set_title("Linear top-1 accuracy, %")

    several = any(len(own) > 1 for own in rungs.values())
    title = "The ladder (figure 3 of the paper): each rung adds one change to the one before."
    title += " Bars are means, dots the runs." if several else ""
    title += f" The axis begins at {floor:.0f} %." if floor else ""
    alt = "; ".join(f"{rung} {cell(here).text} %" for rung, here in top1.items())
    shown = ("rung", "encoder", "seed", "top1", "top5")
    data = [{name: run.get(name) for name in shown} for own in rungs.values() for run in own]
    drawn = {"": plots.both(draw, 10, 4)}
    return Figure("ladder", title, drawn, f"Linear top-1 accuracy on {dataset} of the rungs: {alt}.", data)
