"""Linear classifiers in the report, and multi-label classifiers of any kind."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from typing import Any

from cpc_tf.drawing.plots import Line
from cpc_tf.evaluation.label_kinds import is_multi_label
from cpc_tf.linear.config import BY_CHANNEL, LinearConfig
from cpc_tf.report.blocks import (
    ALIKE,
    ON_TEST_IMAGES,
    TRAINING,
    Block,
    Finding,
    Panels,
    Part,
    TableBlock,
    classifier_curves,
    folded_alone,
    notes,
    pictures,
    spread,
)
from cpc_tf.report.methods import BASELINES, ComparedMethod, methods
from cpc_tf.report.runs import Run, own_preset, remarks, shorter

NEEDS = ("num_classes", "top1")
IN_COLOUR = "top1_in_colour"
IN_COLOUR_NOTE = (
    "An encoder that saw one channel at a time is tested in the same way. Beside that is the"
    " test on images in colour, which neither it nor its classifier saw."
)
SHARES = {"top1": "Right (top-1), %", "top5": "Among its first five (top-5), %"}
MILLIONS = "Weights, millions"
NEIGHBOURS = (
    "Nearest training images in feature space ({}): green frame, same class; red frame, another."
)
NEIGHBOURS_ALT = (
    "Test images, each beside the training images whose mean latents are nearest to its own, by"
    " encoder."
)
SEVERAL_METRICS = {"map": "mAP, %", "micro_f1": "Micro-F1, %", "map_chance": "Chance, %"}
SEVERAL_NOTE = (
    "mAP: mean over the classes of the average precision. Micro-F1: of all pairs of image "
    "and class, at a probability of 0.5. Chance: the mAP that a random order is expected to have."
)


def report(runs: Sequence[Run], dataset: str) -> list[Part]:
    """Returns the parts of the page about the linear classifiers on a dataset."""
    runs, multi = divided(runs)
    rungs = [run for run in runs if run.rung]
    # studies have own pages
    compared = methods(run for run in runs if not (run.rung or run.get("policy")))
    ours = [
        run
        for method in compared
        if method.trained_by not in ("untrained", "pixels")
        for run in method.runs
    ]
    curves = classifier_curves(
        "training-linear", "linear classifiers", {m.title: m.runs for m in compared}
    )
    return [
        Part(
            20,
            "linear",
            "Linear classifiers",
            [folded_alone(_table(compared), len(compared))] if compared else [],
            _findings(compared),
        ),
        Part(21, "ladder", "Step by step", ladder(rungs)),
        Part(62, *ALIKE, pictures(ours, "linear.png", "neighbours", NEIGHBOURS, NEIGHBOURS_ALT)),
        Part(71, *TRAINING, curves),
        *multi_label("linear", "linear classifier", multi),
    ]


def _scores(method: ComparedMethod) -> dict[str, Any]:
    """Returns the cells of a method with its accuracies, and the size of its encoder."""
    parameters = method.runs[0].identity.parameters
    scores = {title: method.spread(name) for name, title in SHARES.items()}
    scores["Top-1 in colour, %"] = method.spread(IN_COLOUR)
    return {**scores, MILLIONS: parameters and parameters / 1e6}


def _table(compared: Sequence[ComparedMethod]) -> TableBlock:
    first = compared[0].runs[0]
    rows = []
    for method in compared:
        is_told = not method.runs[0].identity.parameters or method.architecture in method.title
        title = method.title if is_told else f"{method.title} - {method.architecture}"
        rows.append({"Method": title, **_scores(method)})
    about = "A linear classifier on the features of a frozen encoder."
    note = f"{about} {notes(rows)}".rstrip()
    chance = {"Method": "chance", "source": "aside"}
    for metric, answers in {"top1": 1, "top5": 5}.items():
        if metric in first:
            chance[SHARES[metric]] = spread([answers / first["num_classes"]])
    return TableBlock("table1", "Linear classification", [*rows, chance], note)


def ladder(runs: Sequence[Run]) -> list[Block]:
    """Returns figure 3 of the paper with our runs: a table of the rungs in order, and an image of
    several.
    """
    runs = [_as_seen(run) for run in runs]
    order = sorted(
        {run.rung for run in runs}, key=lambda rung: (int(re.match(r"\d*", rung)[0] or 0), rung)
    )
    steps = [
        (rung, method)
        for rung in order
        for method in methods(run for run in runs if run.rung == rung)
    ]
    if not steps:
        return []
    rows = []
    for rung, method in steps:
        about = {"Rung": rung, "Method": method.title, "Network": method.architecture}
        rows.append({**about, **_scores(method)})
    about = "Linear classifiers on encoders that each differ in one setting from the one above."
    about += f" {IN_COLOUR_NOTE}" if any(IN_COLOUR in run for run in runs) else ""
    note = f"{about} {notes(rows)}".rstrip()
    first = {rung: method for rung, method in reversed(steps)}
    points = [
        (at, *(100 * x for x in first[rung].spread("top1")[:3])) for at, rung in enumerate(order)
    ]
    panels = {"Right (top-1), % of new images": [Line("linear classifier", points, "cpc")]}
    drawn = Panels(
        panels, {"xlabel": "rung"}, dict(enumerate(order)), most=dict.fromkeys(panels, 100)
    )
    figure = drawn.figure("figure3", "From rung to rung (figure 3 of the paper).", 5.2, 3.0)
    return [*figure, TableBlock("rungs", "Step by step", rows, note)]


def _as_seen(run: Run) -> Run:
    """Returns a rung's run with the scores on what its encoder saw: one channel at a time, if it
    saw no colours.
    """
    if BY_CHANNEL not in run:
        return run
    seen = copy.copy(run)
    seen.update({name: run[BY_CHANNEL][name] for name in SHARES if name in run[BY_CHANNEL]})
    seen[IN_COLOUR] = run["top1"]
    return seen


def _findings(compared: Sequence[ComparedMethod]) -> list[Finding]:
    """Returns the best pre-trained encoder beside the best of each baseline."""
    ranked = sorted(compared, key=lambda method: -method.spread("top1").mean)
    ours = [method for method in ranked if method.pretrained]
    if not ours:
        return []
    baselines = [next((m for m in ranked if m.trained_by == kind), None) for kind in BASELINES]
    values = {
        method.title: str(method.spread("top1")) for method in (ours[0], *filter(None, baselines))
    }
    # of other settings the same
    encoders = {frozenset(run["encoder"] for run in method.runs) for method in ours}
    best = f"the best of {len(encoders)} encoders" if len(encoders) > 1 else ""
    run = ours[0].runs[0]
    preset = own_preset(run["dataset"], "linear")
    steps = run.get("steps", 0)
    short = shorter(LinearConfig, preset, steps, ours[0].labels)
    # of images without a preset nothing else tells
    length = "" if preset or not steps else f", {steps:,} steps"
    return [Finding(f"linear classifier{length}, top-1", values, remarks(short, best))]


def divided(runs: Sequence[Run]) -> tuple[list[Run], list[Run]]:
    """Returns the single-label runs, and the multi-label ones, whose scores are no accuracies."""
    multi = [run for run in runs if is_multi_label(run)]
    return [run for run in runs if run not in multi], multi


def multi_label(
    kind: str, title: str, runs: Sequence[Run], measured: str = ON_TEST_IMAGES
) -> list[Part]:
    """Returns the part of the page about the multi-label runs of a task, if any; `measured`: how
    they were tested.
    """
    by_labels = [method.by(lambda run: run.get("num_train_labels", 0)) for method in methods(runs)]
    points = [point for method in by_labels for point in method.values()]
    if not points:
        return []
    rows = []
    for point in points:
        about = {"Method": point.title, "Labelled images": point.labels}
        scores = {title: point.spread(name) for name, title in SEVERAL_METRICS.items()}
        rows.append({**about, "Test images": point.runs[0].get("tested"), **scores})
    note = f"{measured.capitalize()}. {SEVERAL_NOTE}"
    scores = TableBlock(f"several-{kind}", f"Several labels per image: {title}", rows, note)
    best = max(points, key=lambda point: point.spread("map").mean)
    what = f"multi-label, {title}, {best.labels:,} labelled images, mAP"
    finding = Finding(what, {best.title: str(best.spread("map"))}, "", measured)
    return [
        Part(
            15,
            "several",
            "Several labels per image",
            [folded_alone(scores, len(points))],
            [finding],
        )
    ]
