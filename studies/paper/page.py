"""Writes the body of docs/paper.md from `rows` and `chains`; commands and costs are those of the
presets' headers.
"""

from __future__ import annotations

import re
import textwrap

from cpc_tf.core import cli
from cpc_tf.core.texts import markdown_table
from studies.paper.chains import CHAINS, OURS, Chain
from studies.paper.rows import SECTIONS, Row, Section


def body() -> str:
    """All sections of the paper, then the commands, then what the presets cost and what of them is
    ours.
    """
    costs = markdown_table(
        ["preset", "cost", "ours"],
        [[f"`{name}`", cli.preset_header(name).cost, OURS[name]] for name in OURS],
    )
    parts = [
        *map(section, SECTIONS),
        "## Commands",
        *map(block, CHAINS.values()),
        f"## Cost, and what is ours\n\n{costs}",
    ]
    return "\n\n".join(parts)


def section(of: Section) -> str:
    """A heading and a table."""
    table = markdown_table(["the paper", of.figures, "commands", "state"], map(cells, of.rows))
    return f"## {of.title}\n\n{table}"


def cells(row: Row) -> list[str]:
    """A line of a table."""
    links = ", ".join(f"[{CHAINS[key].title}](#{anchor(CHAINS[key].title)})" for key in row.chains)
    preset, _, settings = row.holds.partition(" ")
    held = f"{links}: `{settings}` in `{preset}`" if row.holds else links
    return [
        row.text,
        row.figures,
        held or "-",
        f"*{row.state}*" + (f": {row.why}" if row.why else ""),
    ]


def anchor(title: str) -> str:
    """What GitHub makes of a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def block(chain: Chain) -> str:
    """A heading with the commands."""
    *lines, report = map(wrapped, chain.commands)
    if chain.fractions:
        first, *others = (f"{part:g}" for part in chain.fractions)
        lines.append(
            f"# The same with {', '.join(others)} in place of {first}, for rows with several parts"
            " of the labels."
        )
    return "\n".join([f"### {chain.title}\n\n```bash", *lines, report, "```"])


def wrapped(command: str) -> str:
    """A command on lines of 110 characters."""
    return " \\\n".join(
        textwrap.wrap(
            command, 108, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
        )
    )
