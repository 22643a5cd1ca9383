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
import markupsafe

from cpc_tf.report.config import ReportConfig
from cpc_tf.results import plots
from cpc_tf.results.blocks import Block, Figure, Gap, Table, flat, to_csv
from cpc_tf.results.methods import dataset_name
from cpc_tf.results.runs import Run, collect
from cpc_tf.results.values import cell
from cpc_tf.settings import ConfigError
from cpc_tf.tasks import TASKS
from cpc_tf.training.workdir import write_file


class Section(NamedTuple):
    """A dataset.

    Attributes:
      slug: its name in files and anchors, unique.
      headline: what was found, a sentence each.
      subjects: (name, title) -> blocks.
    """

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
    for name, content in made.items():
        write_file(os.path.join(config.output, name), content)
    print(made["summary.txt"], end="", flush=True)
    return os.path.join(config.output, "report.html")


def sections(runs: Sequence[Run]) -> Iterator[Section]:
    """One for each dataset that something was measured on: first those with the most results of classification."""
    by_name: dict[str, list[Run]] = {}
    for run in runs:
        by_name.setdefault(dataset_name(run["dataset"]), []).append(run)
    slugs: list[str] = []
    for name in sorted(by_name, key=lambda name: (-sum("top1" in run.record for run in by_name[name]), name)):
        slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "unnamed"
        slugs.append(slug + (f"-{len(slugs) + 1}" if slug in slugs else ""))
        dataset = max((run["dataset"] for run in by_name[name]), key=len)  # photos/15200
        of = {kind: [run for run in by_name[name] if run["kind"] == kind] for kind in TASKS}
        parts = [part for kind, task in TASKS.items() for part in task.report(of[kind], dataset)]
        subjects: dict[tuple[str, str], list[Block]] = {}
        for part in sorted(parts, key=lambda part: part.order):
            if part.blocks:
                subjects.setdefault((part.name, part.title), []).extend(part.blocks)
        headline = [sentence for part in sorted(parts, key=lambda part: part.order) for sentence in part.headline]
        yield Section(name, slugs[-1], headline, subjects)


def files(runs: Sequence[Run], problems: Sequence[str], runs_dir: str) -> dict[str, bytes | str]:
    """{file name: content} of the whole report.

    Args:
      runs: all results.
      problems: what could not be read, a sentence each.
      runs_dir: where the results were found, as it was given.
    """
    shown, made, data = list(sections(runs)), {}, {}
    about = {"runs_dir": runs_dir, "date": datetime.date.today().isoformat()}
    for section in shown:
        for block in section.blocks(Figure, Table):
            name = f"{section.slug}-{block.name}"
            for part, (light, dark) in block.pictures.items() if isinstance(block, Figure) else ():
                made |= {f"{name}{part}.png": light} | ({f"{name}{part}-dark.png": dark} if dark else {})
            made |= {f"{name}.csv": to_csv(block.data)} if block.data else {}
        known = {block.name: list(block.data) for block in section.blocks(Figure, Table) if block.data}
        gaps = [gap._asdict() for gap in section.blocks(Gap)]
        data[section.name] = {"headline": list(section.headline), "gaps": gaps, "data": known}
    made["summary.txt"] = "".join(f"{s.name}: {' '.join(s.headline)}\n" for s in shown if s.headline)
    records = [{"place": run.place, **run.record} for run in runs]
    summary = {**about, "runs": records, "not_read": list(problems), "datasets": data}
    made["report.json"] = json.dumps(summary, indent=1, default=str) + "\n"
    themes = {"light": plots.LIGHT, "dark": plots.DARK}
    made["report.html"] = _template().render(sections=shown, runs=runs, problems=problems, **about, **themes)
    return made


def _template() -> jinja2.Template:
    """The page: style and pictures are in it, nothing is loaded."""
    loader = jinja2.FileSystemLoader(pathlib.Path(__file__).parent)
    environment = jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters.update(
        inline=lambda png: f"data:image/png;base64,{base64.b64encode(png).decode()}",
        cell=cell,
        kind=lambda block: type(block).__name__,
        stress=_stress,
    )
    return environment.get_template("page.html.jinja")


def _stress(sentence: str) -> markupsafe.Markup:
    """A sentence with its figures in bold."""
    return markupsafe.Markup(re.sub(r"(\d[\d.,]* (?:%|times|labels))", r"<b>\1</b>", str(markupsafe.escape(sentence))))
