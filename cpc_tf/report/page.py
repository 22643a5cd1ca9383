"""`cpc-tf report`: results -> report.html; beside it tables as CSV, pictures as PNG, and all as JSON.

`runs` reads the results, `methods` groups those that differ in their seeds alone. For each dataset this module adds the
best model, and REPORTS what is known of each task, as `Part`s of tables and figures (`blocks`); page.html.jinja shows
them.
"""

from __future__ import annotations

import base64
import csv
import datetime
import importlib
import json
import os
import pathlib
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jinja2

from cpc_tf.commands import TASKS
from cpc_tf.drawing import plots
from cpc_tf.drawing.map import DATA, PICTURE
from cpc_tf.drawing.predictions import SHEET, sample
from cpc_tf.encoders.card import NEW
from cpc_tf.encoders.config import LABELS, PIXELS, UNTRAINED
from cpc_tf.evaluation import counts, label_kinds
from cpc_tf.evaluation.label_kinds import PREDICTIONS, read_predictions
from cpc_tf.files import remove_leftovers, write_file
from cpc_tf.objectives.config import OBJECTIVES
from cpc_tf.report.blocks import MODEL, Block, Commands, Details, Figure, Finding, Part, Row, Table, flat, table, text
from cpc_tf.report.config import ReportConfig
from cpc_tf.report.methods import BASELINES, architecture, methods
from cpc_tf.report.runs import Run, collect, dataset_id, dataset_name, dataset_titles
from cpc_tf.texts import csv_records

# Kind of result -> the module of its report, which has a function `report` and the fields that it needs, NEEDS.
REPORTS = {name: importlib.import_module(f"cpc_tf.report.{name}") for name in TASKS}
LONGEST = 60  # letters of a dataset in the name of a file
ABOUT = {
    "photos": "Each class of photos is one photograph, and each image is a crop of one: a prediction is right if it "
    "names the photograph. Test images are from parts of the photographs that training does not show."
}
# Colour -> its meaning in all figures.
LEGEND = {
    **{name: objective.TITLE for name, objective in OBJECTIVES.items()},
    **{name: BASELINES[name] for name in (PIXELS, UNTRAINED, LABELS)},
    **{"chance": "chance", "healthy": "the healthy range"},
}
# Figures that a result may be judged by, the first that it has -> their names.
FIGURES = {"top1": "of test images right", "map": "mean average precision", "map11": "mean average precision"}
UNFOLDED = 20  # classes of a table that is not folded
PICTURES, LABELLED = "my_pictures", "my_labelled_pictures"  # stand for the user's own folders


class Section(NamedTuple):
    """A dataset: its name, a unique name for files and anchors, findings, (name, title) -> blocks, and a remark."""

    name: str
    slug: str
    findings: Sequence[Finding]
    subjects: dict[tuple[str, str], list[Block]]
    about: str

    def blocks(self, *kinds: type) -> list[Block]:
        """Returns all blocks of these kinds, including those behind details."""
        return [b for blocks in self.subjects.values() for b in flat(blocks) if isinstance(b, kinds)]

    @property
    def summary(self) -> list[list[str]]:
        """The findings as rows of texts: a head with the methods, then a row for each finding."""
        methods = list(dict.fromkeys(title for finding in self.findings for title in finding.values))
        rows = [[f.what, *(f.values.get(title, "") for title in methods), f.remark] for f in self.findings]
        return [[f"{self.name}, % on test images", *methods, ""], *rows] if rows else []


def main(config: ReportConfig) -> None:
    """The command `cpc-tf report`."""
    print(f"done: {report(config)}")


def report(config: ReportConfig) -> str:
    """Writes the report; returns the path of its page.

    Raises:
      ConfigError: without an output, or without any result.
    """
    config.check_complete()
    contents = files(*collect(config.runs, REPORTS), config.runs)
    remove_leftovers(config.output, r".+\.\d+\.tmp")  # as write_file names them
    for name, content in contents.items():
        write_file(os.path.join(config.output, name), content)
    print(contents["summary.txt"], end="", flush=True)
    return os.path.join(config.output, "report.html")


def sections(runs: Sequence[Run]) -> Iterator[Section]:
    """Yields a section for each dataset, those with the most results of classification first."""
    titles = dataset_titles(run["dataset"] for run in runs)
    names = [dataset_name(each) for each in {dataset_id(run["dataset"]) for run in runs}]
    groups: dict[str, list[Run]] = {}
    for run in runs:
        run.dataset_title = titles[run["dataset"]]
        run.unclear = names.count(dataset_name(run.identity.dataset)) > 1
        groups.setdefault(run.dataset_title, []).append(run)
    slugs: list[str] = []
    for name, group in sorted(groups.items(), key=lambda item: (-sum("top1" in run for run in item[1]), item[0])):
        slug = re.sub(r"[^a-z0-9]+", "-", name.lower())[:LONGEST].strip("-") or "unnamed"
        slugs.append(slug + (f"-{len(slugs) + 1}" if slug in slugs else ""))
        dataset = max((run["dataset"] for run in group), key=len)  # photos/15200
        parts = best_model(group)
        for kind, module in REPORTS.items():
            parts += module.report([run for run in group if run["kind"] == kind], dataset)
        parts.sort(key=lambda part: part.order)
        subjects: dict[tuple[str, str], list[Block]] = {}
        for part in (part for part in parts if part.blocks):
            subjects.setdefault((part.name, part.title), []).extend(part.blocks)
        findings = [finding for part in parts for finding in part.findings]
        yield Section(name, slugs[-1], findings, subjects, ABOUT.get(dataset_name(dataset), ""))


