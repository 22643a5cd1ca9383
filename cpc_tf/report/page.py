"""`cpc-tf report`: results -> report.html; beside it tables as CSV, images as PNG, and all as
JSON.

`runs` reads the results, `methods` groups those that differ in their seeds alone. A dataset opens
with a sentence and an image of its best model (`model`), REPORTS add what is known of each task as
`Part`s of tables and figures (`blocks`), and it ends with how all of it was made (`made`);
page.html.jinja shows them.
"""

from __future__ import annotations

import base64
import collections
import datetime
import importlib
import itertools
import json
import os
import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jinja2

import cpc_tf
from cpc_tf.core.commands import TASKS
from cpc_tf.core.files import remove_leftovers, write_file
from cpc_tf.core.texts import csv_records, listed
from cpc_tf.drawing import plots
from cpc_tf.objectives.config import OBJECTIVES, title
from cpc_tf.report.blocks import Block, FigureBlock, Finding, text
from cpc_tf.report.config import ReportConfig
from cpc_tf.report.made import made
from cpc_tf.report.methods import BASELINES, distinct
from cpc_tf.report.model import Lead, lead, model
from cpc_tf.report.runs import Run, collect, dataset_id, dataset_name, dataset_titles

# Kind of result -> the module of its report, which has a function `report` and the fields that it
# needs, NEEDS.
REPORTS = {name: importlib.import_module(f"cpc_tf.report.{name}") for name in TASKS}
LONGEST = 60  # letters of a dataset in the name of a file
ABOUT = {
    "photos": (
        "Each class of photos is one photograph, and each image is a crop of one: a prediction is"
        " right if it names the photograph. Test images are from parts of the photographs that"
        " training does not show."
    )
}
# Colour -> its meaning in all figures. Other objectives have none of their own: their curves are
# named in the figures.
LEGEND = {
    **{name: title(name) for name in OBJECTIVES if name in plots.THEME.named},
    **BASELINES,
    **{"chance": "chance", "healthy": "the healthy range"},
}


class Section(NamedTuple):
    """A dataset: its name, a unique name for files and anchors, how it opens, findings, (name,
    title) -> blocks.
    """

    name: str
    slug: str
    lead: Lead | None
    findings: Sequence[Finding]
    subjects: dict[tuple[str, str], list[Block]]
    about: str

    @property
    def blocks(self) -> list[Block]:
        """All blocks, those of its opening first."""
        opening = self.lead.picture if self.lead else []
        return [*opening, *itertools.chain(*self.subjects.values())]

    @property
    def figures(self) -> list[FigureBlock]:
        """All figures."""
        return [block for block in self.blocks if isinstance(block, FigureBlock)]

    @property
    def remarks(self) -> list[tuple[str, str]]:
        """(what was measured, what to mind about it), without what an earlier one has said."""
        said: dict[str, str] = {}
        for finding in self.findings:
            if finding.remark and not any(finding.remark in other for other in said.values()):
                said[finding.what] = finding.remark
        return [*said.items()]

    @property
    def summary(self) -> list[list[str]]:
        """The findings as rows of texts: a head with the methods, then a row for each finding."""
        methods = list(
            dict.fromkeys(title for finding in self.findings for title in finding.values)
        )
        measured = [*dict.fromkeys(finding.measured for finding in self.findings)]
        rows = []
        for what, values, remark, how in self.findings:
            what = f"{what} {how}" if len(measured) > 1 else what
            rows.append([what, *(values.get(title, "") for title in methods), remark])
        head = f"{self.name}, % {measured[0]}" if len(measured) == 1 else f"{self.name}, %"
        return [[head, *methods, ""], *rows] if rows else []


def main(config: ReportConfig) -> None:
    """The command `cpc-tf report`."""
    print(f"done: {report(config)}")


def report(config: ReportConfig) -> str:
    """Writes the report; returns the path of its page.

    Raises:
      ConfigError: without an output, or without any result.
    """
    config.check_complete()
    runs, problems = collect(config.runs, REPORTS)
    contents = files(distinct(runs), problems, config.runs)
    remove_leftovers(config.output, r".+\.\d+\.tmp")  # as write_file names them
    for name, content in contents.items():
        write_file(os.path.join(config.output, name), content)
    print(contents["summary.txt"], end="", flush=True)
    if problems:
        print(f"not read: {listed(problems)}", flush=True)
    return os.path.join(config.output, "report.html")


