"""What the page says of a dataset's best model, for people who did not train it.

`lead` is the sentence and the image that it opens with; `model` adds test images, its classes,
how far its percentages can be trusted, the map, and the next commands.
"""

from __future__ import annotations

import csv
import os
import shlex
from collections.abc import Sequence
from typing import Any, NamedTuple

from matplotlib.figure import Figure as Canvas

from cpc_tf.drawing import plots
from cpc_tf.drawing.map import DATA, PICTURE
from cpc_tf.drawing.predictions import SHEET, sample
from cpc_tf.encoders.card import NEW
from cpc_tf.encoders.config import PIXELS, UNTRAINED
from cpc_tf.evaluation import counts, label_kinds
from cpc_tf.evaluation.predictions import PREDICTIONS, Predictions, read_predictions
from cpc_tf.report import classify, mistakes
from cpc_tf.report.blocks import ALIKE, CLASSES, Block, FigureBlock, ListBlock, Part, TableBlock
from cpc_tf.report.methods import methods
from cpc_tf.report.prose import sentences
from cpc_tf.report.runs import Run
from cpc_tf.report.trust import trust
from cpc_tf.training.workdir import REFIT

# Figures that a result may be judged by: the first that it has.
FIGURES = ("top1", "map", "map11")
# Figure -> the axis of its bars.
_UNITS = {
    "top1": "right, of 100 new images",
    "map": "mean average precision, of 100",
    "map11": "mean average precision, of 100",
}
# Bars of no model -> their figures.
_ASIDE = {"always the most frequent class": "largest", "guessing": "chance"}
UNFOLDED = 20  # classes of a table that is not folded
USE = ("use", "How to use it")
# stand for the user's own folders
PICTURES = "my_pictures"
LABELLED = "my_labelled_pictures"


class Lead(NamedTuple):
    """What a dataset's part of the page opens with: sentences, of which the first is the answer,
    and an image.
    """

    sentences: Sequence[str]
    picture: Sequence[FigureBlock]


def best(runs: Sequence[Run]) -> Run | None:
    """Returns the run with the best figure, among those of pre-trained encoders if there are any;
    None without any.

    Runs that lie in directories come first: records of studies have no files to show. Runs of
    pre-training alone have no figure; of these it is the last.
    """
    runs = [run for run in runs if run.directory] or list(runs)
    tested = [run for run in runs if _figure(run)]
    trained = [run for run in tested if run.identity.trained_by != UNTRAINED] or tested
    pretrained = [run for run in trained if run.identity.trained_by != PIXELS] or trained
    if not pretrained:
        return next((run for run in reversed(runs) if run["kind"] == "pretrain"), None)
    return max(pretrained, key=lambda run: run[_figure(run)])


def _figure(run: Run) -> str:
    """Returns the name of the figure that a result is judged by, or ''."""
    return next((name for name in FIGURES if name in run), "")


