"""What the page of a dataset begins with: the best model, what to do with it, and what it says of test images."""

from __future__ import annotations

import csv
import os
import shlex
from collections.abc import Sequence

from cpc_tf.drawing.map import DATA, PICTURE
from cpc_tf.drawing.predictions import SHEET, sample
from cpc_tf.encoders.card import NEW
from cpc_tf.encoders.config import PIXELS, UNTRAINED
from cpc_tf.evaluation import counts, label_kinds
from cpc_tf.evaluation.label_kinds import PREDICTIONS, read_predictions
from cpc_tf.report.blocks import MODEL, Block, Commands, Details, Figure, Part, Row, Table, table
from cpc_tf.report.methods import architecture, methods
from cpc_tf.report.runs import Run

# Figures that a result may be judged by, the first that it has -> what they are.
FIGURES = {"top1": "of test images right", "map": "mean average precision", "map11": "mean average precision"}
UNFOLDED = 20  # classes of a table that is not folded
PICTURES, LABELLED = "my_pictures", "my_labelled_pictures"  # stand for the user's own folders


def model(runs: Sequence[Run]) -> list[Part]:
    """Returns the part on the best model of a dataset, among the runs that lie in directories; none without any."""
    here = [run for run in runs if run.directory]
    tested = [run for run in here if _figure(run) and run.identity.trained_by != UNTRAINED]
    if not tested:
        trained = [run for run in here if run["kind"] == "pretrain"]
        return [Part(0, *MODEL, _encoder_alone(trained[-1]))] if trained else []
    pretrained = [run for run in tested if run.identity.trained_by != PIXELS] or tested
    best = max(pretrained, key=lambda run: run[_figure(run)])
    others = [run for run in pretrained if run["encoder"] == best["encoder"] and run is not best]
    maps = [figure for run in [best, *others] for figure in _map(run)]
    blocks: list[Block] = [_table(best), *_classes(best), Commands("What to do next", _commands(best))]
    blocks += _sheet(best)
    return [Part(0, *MODEL, [*blocks, *maps[:1]])]


def _figure(run: Run) -> str:
    """Returns the name of the figure that a result is judged by, or ''."""
    return next((name for name in FIGURES if name in run), "")


def _table(run: Run) -> Table:
    labels = run.get("num_train_labels")
    kind = {"detect": "detector", "linear": "linear classifier"}.get(run["kind"], "classifier")
    rows = [
        *_encoder(run),
        ("Its module", run["encoder"]),
        ("On top of it", f"{kind}{f', {labels:,} labels' if labels else ''}"),
        *_quality(run),
        ("Its run", _directory(run)),
    ]
    rows = [row for row in rows if row != ("Its module", PIXELS)]
    return table("model", "The best model", ["What", "Value"], [Row(row) for row in rows])


def _quality(run: Run) -> list[tuple[str, str]]:
    """Returns how good a model is, and how far that can be trusted."""
    figure, tested = _figure(run), label_kinds.tested(run)
    rows = []
    if figure == "top1":
        few = label_kinds.few(run)
        value = counts.share_text(run[figure], tested) if few else f"{100 * run[figure]:.1f} % {FIGURES[figure]}"
        beside = [f"chance: {100 / run['num_classes']:.1f} %"] if run.get("num_classes") else []
        beside += [f"always the largest class: {100 * run['largest_class']:.1f} %"] if "largest_class" in run else []
        rows += [("How good", value), ("For comparison", ", ".join(beside))]
        rows += [("Mean of the classes", f"{100 * run['class_mean']:.1f} %")] if "class_mean" in run else []
    else:
        images, objects = tested or run.get("test_images"), run.get("test_boxes")
        about = [f"{count:,} {what}" for count, what in ((images, "test pictures"), (objects, "objects")) if count]
        value = f"{100 * run[figure]:.1f} % {FIGURES[figure]}"
        rows.append(("How good", f"{value} ({', '.join(about)})" if about else value))
    caution = counts.caution(tested or run.get("test_images", 0), figure == "top1")
    return [row for row in [*rows, ("What that tells", caution)] if row[1]]