def sections(runs: Sequence[Run]) -> Iterator[Section]:
    """Yields a section for each dataset and split of it that is tested on, those with the most
    accuracies first.
    """
    titles = dataset_titles(run["dataset"] for run in runs)
    names = [dataset_name(each) for each in {dataset_id(run["dataset"]) for run in runs}]
    splits: dict[str, collections.Counter] = {
        title: collections.Counter() for title in titles.values()
    }
    for run in runs:
        splits[titles[run["dataset"]]][run.test_split] += 1
    groups: dict[str, list[Run]] = {}
    for run in runs:
        run.dataset_title = titles[run["dataset"]]
        tested = {split: count for split, count in splits[run.dataset_title].items() if split}
        if len(tested) > 1:  # a run that does not tell, such as a pre-training, is with the most
            run.dataset_title += f" ({run.test_split or max(tested, key=tested.get)})"
        run.unclear = names.count(dataset_name(run.identity.dataset)) > 1
        groups.setdefault(run.dataset_title, []).append(run)
    slugs: list[str] = []
    for name, group in sorted(
        groups.items(), key=lambda item: (-sum("top1" in run for run in item[1]), item[0])
    ):
        slug = re.sub(r"[^a-z0-9]+", "-", name.lower())[:LONGEST].strip("-") or "unnamed"
        slugs.append(slug + (f"-{len(slugs) + 1}" if slug in slugs else ""))
        dataset = max((run["dataset"] for run in group), key=len)  # photos/15200
        parts = [*model(group), *made(group)]
        for kind, module in REPORTS.items():
            parts += module.report([run for run in group if run["kind"] == kind], dataset)
        parts.sort(key=lambda part: part.order)
        subjects: dict[tuple[str, str], list[Block]] = {}
        for part in (part for part in parts if part.blocks):
            subjects.setdefault((part.name, part.title), []).extend(part.blocks)
        findings = [finding for part in parts for finding in part.findings]
        yield Section(
            name, slugs[-1], lead(group), findings, subjects, ABOUT.get(dataset_name(dataset), "")
        )


def files(runs: Sequence[Run], problems: Sequence[str], runs_dir: str) -> dict[str, bytes | str]:
    """Returns {file name: content} of the report; `problems`: a line for each file of `runs_dir`
    that was not read.
    """
    datasets = list(sections(runs))
    contents = {}
    data = {}
    about = {"runs_dir": runs_dir, "date": datetime.date.today().isoformat()}
    for section in datasets:
        for figure in section.figures:
            contents |= {f"{section.slug}-{name}.png": png for name, png in figure.pngs.items()}
        records = {block.name: list(block.data) for block in section.blocks if block.data}
        contents |= {
            f"{section.slug}-{name}.csv": csv_records(rows) for name, rows in records.items()
        }
        sentences = section.lead.sentences if section.lead else []
        data[section.name] = {
            "lead": sentences,
            "findings": [finding._asdict() for finding in section.findings],
            "data": records,
        }
    contents["summary.txt"] = "\n".join(
        _aligned(section.summary) for section in datasets if section.findings
    )
    results = [{"place": run.place, **run} for run in runs]
    summary = {**about, "runs": results, "not_read": problems, "datasets": data}
    strict = json.loads(json.dumps(summary, default=str), parse_constant=lambda _: None)
    contents["report.json"] = json.dumps(strict, indent=1) + "\n"
    colors = {
        color for section in datasets for figure in section.figures for color in figure.colors
    }
    # The page contains its style and images; it loads nothing.
    folder = jinja2.FileSystemLoader(pathlib.Path(__file__).parent)
    pages = jinja2.Environment(
        loader=folder,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    values = {
        "text": text,
        "version": cpc_tf.__version__,
        "base64": base64.b64encode,
        "theme": plots.THEME,
        "folds": lambda blocks: itertools.groupby(blocks, key=lambda block: block.fold),
        "legend": [item for item in LEGEND.items() if item[0] in colors],
    }
    page = pages.get_template("page.html.jinja")
    return {
        **contents,
        "report.html": page.render(
            sections=datasets, runs=runs, problems=problems, **about, **values
        ),
    }


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    """Returns rows as lines of text with aligned columns: the first and the last to the left,
    others to the right.
    """
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = []
    for first, *values, remark in rows:
        cells = [
            first.ljust(widths[0]),
            *(value.rjust(width) for value, width in zip(values, widths[1:])),
            remark,
        ]
        lines.append("  ".join(cells).rstrip() + "\n")
    return "".join(lines)