def lead(runs: Sequence[Run]) -> Lead | None:
    """Returns the sentence and the image on the best of a dataset's runs; None if there is none
    to speak of.
    """
    run = best(runs)
    if run is None:
        return None
    figure = _figure(run)
    tested = label_kinds.tested(run)
    labels = run.get("num_train_labels")
    facts: dict[str, Any] = {
        "figure": figure,
        "labels": labels,
        "tested": tested or run.get("test_images", 0),
    }
    folds = run.get("cross_validation", {})
    facts |= {"folds": folds.get("folds", 0), "repeats": folds.get("repeats", 1)}
    rivals = [each for each in runs if each["kind"] == run["kind"] and figure in each]
    trained = [method for method in methods(rivals) if method.pretrained]
    facts["encoders"] = len(
        {frozenset(each["encoder"] for each in method.runs) for method in trained}
    )
    facts["encoder"] = next((method.title for method in trained if run in method.runs), "")
    facts["caution"] = counts.caution(facts["tested"], figure == "top1") if figure else ""
    facts["refit_labels"] = run.get(REFIT, {}).get("num_train_labels")
    compared = [run, *_rivals(run, runs)] if figure else []
    picture: list[FigureBlock] = []
    if figure == "top1":
        facts |= _accuracy(run, tested, compared)
        picture = _bars(run, compared, facts)
    elif figure == "map":
        classes = counts.class_counts(run)
        shown, named, found = (
            sum(getattr(c, name) for c in classes) for name in ("tested", "predicted", "right")
        )
        facts |= {"score": _of_100(run["map"]), "chance": _of_100(run.get("map_chance", 0))}
        facts |= {"found": _of_100(found / shown) if shown else None}
        facts |= {"precise": _of_100(found / named) if named else 0}
        picture = _bars(run, compared, {"chance": facts["chance"]})
    elif figure:
        without = compared[1]["map11"] if compared[1:] else None
        facts |= {"score": _of_100(run["map11"]), "without": without and _of_100(without)}
        facts |= {
            "objects": run.get("test_boxes", 0),
            "best": run.get("best_f1"),
            "iou": run.get("iou", 0.5),
        }
        facts["close"] = _of_100(run["map50_95"]) if "map50_95" in run else None
        png = run.png("sheet.png")
        caption = "Test images with true and detected boxes, those with most missed objects first."
        alt = "Test images with true boxes, found and missed, and detected boxes, right and wrong."
        picture = (
            [FigureBlock("boxes", caption, png, alt, photographs=True)]
            if png
            else _bars(run, compared, {})
        )
    else:
        facts |= {"images": run.get("images", 0), "commands": bool(run.directory)}
    return Lead(sentences("lead", facts), picture)


def _accuracy(run: Run, tested: int, compared: Sequence[Run]) -> dict[str, Any]:
    """Returns what the sentence on an accuracy says: whole numbers of 100, or of all images if
    these are fewer.
    """
    of = tested if 0 < tested < 100 else 100
    top1 = run["top1"]
    low, high = _interval(run, "top1") if tested else (0, 0)
    low = run.get("top1_low", low)
    high = run.get("top1_high", high)
    mean = run.get("class_mean", top1)
    return {
        **{
            "right": round(top1 * of),
            "of": of,
            "without": round(compared[1]["top1"] * of) if compared[1:] else None,
        },
        **{
            "low": _of_100(low),
            "high": _of_100(high),
            "chance": _of_100(1 / run.get("num_classes", 1e9)),
        },
        "largest": (
            _of_100(run["largest_class"])
            if run.get("largest_class", 0) * run.get("num_classes", 0) > 1
            else 0
        ),
        "class_mean": _of_100(mean) if abs(mean - top1) > 0.01 else None,
    }


def _interval(run: Run, figure: str) -> tuple[float, float]:
    """Returns the ends of the 95 % interval of a run's figure; the figure twice if there is
    none.
    """
    share = run[figure]
    count = label_kinds.independent(run)
    return counts.interval(share * count, count) if count and figure == "top1" else (share, share)


def _of_100(share: float) -> int:
    return round(100 * share)


def _rivals(run: Run, runs: Sequence[Run]) -> list[Run]:
    """Returns the best runs without pre-training that are comparable: of the same task, with as
    many labels.

    The first is the one that is like it in all else: for a classifier on frozen features the same
    network untrained, for a network that learns all of its weights one that learned them from the
    labels alone.
    """
    kinds = (PIXELS, UNTRAINED) if run["kind"] in ("efficient", "detect") else (UNTRAINED, PIXELS)
    if run.identity.trained_by in kinds:
        return []
    alike = "kind", "num_train_labels", "num_classes", "label_fraction"
    figure = _figure(run)
    same = [
        each
        for each in runs
        if figure in each and all(each.get(name) == run.get(name) for name in alike)
    ]
    by_kind = ([each for each in same if each.identity.trained_by == kind] for kind in kinds)
    return [max(some, key=lambda each: each[figure]) for some in by_kind if some]


