"""The documentation site: its links to files outside docs/, and its flag reference."""

import dataclasses
import importlib.util
import os
import re
import subprocess
import sys
from typing import ClassVar

import pytest

from cpc_tf.core.commands import COMMANDS
from cpc_tf.core.settings import Settings, setting
from tests.binaries import ROOT
from website import flags, links


def test_links_outside_docs_stay_on_the_site():
    text = (
        "[a](../flags/README.md#presets) ![b](images/b.png) [c](#d) [e](https://e.org)"
        " [f](../studies/by_hand.json)"
    )
    assert (
        links.rewritten(text, "docs/results.md")
        == "[a](repository/flags/README.md#presets) ![b](images/b.png) [c](#d) [e](https://e.org) "
        "[f](repository/studies/by_hand.json)"
    )
    assert (
        links.rewritten("[a](../docs/results.md#gain)", "flags/README.md")
        == "[a](../../results.md#gain)"
    )
    # the first
    assert (
        links.rewritten("[a](../README.md#two-commands)", "docs/python.md")
        == "[a](index.md#two-commands)"
    )
    assert [links.source(links.address(path)) for path in links.MOVED] == [*links.MOVED]
    assert links.target("README.md", "studies/causes") == "studies/causes/README.md"
    found = links.linked(["docs/index.md"])
    assert {"README.md", "LICENSE", "flags/README.md"} <= found
    assert not [path for path in found if path.startswith("docs/")]


def test_each_command_has_its_flags_on_the_site():
    named = re.findall(
        r"^ +- (\w+): reference/(\w+).md$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE
    )
    assert sorted(named) == sorted((name, name) for name in COMMANDS)


@dataclasses.dataclass(frozen=True)
class Inner(Settings):
    """How it looks.

    More about it.
    """

    width: int = setting(4, "How wide", unit="px", source="Sec. 4.1", minimum=1, maximum=8)
    kinds: str = setting("a|b", "Which <kinds>")
    hidden: bool = setting(False, "What another command has")


@dataclasses.dataclass(frozen=True)
class Outer(Settings):
    HIDDEN: ClassVar = {"hidden": "it has none"}

    rates: str = setting("", "Some rates", listed=float, above=0, maximum=1e38)
    loud: bool = setting(True, "Whether it is loud")
    inner: Inner = Inner()
    kind: str = setting("round", "Which form", choices=("round", "square"))


def test_the_flag_reference_says_what_settings_say():
    assert [
        line
        for line in flags.page("look", Outer, "see what there is").splitlines()
        if line[:4] in ("| `-", "## L", "## I", "How ")
    ] == [
        "## Look",
        "| `--rates` | none | numbers separated by commas, above 0 | Some rates |",
        "| `--loud` | `true` | true, false | Whether it is loud |",
        "| `--kind` | `round` | `round`, `square` | Which form |",
        "## Inner",
        "How it looks.",
        (
            "| `--width` | `4` | whole number, at least 1, at most 8; px | How wide. Source: Sec."
            " 4.1 |"
        ),
        r"| `--kinds` | `a\|b` | text | Which &lt;kinds> |",
    ]


@pytest.mark.slow
@pytest.mark.skipif(
    not importlib.util.find_spec("mkdocs"), reason="`make site` installs what builds the site"
)
def test_it_builds(tmp_path):
    """With --strict: every page, link and anchor is there."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", f"--site-dir={tmp_path}"]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert 'href="repository/flags/index.html' in (tmp_path / "results.html").read_text()
    assert "--accumulate" in (tmp_path / "reference/pretrain.html").read_text()
