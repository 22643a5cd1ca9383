"""The program `cpc-tf`: its screen of help, presets by name, words that are not commands, a quick start."""

import importlib.util
import subprocess
import sys

import pytest

from cpc_tf import cli, presets, program
from cpc_tf.pretrain.config import PretrainConfig
from tests import processes
from tests.binaries import ROOT, settings_of


def test_help_is_one_screen_and_its_commands_parse(capsys):
    assert program.run([]) == program.run(["--help"]) == 0
    first, second = capsys.readouterr().out.split("cpc-tf 0.", 2)[1:]
    assert first == second
    lines = first.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 100
    commands = [line.split() for line in first.replace("\\\n", "").splitlines() if line.startswith("  cpc-tf ")]
    assert [words[1] for words in commands] == ["pretrain", "export", "linear", "report"]
    for _, command, *flags in commands:
        cli.parse(settings_of(program.COMMANDS[command][0]), flags)
    assert [module for module, _ in program.COMMANDS.values() if not importlib.util.find_spec(module)] == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["pretrian"], "pretrian: no such command; did you mean pretrain?"),
        (["x" * 500], "no such command; `cpc-tf --help` lists them"),
        (["presets", "photo/pretran"], "--preset=photo/pretran: no such preset; did you mean photos/pretrain"),
        (["presets", "zzz"], "--preset=zzz: no such preset; `cpc-tf presets` lists them"),
    ],
)
def test_what_is_not_there_gets_the_nearest(words, message, capsys):
    assert program.run(words) == 2
    assert message in capsys.readouterr().err


def test_presets_are_listed_with_their_cost_and_printed(capsys):
    program.run(["presets"])
    listed = capsys.readouterr().out
    for name in presets.names():
        what, cost, _ = presets.header(name)
        assert f"{name}\n    {what}\n    Cost: {cost}\n" in listed
        assert what
        assert cost
    program.run(["presets", "photos/linear"])
    assert capsys.readouterr().out == (ROOT / "flags/photos/linear.flags").read_text()


def test_a_preset_by_name_is_its_file_from_any_folder(tmp_path, monkeypatch):
    by_path = cli.parse(PretrainConfig, [f"--flagfile={ROOT}/flags/photos/pretrain_128px.flags", "--seed=3"])
    monkeypatch.chdir(tmp_path)
    assert cli.parse(PretrainConfig, ["--preset=photos/pretrain_128px", "--seed=3"]) == by_path
    assert cli.parse(PretrainConfig, ["--preset", "photos/pretrain_128px", "--seed=3"]) == by_path


def test_it_starts_without_tensorflow():
    """So do helps of commands, whose status is 0, and refusals."""
    code = """
import os, sys
from cpc_tf import program
program.run(["--help"]), program.run(["presets"])
for *words, status in (["predict", "--help", 0], ["embed", "--help", 0], ["report", "--help", 0], ["predict", 2]):
    child = os.fork()  # absl defines the flags of one command in a process
    if not child:
        try:
            program.run(words)
        except SystemExit as end:
            os._exit(100 if "tensorflow" in sys.modules else end.code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == status, words
print([name for name in ("tensorflow", "numpy") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.endswith("\n[]\n"), done.stderr


@pytest.mark.parametrize(("name", "status", "kind"), [("cpc-tf.exe", 2, "error"), ("mine.py", 1, "ImportError")])
def test_windows_is_refused_in_a_sentence(name, status, kind):
    code = f"import sys; sys.platform, sys.argv = 'win32', ['{name}']; import cpc_tf"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == status
    assert done.stderr.splitlines()[-1].startswith(f"{kind}: cpc_tf runs on Linux and macOS; on Windows use it inside")
    assert ("Traceback" in done.stderr) is (kind == "ImportError")


@pytest.mark.slow
def test_a_command_gets_its_flags():
    done = processes.run("cpc_tf.__main__", "linear", "--preset=photos/linear", "--batch_size=many")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: --batch_size=many: must be a whole number (default 0)\n"