def _classes(run: Run) -> list[Block]:
    """Returns a table of the classes, those that were found least first."""
    found = [own for own in counts.class_counts(run) if own.tested or own.predicted]
    shares = [(own.recall and 100 * own.recall, own.precision and 100 * own.precision) for own in found]
    rows = [Row([own.name, own.tested, own.right, own.predicted, *both]) for own, both in zip(found, shares)]
    columns = ["Class", "Test images", "Found", "Predicted", "Recall, %", "Precision, %"]
    title = "The classes, those that are found least first"
    note = "Recall: found, of its images. Precision: found, of its predictions."
    shown = table("classes", title, columns, rows, note)
    return ([Details(title, [shown])] if len(rows) > UNFOLDED else [shown]) if rows else []


def _sheet(run: Run) -> list[Figure]:
    """Returns the run's sheet of predictions with what it shows as data, if the run left one."""
    png = run.png(SHEET)
    if not png:
        return []
    is_multi_label, class_names = label_kinds.is_multi_label(run), run.get("class_names", [])
    predicted = None if is_multi_label else read_predictions(run.text(PREDICTIONS), class_names)
    rows = sample(predicted) if predicted and predicted.probabilities is not None else {}
    data = [{"row": title, **predicted.record(index)} for title, indices in rows.items() for index in indices]
    right = predicted and counts.share_text((predicted.labels == predicted.guesses).mean(), len(predicted.labels))
    title = f"Test images ({run.place}) with the predicted class and its probability. Green frame: right; red: wrong."
    alt = f"Test images in rows: {'; '.join(rows) or 'right and wrong'}.{f' Of all: {right}.' if right else ''}"
    return [Figure("predictions", title, png, alt, data)]


def _map(run: Run) -> list[Figure]:
    """Returns the embedding map of a run, with the places as data, if the run left one."""
    png = run.png(PICTURE)
    if not png:
        return []
    title = f"Test images by the features of the encoder ({run.place}): similar ones are near each other."
    alt = "A map of test images by the features of the encoder: dots in the colours of classes, and thumbnails."
    try:
        data = list(csv.DictReader(run.text(DATA).splitlines()))
    except csv.Error:
        data = []
    return [Figure("map", title, png, alt, [{name: x for name, x in row.items() if name} for row in data])]


def _encoder(run: Run) -> list[tuple[str, str]]:
    known, (method,) = run.identity, methods([run])
    said = [method.title, architecture(known.architecture)]
    said.append(f"{known.parameters:,} parameters" if known.parameters else "")
    said.append(f"trained on {known.dataset}" if known.dataset else "")
    said.append(f"{known.steps:,} steps" if known.steps else "")
    return [("Encoder", ", ".join(filter(None, said)))]


def _commands(run: Run) -> list[tuple[str, str]]:
    """Returns the commands from a run to what it says of new pictures."""
    place, new, encoder = _directory(run), f"--pictures={PICTURES}", run["encoder"]
    where = os.path.join(place, "model")
    export = _python("export", f"--workdir={place}", f"--output={where}")
    predict = _python("predict", f"--model={where}", new, "--output=predictions.csv")
    embed = _python("embed", f"--encoder={encoder}", new, "--output=features.npz", "--map=map.png")
    what = "boxes" if run["kind"] == "detect" else "a label and its probability"
    # `embed` takes a module that is called, not one of its signatures.
    signatures = [line for line in run.text("run.flags").splitlines() if line.startswith("--signature=")]
    can_embed = encoder not in (PIXELS, NEW) and signatures in ([], ["--signature="])
    return [
        ("Put everything that a prediction takes into one model", export),
        (f"Predict {what} for each picture of a folder", predict),
        *([("Features of the pictures, and a map of them", embed)] if can_embed else []),
    ]


def _encoder_alone(run: Run) -> list[Block]:
    """Returns what there is to do after a pre-training."""
    place = _directory(run)
    module, workdir = (os.path.join(os.path.dirname(place), name) for name in ("hub", "linear"))
    learn = _python("linear", f"--encoder={module}", f"--labelled={LABELLED}", f"--workdir={workdir}")
    lines = [
        ("Export the encoder", _python("export", f"--workdir={place}", f"--output={module}")),
        ("Train a classifier on it, with a folder that has one for each class", learn),
    ]
    rows = [Row(row) for row in (*_encoder(run), ("Its run", place))]
    return [table("model", "The encoder", ["What", "Value"], rows), Commands("What to do next", lines)]


def _directory(run: Run) -> str:
    """Returns the directory of a run, with '?' for bytes in its name that are no text."""
    return run.directory.encode("utf-8", "replace").decode()


def _python(binary: str, *flags: str) -> str:
    return shlex.join(["python", "-m", f"cpc_tf.{binary}", *flags])
