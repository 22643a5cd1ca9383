"""Writes the table of flags/README.md from the headers of the presets: `make docs`."""

from __future__ import annotations

import pathlib

from cpc_tf.core import cli

PAGE = pathlib.Path(cli.PRESETS) / "README.md"
_RULER = "|---|---|\n"


def page() -> str:
    """Returns the page: what is written by hand, then each preset with its header's first
    sentence.
    """
    by_hand, _, _ = PAGE.read_text().partition(_RULER)
    rows = [f"| `{name}.flags` | {cli.preset_header(name).what} |\n" for name in cli.preset_names()]
    return by_hand + _RULER + "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(page())