def _bars(run: Run, compared: Sequence[Run], facts: dict[str, Any]) -> list[FigureBlock]:
    """Returns bars of what a model and others without its pre-training are right for, of 100."""
    figure = _figure(run)
    bars = [
        (
            _name(each),
            each.identity.trained_by,
            each[figure],
            label_kinds.tested(each),
            _interval(each, figure),
        )
        for each in compared
    ]
    bars += [
        (classify.ARMS[arm].format(labels), color, top1, 0, (top1, top1))
        for arm, color, labels, top1 in _of_curve(run, compared[1:])
    ]
    aside = {name: facts[key] / 100 for name, key in _ASIDE.items() if facts.get(key)}
    bars += [(name, "chance", share, 0, (share, share)) for name, share in aside.items()]
    if len(bars) < 2:
        return []

    def draw(canvas: Canvas, theme: plots.Theme) -> None:
        axis = canvas.subplots()
        for place, (_, color, share, _, (low, high)) in enumerate(reversed(bars)):
            axis.barh(place, 100 * share, 0.62, color=theme.color(color))
            if high > low:
                axis.plot(
                    [100 * low, 100 * high], [place, place], color=theme.named["ink"], linewidth=1.2
                )
            axis.text(
                100 * max(share, high) + 1.5,
                place,
                f"{100 * share:.0f}",
                va="center",
                fontweight="bold",
            )
        axis.set_yticks(range(len(bars)), [name for name, *_ in reversed(bars)])
        axis.set(xlim=(0, 108), xlabel=_UNITS[figure])
        axis.tick_params(axis="y", length=0)
        axis.grid(visible=False, axis="y")
        axis.spines["left"].set_visible(False)

    data = [
        {"what": name, "of 100": round(100 * share, 2), "tested": tested or None}
        for name, _, share, tested, _ in bars
    ]
    alt = f"Bars: {'; '.join(f'{name}: {100 * share:.0f}' for name, _, share, *_ in bars)}."
    colors = [color for _, color, *_ in bars]
    caption = "Thin lines: 95 % confidence intervals." if facts.get("tested") else ""
    return [
        FigureBlock(
            "answer",
            caption,
            plots.png(draw, 5.6, 0.75 + 0.36 * len(bars), 200),
            alt,
            data,
            colors=colors,
        )
    ]


def _of_curve(run: Run, rivals: Sequence[Run]) -> list[tuple[str, str, int, float]]:
    """Returns the arms of a run's label curve that are no rivals already, and the run's own to
    compare them with.
    """
    known = {each.identity.trained_by for each in rivals}
    arms = [arm for arm in classify.largest(run) if arm[1] not in known]
    return arms if len(arms) > 1 else []


def _name(run: Run) -> str:
    """Returns how a bar names the encoder of a run."""
    if run.get("propagation"):
        return "learned from labels and unlabelled images"
    if run.identity.trained_by == UNTRAINED:
        return "the same network, untrained"
    if run.identity.trained_by == PIXELS:
        return "on raw pixels" if run["kind"] == "linear" else "learned from the labels alone"
    return f"with pre-training: {_title(run)}"


def _title(run: Run) -> str:
    """Returns how a run's encoder is called where no other is near: 'CPC v2'."""
    (method,) = methods([run])
    return method.title


def model(runs: Sequence[Run]) -> list[Part]:
    """Returns the parts on the best model of a dataset; none if it lies in no directory."""
    run = best(runs)
    if run is None or not run.directory:
        return []
    if not _figure(run):
        return [Part(5, *USE, [ListBlock(_first_commands(run), commands=True)])]
    alike = [each for each in runs if each["encoder"] == run["encoder"] and each is not run]
    maps = [figure for each in [run, *alike] for figure in _map(each)]
    predictions = None
    if not label_kinds.is_multi_label(run):
        predictions = read_predictions(run.text(PREDICTIONS), run.get("class_names", []))
    return [
        Part(1, "pictures", "What it says of new images", _sheet(run, predictions)),
        Part(1, "mistakes", "Which images it got wrong", mistakes.surest(run, predictions)),
        Part(2, *CLASSES, [*_classes(run), *mistakes.confusions(run, predictions)]),
        *trust(run, predictions),
        Part(5, *USE, [ListBlock(_commands(run), commands=True)]),
        Part(61, *ALIKE, maps[:1]),
    ]


