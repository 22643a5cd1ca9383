"""The presets: files of flags by name, such as 'photos/pretrain'. A comment at the top says what each is and costs."""

from __future__ import annotations

import difflib
import itertools
import pathlib
import re
from typing import NamedTuple

from cpc_tf.settings import ConfigError
from cpc_tf.texts import shown

_HERE = pathlib.Path(__file__).parent
# The wheel has them inside the package; a checkout has them at its top.
FOLDER = next((path for path in (_HERE / "flags", _HERE.parent / "flags") if path.is_dir()), _HERE / "flags")


class Header(NamedTuple):
    """The comment at the top of a preset, each part as one line."""

    what: str
    cost: str
    text: str  # all of it, line by line, continued commands joined


def names() -> list[str]:
    """Returns the names of all presets, sorted."""
    return sorted(str(path.relative_to(FOLDER).with_suffix("").as_posix()) for path in FOLDER.glob("*/*.flags"))


def path(name: str) -> str:
    """Returns the path of the file of a preset. Raises ConfigError, with similar names, if there is none."""
    known = names()
    if name in known:
        return str(FOLDER / f"{name}.flags")
    inside = [other for other in known if other.startswith(f"{name}/")]
    near = inside or difflib.get_close_matches(name, known, n=3)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    raise ConfigError("preset", shown(name), f"no such preset; {hint}`cpc-tf presets` lists them")


def read(name: str) -> str:
    """Returns the text of a preset. Raises ConfigError if there is none."""
    return pathlib.Path(path(name)).read_text(encoding="utf-8")


def header(name: str) -> Header:
    """Returns the comment at the top of a preset. Raises ConfigError if there is none."""
    comment = itertools.takewhile(lambda line: line.startswith("#"), read(name).splitlines())
    text = re.sub(r"\\\n\s*", " ", "\n".join(line.lstrip("#").strip() for line in comment))
    what, _, rest = text.partition("\nCommand")
    cost = re.search(r"^Cost: (.*?)(?=^Expected:|^$|\Z)", rest, re.DOTALL | re.MULTILINE)
    return Header(" ".join(what.split()), " ".join(cost[1].split()) if cost else "", text)
