"""Results -> report.html, which holds everything; beside it tables as CSV, pictures as PNG, and all as JSON."""

from __future__ import annotations

import base64
import datetime
import importlib
import json
import os
import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jinja2

from cpc_tf.drawing import plots
from cpc_tf.encoders.config import LABELS, PIXELS, UNTRAINED
from cpc_tf.files import remove_leftovers, write_file
from cpc_tf.objectives.config import OBJECTIVES
from cpc_tf.report.blocks import Block, Figure, Finding, Table, flat, text
from cpc_tf.report.config import ReportConfig
from cpc_tf.report.methods import BASELINES
from cpc_tf.report.model import model
from cpc_tf.report.runs import Run, collect, dataset_id, dataset_name, dataset_titles
from cpc_tf.tasks import TASKS
from cpc_tf.texts import csv_records

# Kind of result -> the module of its report, which has a function `report` and the fields that it needs, NEEDS.
REPORTS = {name: importlib.import_module(f"cpc_tf.report.{name}") for name in TASKS}
LONGEST = 60  # letters of a dataset in the name of a file
ABOUT = {
    "photos": "Each class of photos is one photograph, and each image is a crop of one: a prediction is right if it "
    "names the photograph. Test images are from parts of the photographs that training does not show."
}
# Colour -> what it stands for in figures, beside what they say themselves.
LEGEND = {
    **{name: objective.TITLE for name, objective in OBJECTIVES.items()},
    **{name: BASELINES[name] for name in (PIXELS, UNTRAINED, LABELS)},
    **{"chance": "chance", "healthy": "the healthy range"},
}


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
    made = files(*collect(config.runs, REPORTS), config.runs)
    remove_leftovers(config.output, r".+\.\d+\.tmp")  # as write_file names them
    for name, content in made.items():
        write_file(os.path.join(config.output, name), content)
    print(made["summary.txt"], end="", flush=True)
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
    for name, own in sorted(groups.items(), key=lambda item: (-sum("top1" in run for run in item[1]), item[0])):
        slug = re.sub(r"[^a-z0-9]+", "-", name.lower())[:LONGEST].strip("-") or "unnamed"
        slugs.append(slug + (f"-{len(slugs) + 1}" if slug in slugs else ""))
        dataset = max((run["dataset"] for run in own), key=len)  # photos/15200
        parts = model(own)
        for kind, module in REPORTS.items():
            parts += module.report([run for run in own if run["kind"] == kind], dataset)
        parts.sort(key=lambda part: part.order)
        subjects: dict[tuple[str, str], list[Block]] = {}
        for part in (part for part in parts if part.blocks):
            subjects.setdefault((part.name, part.title), []).extend(part.blocks)
        findings = [finding for part in parts for finding in part.findings]
        yield Section(name, slugs[-1], findings, subjects, ABOUT.get(dataset_name(dataset), ""))


def files(runs: Sequence[Run], problems: Sequence[str], runs_dir: str) -> dict[str, bytes | str]:
    """Returns {file name: content} of the report; `problems`: a line for each file of `runs_dir` that was not read."""
    shown, made, data = list(sections(runs)), {}, {}
    about = {"runs_dir": runs_dir, "date": datetime.date.today().isoformat()}
    for section in shown:
        made |= {f"{section.slug}-{block.name}.png": block.png for block in section.blocks(Figure)}
        known = {block.name: list(block.data) for block in section.blocks(Figure, Table) if block.data}
        made |= {f"{section.slug}-{name}.csv": csv_records(records) for name, records in known.items()}
        data[section.name] = {"findings": [finding._asdict() for finding in section.findings], "data": known}
    made["summary.txt"] = "\n".join(_aligned(section.summary) for section in shown if section.findings)
    records = [{"place": run.place, **run} for run in runs]
    summary = {**about, "runs": records, "not_read": problems, "datasets": data}
    strict = json.loads(json.dumps(summary, default=str), parse_constant=lambda _: None)
    made["report.json"] = json.dumps(strict, indent=1) + "\n"
    # The page holds style and pictures; it loads nothing.
    folder = jinja2.FileSystemLoader(pathlib.Path(__file__).parent)
    pages = jinja2.Environment(
        loader=folder, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    values = {"text": text, "base64": base64.b64encode, "theme": plots.THEME, "legend": LEGEND.items()}
    page = pages.get_template("page.html.jinja").render(sections=shown, runs=runs, problems=problems, **about, **values)
    return {**made, "report.html": page}


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    """Returns rows as lines of text with aligned columns: the first and the last to the left, others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = []
    for first, *values, remark in rows:
        cells = [first.ljust(widths[0]), *(value.rjust(width) for value, width in zip(values, widths[1:])), remark]
        lines.append("  ".join(cells).rstrip() + "\n")
    return "".join(lines)
