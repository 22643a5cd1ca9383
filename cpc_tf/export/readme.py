"""A module's card: README.md inside the exported directory, from a template. It states what is known, nothing else."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import metadata
from string import Template
from typing import Any

NO_FIGURES = "The run had not ended when this was exported: there are no figures."


def render(template: str, **values: Any) -> str:
    """The text of the template export/NAME.md with these values."""
    with open(os.path.join(os.path.dirname(__file__), f"{template}.md"), encoding="utf-8") as file:
        return Template(file.read()).substitute(values)


def table(rows: Sequence[tuple[str, str]], head: str = "") -> str:
    """A table of names and values; `head` stands above the names."""
    lines = [f"| {head} | |" if head else "| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)]
    return "\n".join(lines)


def measured_at(where: str, measured: int, exported: int) -> str:
    """Where figures were measured, which may be at another step than the exported one."""
    other = "" if measured == exported else ", which is not the exported step"
    return f"measured {where}, step {measured}{other}"


def versions() -> dict[str, str]:
    """Of the libraries that write a module."""
    return {name: metadata.version(name) for name in ("tensorflow", "tensorflow-hub")}


def software(of: dict[str, str]) -> str:
    """Versions as a line of text."""
    return ", ".join(f"{name} {version}" for name, version in of.items())


def without_folders(path: str) -> str:
    """The last part of a path, with what stands before a colon: 'folder:birds' of 'folder:/home/me/birds'."""
    kind, colon, path = path.rpartition(":")
    return kind + colon + os.path.basename(path.rstrip("/"))


def dataset_name(dataset: str) -> str:
    """A --dataset without folders of this machine; those without a colon are names, such as voc/2007."""
    return without_folders(dataset) if ":" in dataset else dataset
