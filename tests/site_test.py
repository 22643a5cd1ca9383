"""The documentation site: its navigation, its links to files outside docs/, and its flag reference."""

import dataclasses
import importlib.util
import os
import re
import subprocess
import sys

import pytest

from cpc_tf.settings import Settings, leaves, setting
from tests.binaries import OWN_SETTINGS, ROOT, SETTINGS, settings_of
from website import flags, links

MODULES = [module for module in (*SETTINGS, *OWN_SETTINGS) if module.startswith("cpc_tf.")]


def test_the_navigation_has_every_page_once():
    """Of the notebook only the list of its pages."""
    _, _, nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")
    found = re.findall(r": (\S+\.md)$", nav, re.MULTILINE)
    pages = [path.name for path in (ROOT / "docs").glob("*.md")]
    reference = [f"reference/{module.partition('.')[2]}.md" for module in MODULES]
    outside = [each for each in found if each.startswith(links.OUTSIDE)]
    assert sorted(found) == sorted([*pages, "notebook/README.md", *reference, *outside])
    assert {links.source(each) for each in outside} <= links.linked(links.pages())


def test_links_to_files_outside_docs_stay_on_the_site():
    text = "[a](../flags/README.md#presets) ![b](images/b.png) [c](#d) [e](https://e.org) [f](../studies/by_hand.json)"
    assert links.rewritten(text, "docs/results.md") == (
        "[a](repository/flags/README.md#presets) ![b](images/b.png) [c](#d) [e](https://e.org) "
        "[f](repository/studies/by_hand.json)"
    )
    assert links.rewritten("[a](../docs/results.md#gain)", "flags/README.md") == "[a](../../results.md#gain)"
    assert links.target("README.md", "studies/causes") == "studies/causes/README.md"
    found = links.linked(["docs/index.md"])
    assert {"README.md", "LICENSE", "flags/README.md"} <= found
    assert not [path for path in found if path.startswith("docs/")]


@dataclasses.dataclass(frozen=True)
class Inner(Settings):
    """How it looks.

    More about it.
    """

    width: int = setting(4, "How wide", unit="px", source="Sec. 4.1", minimum=1, maximum=8)
    kinds: str = setting("a|b", "Which <kinds>")
    hidden: bool = setting(False, "Only code sets it", flag=False)


@dataclasses.dataclass(frozen=True)
class Outer(Settings):
    rates: str = setting("", "Some rates", listed=float, above=0, maximum=1e38)
    loud: bool = setting(True, "Whether it is loud")
    inner: Inner = Inner()
    kind: str = setting("round", "Which form", choices=("round", "square"))


def test_the_flag_reference_says_what_settings_say():
    assert [line for line in flags.page("cpc_tf.look", Outer).splitlines() if line[:4] in ("| `-", "## I", "How ")] == [
        "| `--rates` | none | numbers with commas between, above 0 | Some rates |",
        "| `--loud` | `true` | true, false | Whether it is loud |",
        "| `--kind` | `round` | `round`, `square` | Which form |",
        "## Inner",
        "How it looks.",
        "| `--width` | `4` | whole number, at least 1, at most 8; px | How wide. Source: Sec. 4.1 |",
        r"| `--kinds` | `a\|b` | text | Which &lt;kinds> |",
    ]


@pytest.mark.parametrize("module", MODULES)
def test_the_flag_reference_has_every_flag_once(module):
    found = re.findall(r"^\| `--(\w+)`", flags.page(module, settings_of(module)), re.MULTILINE)
    fields = [field for _, field in leaves(settings_of(module))]
    assert sorted(found) == sorted(field.name for field in fields if field.metadata["flag"])


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("mkdocs"), reason="`make site` installs what builds the site")
def test_it_builds(tmp_path):
    """With --strict: every page, link and anchor is there."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", f"--site-dir={tmp_path}"]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert 'href="repository/flags/index.html' in (tmp_path / "results.html").read_text()
    assert "--accumulate" in (tmp_path / "reference/pretrain.html").read_text()
