"""Results -> one page with everything in it, and the same in pieces beside it: tables as CSV, pictures as PNG."""

from __future__ import annotations

import base64
import datetime
import json
import os
import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jinja2

from cpc_tf import leftovers
from cpc_tf.files import write_file
from cpc_tf.report.config import ReportConfig
from cpc_tf.results import plots
from cpc_tf.results.blocks import Block, Figure, Gap, Table, flat, text, to_csv
from cpc_tf.results.datasets import dataset_id, dataset_name, of_several, titles
from cpc_tf.results.methods import identity
from cpc_tf.results.runs import Run, collect
from cpc_tf.settings import ConfigError
from cpc_tf.tasks import TASKS

LONGEST = 60  # letters of a dataset in the name of a file


class Section(NamedTuple):
    """A dataset: its name, the same for files and anchors (unique), headlines, and (name, title) -> blocks."""

    name: str
    slug: str
    headline: Sequence[str]
    subjects: dict[tuple[str, str], list[Block]]

    def blocks(self, *kinds: type) -> list[Block]:
        """All blocks of these kinds, those behind details too."""
        return [b for blocks in self.subjects.values() for b in flat(blocks) if isinstance(b, kinds)]


def report(config: ReportConfig) -> str:
    """Writes the report; returns the path of its page.

    Raises:
      ConfigError: without an output, or without any result.
    """
    if not config.output:
        raise ConfigError("--output= is empty: name a directory for the report, e.g. --output=runs/report")
    made = files(*collect(config.runs, TASKS), config.runs)
    leftovers.remove(config.output, r".+\.\d+\.tmp")  # as write_file names them
    for name, content in made.items():
        write_file(os.path.join(config.output, name), content)
    print(made["summary.txt"], end="", flush=True)
    return os.path.join(config.output, "report.html")


def sections(runs: Sequence[Run]) -> Iterator[Section]:
    """One for each dataset that something was measured on: first those with the most results of classification."""
    datasets = {run["dataset"] for run in runs}
    names, shared = titles(datasets), of_several(datasets)
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        run.dataset_title = names[run["dataset"]]
        run.unclear = dataset_name(identity(run).dataset) in shared
        groups.setdefault((run.dataset_title, dataset_id(run["dataset"])), []).append(run)
    slugs: list[str] = []
    for (name, _), own in sorted(groups.items(), key=lambda item: (-sum("top1" in run for run in item[1]), item[0])):
        slug = re.sub(r"[^a-z0-9]+", "-", name.lower())[:LONGEST].strip("-") or "unnamed"
        slugs.append(slug + (f"-{len(slugs) + 1}" if slug in slugs else ""))
        dataset = max((run["dataset"] for run in own), key=len)  # photos/15200
        parts = [p for kind, task in TASKS.items() for p in task.report([r for r in own if r["kind"] == kind], dataset)]
        parts.sort(key=lambda part: part.order)
        subjects: dict[tuple[str, str], list[Block]] = {}
        for part in (part for part in parts if part.blocks):
            subjects.setdefault((part.name, part.title), []).extend(part.blocks)
        headline = [sentence for part in parts for sentence in part.headline]
        yield Section(name, slugs[-1], headline, subjects)


def files(runs: Sequence[Run], problems: Sequence[str], runs_dir: str) -> dict[str, bytes | str]:
    """{file name: content} of the whole report; `problems` says what of `runs_dir` could not be read."""
    shown, made, data = list(sections(runs)), {}, {}
    about = {"runs_dir": runs_dir, "date": datetime.date.today().isoformat()}
    for section in shown:
        for block in section.blocks(Figure):
            pictures = {"": block.light, "-dark": block.dark}
            made |= {f"{section.slug}-{block.name}{end}.png": png for end, png in pictures.items() if png}
        known = {block.name: list(block.data) for block in section.blocks(Figure, Table) if block.data}
        made |= {f"{section.slug}-{name}.csv": to_csv(records) for name, records in known.items()}
        gaps = [gap._asdict() for gap in section.blocks(Gap)]
        data[section.name] = {"headline": section.headline, "gaps": gaps, "data": known}
    made["summary.txt"] = "".join(f"{s.name}: {' '.join(s.headline)}\n" for s in shown if s.headline)
    records = [{"place": run.place, **run} for run in runs]
    summary = {**about, "runs": records, "not_read": problems, "datasets": data}
    strict = json.loads(json.dumps(summary, default=str), parse_constant=lambda _: None)
    made["report.json"] = json.dumps(strict, indent=1) + "\n"
    # Style and pictures are in the page, nothing is loaded.
    folder = jinja2.FileSystemLoader(pathlib.Path(__file__).parent)
    pages = jinja2.Environment(
        loader=folder, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    values = {"text": text, "base64": base64.b64encode, "light": plots.LIGHT, "dark": plots.DARK}
    page = pages.get_template("page.html.jinja").render(sections=shown, runs=runs, problems=problems, **about, **values)
    return {**made, "report.html": page}
