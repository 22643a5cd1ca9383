"""Sentences of the page from templates beside this file, whose words can be changed without the
code.
"""

from __future__ import annotations

import pathlib
from typing import Any

import jinja2

_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(pathlib.Path(__file__).parent),
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
)


def sentences(template: str, facts: dict[str, Any]) -> list[str]:
    """Returns the lines of TEMPLATE.txt.jinja, with the facts in their places, that are not
    empty.
    """
    lines = _TEMPLATES.get_template(f"{template}.txt.jinja").render(facts).splitlines()
    return [line.strip() for line in lines if line.strip()]
