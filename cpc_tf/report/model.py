"""What the page of a dataset begins with: the best model, what to do with it, and what it says of test images."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

from cpc_tf.encoders.config import PIXELS, UNTRAINED
from cpc_tf.encoders.loaded import NEW
from cpc_tf.evaluation import class_counts, counts, label_kinds
from cpc_tf.results import map as embedding_map
from cpc_tf.results import predictions
from cpc_tf.results.blocks import MODEL, Block, Commands, Details, Part, Row, Table
from cpc_tf.results.methods import architecture, identity, methods
from cpc_tf.results.runs import Run

# Figures that a result may be judged by, the first that it has -> what they are.
FIGURES = {"top1": "of test images right", "map": "mean average precision", "map11": "mean average precision"}
UNFOLDED = 20  # classes of a table that is not folded
PICTURES, LABELLED = "my_pictures", "my_labelled_pictures"  # stand for the user's own folders


def model(runs: Sequence[Run]) -> list[Part]:
    """Returns the part on the best model of a dataset, among the runs that lie in directories; none without any."""
    here = [run for run in runs if run.directory]
    tested = [run for run in here if _figure(run) and identity(run).trained_by != UNTRAINED]
    if not tested:
        trained = [run for run in here if run["kind"] == "pretrain"]
        return [Part(0, *MODEL, _encoder_alone(trained[-1]))] if trained else []
    pretrained = [run for run in tested if identity(run).trained_by != PIXELS] or tested
    best = max(pretrained, key=lambda run: run[_figure(run)])
    others = [run for run in pretrained if run["encoder"] == best["encoder"] and run is not best]
    maps = [figure for run in [best, *others] for figure in embedding_map.figure(run)]
    blocks: list[Block] = [_table(best), *_classes(best), Commands("What to do next", _commands(best))]
    blocks += predictions.figure(best)
    return [Part(0, *MODEL, [*blocks, *maps[:1]])]


def _figure(run: Run) -> str:
    """Returns the name of the figure that a result is judged by, or ''."""
    return next((name for name in FIGURES if name in run), "")


def _table(run: Run) -> Table:
    labels, kind = (
        run.get("num_train_labels"),
        {"detect": "detector", "linear": "linear classifier"}.get(run["kind"], "classifier"),
    )
    rows = [
        *_encoder(run),
        ("Its module", run["encoder"]),
        ("On top of it", f"{kind}{f', {labels:,} labels' if labels else ''}"),
        *_quality(run),
        ("Its run", _directory(run)),
    ]
    rows = [row for row in rows if row != ("Its module", PIXELS)]
    return Table("model", "The best model", ["What", "Value"], [Row(row) for row in rows])


def _quality(run: Run) -> list[tuple[str, str]]:
    """Returns how good a model is, and how far that can be trusted."""
    figure, tested = _figure(run), label_kinds.tested(run)
    rows = []
    if figure == "top1":
        few = label_kinds.few(run)
        value = counts.shown(run[figure], tested) if few else f"{100 * run[figure]:.1f} % {FIGURES[figure]}"
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
    found = [own for own in class_counts.of_result(run) if own.tested or own.predicted]
    rows = [
        Row([own.name, own.tested, own.right, own.predicted, *(x if x is None else 100 * x for x in shares)])
        for own in found
        for shares in [(own.recall, own.precision)]
    ]
    columns = ["Class", "Test images", "Found", "Predicted", "Recall, %", "Precision, %"]
    title = "The classes, those that are found least first"
    table = Table(
        "classes", title, columns, rows, "Recall: found, of its images. Precision: found, of its predictions."
    )
    return ([Details(title, [table])] if len(rows) > UNFOLDED else [table]) if rows else []


def _encoder(run: Run) -> list[tuple[str, str]]:
    known, (method,) = identity(run), methods([run])
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
    return [
        ("Put everything that a prediction takes into one model", export),
        (f"Predict {what} for each picture of a folder", predict),
        *([("Features of the pictures, and a map of them", embed)] if _can_embed(run) else []),
    ]


def _can_embed(run: Run) -> bool:
    """Whether `embed` takes the encoder: a module that is called, not one of its signatures."""
    named = [line for line in run.lines("run.flags") if line.startswith("--signature=")]
    return run["encoder"] not in (PIXELS, NEW) and named in ([], ["--signature="])


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
    table = Table("model", "The encoder", ["What", "Value"], rows)
    return [table, Commands("What to do next", lines)]


def _directory(run: Run) -> str:
    """Returns the directory of a run, with '?' for bytes in its name that are no text."""
    return run.directory.encode("utf-8", "replace").decode()


def _python(binary: str, *flags: str) -> str:
    return shlex.join(["python", "-m", f"cpc_tf.{binary}", *flags])
