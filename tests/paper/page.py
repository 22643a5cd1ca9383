"""Reads docs/paper.md as a reader does: its tables, and the commands to which their rows link."""

import re
from typing import NamedTuple

from tests.binaries import ROOT

PAGE = (ROOT / "docs/paper.md").read_text()


class Line(NamedTuple):
    """A row of a table: the section, its four cells."""

    section: str
    text: str
    figures: str
    commands: str
    state: str


def rows_of(text):
    """The rows of all tables of the paper's sections."""
    found = []
    for part in text.partition("\n## Commands\n")[0].split("\n## ")[1:]:
        title, *lines = part.splitlines()
        cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
        found += [Line(title, *of) for of in cells[2:]]
    return found


def commands_of(text, row):
    """The commands to which a row links, in order, each once; comments left out."""
    found = []
    for title in re.findall(r"\[([^\]]*)\]\(#", row.commands):
        code = text.partition(f"\n### {title}\n\n```bash\n")[2].partition("```")[0]
        lines = re.sub(r" \\\n\s*", " ", code).splitlines()
        found += [line for line in lines if not line.startswith("#")]
    return list(dict.fromkeys(found))