def _sheet(run: Run, predictions: Predictions | None) -> list[Block]:
    """Returns the run's sheet of predictions with its rows as data, if the run left one."""
    png = run.png(SHEET)
    if not png:
        return []
    rows = sample(predictions) if predictions and predictions.probabilities is not None else {}
    data = [
        {"row": title, **predictions.record(index)}
        for title, indices in rows.items()
        for index in indices
    ]
    title = "Each with the class that it names and how sure it is. Green frame: right; red: wrong."
    alt = f"Test images in rows: {'; '.join(rows) or 'right and wrong'}."
    return [FigureBlock("predictions", title, png, alt, data, photographs=True)]


def _classes(run: Run) -> list[Block]:
    """Returns a table of the classes, those with the lowest recall first."""
    rows = [
        {
            "Class": each.name,
            "Found": f"{each.right} of {each.tested}",
            "Found, %": _percent(each.recall),
            "Right when named": f"{each.right} of {each.predicted}",
            "Right when named, %": _percent(each.precision),
        }
        for each in counts.class_counts(run)
        if each.tested or each.predicted
    ]
    title = "The classes, those that are found least first"
    note = (
        "Found (recall): of its images, how many are named so. Right when named (precision): of"
        " those named so."
    )
    fold = title if len(rows) > UNFOLDED else ""
    return [TableBlock("classes", title, rows, note, fold)] if rows else []


def _percent(share: float | None) -> int | None:
    return None if share is None else _of_100(share)


def _map(run: Run) -> list[FigureBlock]:
    """Returns the embedding map of a run, with the places as data, if the run left one."""
    png = run.png(PICTURE)
    if not png:
        return []
    title = "New images by what the encoder sees in them: similar ones are near each other."
    alt = (
        "A map of test images by the features of the encoder: thumbnails, framed in the colours of"
        " named classes."
    )
    try:
        data = list(csv.DictReader(run.text(DATA).splitlines()))
    except csv.Error:
        data = []
    places = [{name: x for name, x in row.items() if name} for row in data]
    return [FigureBlock("map", title, png, alt, places, photographs=True)]


def _commands(run: Run) -> list[tuple[str, str]]:
    """Returns the commands from a run to predictions of new images."""
    place = run.path
    new = f"--pictures={PICTURES}"
    encoder = run["encoder"]
    is_exported = run["kind"] == "classify"
    where = os.path.join(place, "classifier" if is_exported else "model")
    export = _command("export", f"--workdir={place}", f"--output={where}")
    predict = _command("predict", f"--model={where}", new, "--output=predictions.csv")
    embed = _command("embed", f"--encoder={encoder}", new, "--output=features.npz", "--map=map.png")
    predicted = "boxes" if run["kind"] == "detect" else "a label and its probability"
    # `embed` takes a module that is called, not one of its signatures.
    signatures = [
        line for line in run.text("run.flags").splitlines() if line.startswith("--signature=")
    ]
    can_embed = encoder not in (PIXELS, NEW) and signatures in ([], ["--signature="])
    return [
        *(
            []
            if is_exported
            else [("Put everything that a prediction takes into one model", export)]
        ),
        (f"Predict {predicted} for each image of a folder", predict),
        *([("Features of the images, and a map of them", embed)] if can_embed else []),
    ]


def _first_commands(run: Run) -> list[tuple[str, str]]:
    """Returns the commands from a pre-training to a classifier."""
    place = run.path
    module, workdir = (os.path.join(os.path.dirname(place), name) for name in ("hub", "linear"))
    learn = _command(
        "linear", f"--encoder={module}", f"--labelled={LABELLED}", f"--workdir={workdir}"
    )
    return [
        ("Export the encoder", _command("export", f"--workdir={place}", f"--output={module}")),
        ("Train a classifier on it, with a folder that has one for each class", learn),
    ]


def _command(command: str, *flags: str) -> str:
    return shlex.join(["cpc-tf", command, *flags])
