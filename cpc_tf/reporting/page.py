"""Sections of blocks -> the files of the report: one page with everything in it, and the same in pieces beside it."""

from __future__ import annotations

import base64
import json
import pathlib
import re
from collections.abc import Sequence
from typing import Any

import jinja2
import markupsafe

from cpc_tf.reporting.blocks import Cell, Figure, Section, Table, to_csv
from cpc_tf.reporting.collect import Found

HERE = pathlib.Path(__file__).parent


def files(found: Found, sections: Sequence[Section], runs_dir: str, date: str) -> dict[str, bytes | str]:
    """{file name: content} of the whole report; report.html is the last.

    Args:
      found: what it was made from.
      sections: what it says.
      runs_dir: where the runs were found, as it was given.
      date: of today.
    """
    made: dict[str, bytes | str] = {}
    for section in sections:
        for block in section.blocks():
            if not isinstance(block, (Figure, Table)):
                continue
            name = f"{section.slug}-{block.name}"
            if isinstance(block, Figure):
                for part, (light, dark) in block.pictures.items():
                    made[f"{name}{part}.png"] = light
                    made |= {f"{name}{part}-dark.png": dark} if dark else {}
            if block.data:
                made[f"{name}.csv"] = to_csv(block.data)
    made["summary.txt"] = "".join(f"{s.name}: {' '.join(s.headline)}\n" for s in sections if s.headline)
    made["report.json"] = json.dumps(_summary(found, sections, runs_dir, date), indent=1, default=str) + "\n"
    made["report.html"] = html(found, sections, runs_dir, date)
    return made


def html(found: Found, sections: Sequence[Section], runs_dir: str, date: str) -> str:
    """The page: style and pictures are in it, nothing is loaded."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(inline=_inline, cell=_cell, stress=_stress)
    style = (HERE / "report.css").read_text()
    template = environment.get_template("report.html.jinja")
    return template.render(found=found, sections=sections, runs_dir=runs_dir, date=date, style=style)


def _cell(value: str | Cell) -> Cell:
    return value if isinstance(value, Cell) else Cell(value)


def _stress(sentence: str) -> markupsafe.Markup:
    """A sentence with its figures in bold."""
    parts = re.split(r"(\d[\d.,]* (?:%|times|labels))", sentence)
    return markupsafe.Markup("").join(
        markupsafe.Markup("<b>{}</b>").format(part) if number % 2 else part for number, part in enumerate(parts)
    )


def _inline(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode()


def _summary(found: Found, sections: Sequence[Section], runs_dir: str, date: str) -> dict[str, Any]:
    return {
        "runs_dir": runs_dir,
        "date": date,
        "runs": [{"place": run.place, **run.record} for run in found.runs],
        "not_read": list(found.problems),
        "datasets": {
            section.name: {
                "headline": list(section.headline),
                "gaps": [{"what": b.what, "commands": list(b.commands)} for b in section.blocks() if b.kind == "gap"],
                "data": {b.name: list(b.data) for b in section.blocks() if isinstance(b, (Figure, Table)) and b.data},
            }
            for section in sections
        },
    }
