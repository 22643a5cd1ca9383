"""The examples of the functions for Python, and of their page, do what they say."""

import doctest

import pytest

import cpc_tf
from cpc_tf import cli
from tests.binaries import ROOT

FUNCTIONS = {name: getattr(cpc_tf, name) for name in cpc_tf.__all__}
FINDER = doctest.DocTestFinder()
EXAMPLES = {test.name: test for name, value in FUNCTIONS.items() for test in FINDER.find(value, name) if test.examples}
PAGE = ROOT / "docs/python.md"
EXAMPLES["page"] = doctest.DocTestParser().get_doctest(PAGE.read_text(), {}, "page", str(PAGE), 0)
# The presets that they name, with less to trace: what the examples show is the same.
SHORTER = {
    "photos/pretrain": [
        "--augment=none",
        "--directions=1",
        "--context_blocks=1",
        "--batch_size=4",
    ],
    "imagenette/linear": ["--batch_size=8"],
}


@pytest.fixture(scope="module")
def shorter(tmp_path_factory):
    """The folder of the presets."""
    folder = tmp_path_factory.mktemp("flags")
    for name, lines in SHORTER.items():
        (folder / name).parent.mkdir()
        (folder / f"{name}.flags").write_text("\n".join([cli.preset_text(name), *lines, ""]))
    return folder


@pytest.mark.slow
@pytest.mark.usefixtures("tiny_encoder")
@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name, room, shorter, monkeypatch, capfd):
    monkeypatch.chdir(room)
    monkeypatch.setattr(cli, "PRESETS", shorter)
    # The check of an export in a process of its own is that of tests/export.
    monkeypatch.setattr("cpc_tf.export.run.verify", lambda *_: {"difference": 0, "variables": 0})
    test, written = EXAMPLES[name], []
    failed, tried = doctest.DocTestRunner(verbose=False).run(test, out=written.append, clear_globs=False)
    assert tried > 0
    assert not failed, "".join(written)
    assert capfd.readouterr().out == ""