def files(runs: Sequence[Run], problems: Sequence[str], runs_dir: str) -> dict[str, bytes | str]:
    """Returns {file name: content} of the report; `problems`: a line for each file of `runs_dir` that was not read."""
    datasets, contents, data = list(sections(runs)), {}, {}
    about = {"runs_dir": runs_dir, "date": datetime.date.today().isoformat()}
    for section in datasets:
        contents |= {f"{section.slug}-{block.name}.png": block.png for block in section.blocks(Figure)}
        records = {block.name: list(block.data) for block in section.blocks(Figure, Table) if block.data}
        contents |= {f"{section.slug}-{name}.csv": csv_records(rows) for name, rows in records.items()}
        data[section.name] = {"findings": [finding._asdict() for finding in section.findings], "data": records}
    contents["summary.txt"] = "\n".join(_aligned(section.summary) for section in datasets if section.findings)
    results = [{"place": run.place, **run} for run in runs]
    summary = {**about, "runs": results, "not_read": problems, "datasets": data}
    strict = json.loads(json.dumps(summary, default=str), parse_constant=lambda _: None)
    contents["report.json"] = json.dumps(strict, indent=1) + "\n"
    # The page contains its style and pictures; it loads nothing.
    folder = jinja2.FileSystemLoader(pathlib.Path(__file__).parent)
    pages = jinja2.Environment(
        loader=folder, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    values = {"text": text, "base64": base64.b64encode, "theme": plots.THEME, "legend": LEGEND.items()}
    page = pages.get_template("page.html.jinja")
    return {**contents, "report.html": page.render(sections=datasets, runs=runs, problems=problems, **about, **values)}


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    """Returns rows as lines of text with aligned columns: the first and the last to the left, others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = []
    for first, *values, remark in rows:
        cells = [first.ljust(widths[0]), *(value.rjust(width) for value, width in zip(values, widths[1:])), remark]
        lines.append("  ".join(cells).rstrip() + "\n")
    return "".join(lines)


# The page of a dataset begins with its best model, the next commands, and test images.


def best_model(runs: Sequence[Run]) -> list[Part]:
    """Returns the part on the best model of a dataset, among the runs that lie in directories; none without any."""
    runs = [run for run in runs if run.directory]
    tested = [run for run in runs if _figure(run) and run.identity.trained_by != UNTRAINED]
    if not tested:
        trained = [run for run in runs if run["kind"] == "pretrain"]
        return [Part(0, *MODEL, _encoder_alone(trained[-1]))] if trained else []
    pretrained = [run for run in tested if run.identity.trained_by != PIXELS] or tested
    best = max(pretrained, key=lambda run: run[_figure(run)])
    others = [run for run in pretrained if run["encoder"] == best["encoder"] and run is not best]
    maps = [figure for run in [best, *others] for figure in _map(run)]
    blocks: list[Block] = [_table(best), *_classes(best), Commands("What to do next", _commands(best)), *_sheet(best)]
    return [Part(0, *MODEL, [*blocks, *maps[:1]])]


def _figure(run: Run) -> str:
    """Returns the name of the figure that a result is judged by, or ''."""
    return next((name for name in FIGURES if name in run), "")


def _table(run: Run) -> Table:
    """Returns a table of a model: its parts, how good it is, and how far that can be trusted."""
    labels, figure, tested = run.get("num_train_labels"), _figure(run), label_kinds.tested(run)
    kind = {"detect": "detector", "linear": "linear classifier"}.get(run["kind"], "classifier")
    rows = [("Encoder", _encoder(run))]
    rows += [("Its module", run["encoder"])] if run["encoder"] != PIXELS else []
    rows.append(("On top of it", f"{kind}{f', {labels:,} labels' if labels else ''}"))
    if figure == "top1":
        few = label_kinds.few(run)
        value = counts.share_text(run[figure], tested) if few else f"{100 * run[figure]:.1f} % {FIGURES[figure]}"
        beside = [f"chance: {100 / run['num_classes']:.1f} %"] if run.get("num_classes") else []
        beside += [f"always the largest class: {100 * run['largest_class']:.1f} %"] if "largest_class" in run else []
        rows += [("How good", value), ("For comparison", ", ".join(beside))]
        rows += [("Mean of the classes", f"{100 * run['class_mean']:.1f} %")] if "class_mean" in run else []
    else:
        sizes = {"test pictures": tested or run.get("test_images"), "objects": run.get("test_boxes")}
        about = ", ".join(f"{count:,} {name}" for name, count in sizes.items() if count)
        rows.append(("How good", f"{100 * run[figure]:.1f} % {FIGURES[figure]}" + (f" ({about})" if about else "")))
    rows.append(("What that tells", counts.caution(tested or run.get("test_images", 0), figure == "top1")))
    rows.append(("Its run", _directory(run)))
    return table("model", "The best model", ["What", "Value"], [Row(row) for row in rows if row[1]])


def _classes(run: Run) -> list[Block]:
    """Returns a table of the classes, those with the lowest recall first."""
    rows = [
        Row([c.name, c.tested, c.right, c.predicted, c.recall and 100 * c.recall, c.precision and 100 * c.precision])
        for c in counts.class_counts(run)
        if c.tested or c.predicted
    ]
    columns = ["Class", "Test images", "Found", "Predicted", "Recall, %", "Precision, %"]
    title = "The classes, those that are found least first"
    note = "Recall: found, of its images. Precision: found, of its predictions."
    classes = table("classes", title, columns, rows, note)
    return ([Details(title, [classes])] if len(rows) > UNFOLDED else [classes]) if rows else []


def _sheet(run: Run) -> list[Figure]:
    """Returns the run's sheet of predictions with its rows as data, if the run left one."""
    png = run.png(SHEET)
    if not png:
        return []
    predictions = (
        None if label_kinds.is_multi_label(run) else read_predictions(run.text(PREDICTIONS), run.get("class_names", []))
    )
    rows = sample(predictions) if predictions and predictions.probabilities is not None else {}
    data = [{"row": title, **predictions.record(index)} for title, indices in rows.items() for index in indices]
    title = f"Test images ({run.place}) with the predicted class and its probability. Green frame: right; red: wrong."
    alt = f"Test images in rows: {'; '.join(rows) or 'right and wrong'}."
    if predictions:
        right = (predictions.labels == predictions.guesses).mean()
        alt += f" Of all: {counts.share_text(right, len(predictions.labels))}."
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


def _encoder(run: Run) -> str:
    """Returns a line on the run's encoder."""
    identity, (method,) = run.identity, methods([run])
    facts = [
        method.title,
        architecture(identity.architecture),
        f"{identity.parameters:,} parameters" if identity.parameters else "",
        f"trained on {identity.dataset}" if identity.dataset else "",
        f"{identity.steps:,} steps" if identity.steps else "",
    ]
    return ", ".join(filter(None, facts))


def _commands(run: Run) -> list[tuple[str, str]]:
    """Returns the commands from a run to predictions of new pictures."""
    place, new, encoder = _directory(run), f"--pictures={PICTURES}", run["encoder"]
    where = os.path.join(place, "model")
    export = _python("export", f"--workdir={place}", f"--output={where}")
    predict = _python("predict", f"--model={where}", new, "--output=predictions.csv")
    embed = _python("embed", f"--encoder={encoder}", new, "--output=features.npz", "--map=map.png")
    predicted = "boxes" if run["kind"] == "detect" else "a label and its probability"
    # `embed` takes a module that is called, not one of its signatures.
    signatures = [line for line in run.text("run.flags").splitlines() if line.startswith("--signature=")]
    can_embed = encoder not in (PIXELS, NEW) and signatures in ([], ["--signature="])
    return [
        ("Put everything that a prediction takes into one model", export),
        (f"Predict {predicted} for each picture of a folder", predict),
        *([("Features of the pictures, and a map of them", embed)] if can_embed else []),
    ]


def _encoder_alone(run: Run) -> list[Block]:
    """Returns the encoder of a pre-training, and the next commands."""
    place = _directory(run)
    module, workdir = (os.path.join(os.path.dirname(place), name) for name in ("hub", "linear"))
    learn = _python("linear", f"--encoder={module}", f"--labelled={LABELLED}", f"--workdir={workdir}")
    commands = [
        ("Export the encoder", _python("export", f"--workdir={place}", f"--output={module}")),
        ("Train a classifier on it, with a folder that has one for each class", learn),
    ]
    rows = [Row(("Encoder", _encoder(run))), Row(("Its run", place))]
    return [table("model", "The encoder", ["What", "Value"], rows), Commands("What to do next", commands)]


def _directory(run: Run) -> str:
    """Returns the directory of a run, with '?' for bytes in its name that are no text."""
    return run.directory.encode("utf-8", "replace").decode()


def _python(command: str, *flags: str) -> str:
    return shlex.join(["python", "-m", f"cpc_tf.{command}", *flags])
