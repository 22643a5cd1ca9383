"""The flag reference of the site: a page for each command, written from its settings."""

from __future__ import annotations

import re

from cpc_tf.core.commands import COMMANDS
from cpc_tf.core.settings import all_leaves

FOLDER = "reference/"  # of the site


def on_files(files, config):
    """Adds a page for each command."""
    from mkdocs.structure.files import File

    for name, command in COMMANDS.items():
        files.append(
            File.generated(
                config, f"{FOLDER}{name}.md", content=page(name, command.config, command.what)
            )
        )
    return files


def on_page_content(html, page, config, files):
    """Keeps the names of flags whole where commands wrap."""
    return re.sub(r"(?<=[\s>])--\w+", r'<span class="flag">\g<0></span>', html)


def page(name: str, config_class: type, what: str) -> str:
    """Returns the Markdown of the flags of a command, in groups by what they are about."""
    lines = [
        f"# {name}",
        f"`cpc-tf {name}`: {what}. Its flags are those of `--helpfull`. A preset of",
        "[Presets](../repository/flags/README.md) sets many of them; flags after `--preset` win.",
    ]
    groups: dict[type, list] = {}
    for owner, field in all_leaves(config_class):
        groups.setdefault(owner, []).append(field)
    for owner, fields in groups.items():
        title = re.sub(
            r"(?<=[a-z])(?=[A-Z])", " ", owner.__name__.removesuffix("Config")
        ).capitalize()
        title, about = (
            (name.capitalize(), "")
            if owner is config_class
            else (title, (owner.__doc__ or "").strip())
        )
        lines += [
            "",
            f"## {title}",
            "",
            about.partition("\n")[0],
            "",
            '<div class="flags" markdown>',
            "",
        ]
        lines += [
            "| flag | default | range | what |",
            "|---|---|---|---|",
            *map(row, fields),
            "",
            "</div>",
        ]
    return "\n".join(lines) + "\n"


def row(field) -> str:
    """Returns the line of a table for a setting."""
    rules = field.metadata
    default = str(field.default).lower() if field.type is bool else str(field.default)
    what = rules["help"] + (f". Source: {rules['source']}" if rules["source"] else "")
    cells = [f"`--{field.name}`", f"`{default}`" if default else "none", values(field), what]
    return "| " + " | ".join(cell.replace("|", r"\|").replace("<", "&lt;") for cell in cells) + " |"


def values(field) -> str:
    """Returns the allowed values of a setting, with their unit."""
    rules = field.metadata
    if rules["choices"]:
        return ", ".join(f"`{choice}`" for choice in rules["choices"])
    if field.type is bool:
        return "true, false"
    ends = [f"at least {rules['minimum']:g}"] if rules["minimum"] is not None else []
    ends += [f"above {rules['above']:g}"] if rules["above"] is not None else []
    ends += (
        [f"at most {rules['maximum']:,g}"]
        if rules["maximum"] is not None and rules["maximum"] < 1e9
        else []
    )
    kind = {int: "whole number", float: "number", str: "text"}[rules["listed"] or field.type]
    kind = f"{kind}s separated by commas" if rules["listed"] else kind
    return ", ".join([kind, *ends]) + (f"; {rules['unit']}" if rules["unit"] else "")
