"""The program `cpc-tf`: its screen of help, presets by name, words that are not commands, a quick
start.
"""

import json
import os
import subprocess
import sys

import pytest

from cpc_tf.core import cli, program
from cpc_tf.core.commands import COMMANDS
from cpc_tf.pretrain.config import PretrainConfig
from tests import processes
from tests.binaries import ROOT


def test_help_is_one_screen_and_its_commands_parse(capsys):
    assert program.run([]) == program.run(["--help"]) == 0
    first, second = capsys.readouterr().out.split("cpc-tf 0.", 2)[1:]
    assert first == second
    lines = first.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 100
    commands = [
        line.split()
        for line in first.replace("\\\n", "").splitlines()
        if line.startswith("  cpc-tf ")
    ]
    assert [words[1] for words in commands] == ["pretrain", "export", "linear"]
    for _, command, *flags in commands:
        cli.parse(COMMANDS[command].config, flags)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["pretrian"], "pretrian: no such command; did you mean pretrain?"),
        (["x" * 500], "no such command; `cpc-tf --help` lists them"),
        (
            ["presets", "photo/pretran"],
            "--preset=photo/pretran: no such preset; did you mean photos/pretrain",
        ),
        (["presets", "zzz"], "--preset=zzz: no such preset; `cpc-tf presets` lists them"),
    ],
)
def test_what_is_not_there_gets_the_nearest(words, message, capsys):
    assert program.run(words) == 2
    assert message in capsys.readouterr().err


def test_presets_are_listed_with_their_cost_and_printed(capsys):
    program.run(["presets"])
    listed = capsys.readouterr().out
    for name in cli.preset_names():
        what, cost, _ = cli.preset_header(name)
        assert f"{name}\n    {what}\n    Cost: {cost}\n" in listed
        assert what
        assert cost
    program.run(["presets", "photos/linear"])
    assert capsys.readouterr().out == (ROOT / "flags/photos/linear.flags").read_text()


def test_preset_name_equals_its_file_from_any_folder(tmp_path, monkeypatch):
    by_path = cli.parse(
        PretrainConfig, [f"--flagfile={ROOT}/flags/photos/pretrain_128px.flags", "--seed=3"]
    )
    monkeypatch.chdir(tmp_path)
    assert cli.parse(PretrainConfig, ["--preset=photos/pretrain_128px", "--seed=3"]) == by_path
    assert cli.parse(PretrainConfig, ["--preset", "photos/pretrain_128px", "--seed=3"]) == by_path


@pytest.mark.parametrize("words", [["presets"], ["version"], ["pretrain", "--help"]])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_full_disk_on_standard_output_is_one_line(words, unbuffered):
    with open("/dev/full", "w") as full:
        command, environment = (
            [sys.executable, "-m", "cpc_tf", *words],
            {**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )
        done = subprocess.run(
            command, env=environment, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True
        )
    said = "error: standard output cannot be written (No space left on device)\n"
    assert (done.returncode, done.stderr) == (4, said)


def test_helps_and_refusals_start_no_tensorflow():
    """Of every command, by a fork for each case, since absl defines the flags of one command in a
    process.
    """
    code = """
import contextlib, io, json, os, sys
from cpc_tf.core import program
program.run(["--help"]), program.run(["presets"])
heavy = lambda: [name for name in ("tensorflow", "numpy") if name in sys.modules]
print("\\nforked")
for words, status, message in json.loads(sys.argv[1]):
    sys.stdout.flush()
    child = os.fork()
    if not child:
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
            try:
                end = program.run(words)
            except SystemExit as ended:
                end = ended.code or 0
        if heavy() or end != status or message not in out.getvalue():
            print(words, heavy(), end, out.getvalue()[-500:], flush=True)
        os._exit(0)
    os.waitpid(child, 0)
print(heavy())
"""
    refusals = {  # what is missing after these words; a value that is refused
        "data": (["--output"], "Missing value for flag", "--sixteen_bit=8"),
        "label": ([], "--pictures= is empty", "--labels=x.txt"),
        "classify": (["--encoder="], "--encoder= is empty", "--class_weights=all"),
        "pretrain": ([], "--workdir= is empty", "--steps_to_predict=9"),
        "compare": (["--workdir=x"], "--pictures= is empty", "--objectives=cpc,simclr"),
        "linear": (["--workdir=x"], "--encoder= is empty", "--patch_stride=7"),
        "efficient": (["--workdir=x"], "--encoder= is empty", "--label_fraction=2"),
        "detect": (["--workdir=x"], "--encoder= is empty", "--anchor_sizes=-1"),
        "export": (["--workdir=x"], "--output= is empty", "--quantize=int8"),
        "predict": (["--model=x"], "--pictures= is empty", "--output=x.png"),
        "embed": (["--encoder=x", "--pictures=y"], "--output= is empty", "--output=x.png"),
        "report": ([], "--output= is empty", "--runs= x"),
        "show": (["--draws"], "Missing value for flag", "--augment=all"),
    }
    assert [*refusals] == [*COMMANDS]
    cases = [([name, "--help"], 0, f"cpc-tf {name}:") for name in COMMANDS]
    for name, (words, missing, wrong) in refusals.items():
        cases += [([name, *words], 2, f"error: {missing}"), ([name, wrong], 2, f"error: {wrong}")]
        cases += [
            ([name, "--no_such_flag=1"], 2, "error: Unknown command line flag 'no_such_flag'")
        ]
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(cases)], capture_output=True, text=True, cwd=ROOT
    )
    assert done.stdout.partition("\nforked\n")[2] == "[]\n", done.stdout[-3000:] + done.stderr


def test_the_import_changes_nothing_in_the_process():
    state = "dict(os.environ), [*sys.meta_path], signal.getsignal(2), signal.getsignal(15)"
    code = f"import os, signal, sys; before = {state}; import cpc_tf; assert ({state}) == before"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


@pytest.mark.parametrize(
    ("code", "status", "error"),
    [
        ("from cpc_tf.core import program; sys.exit(program.main('report'))", 2, "error: "),
        ("import cpc_tf; cpc_tf.pretrain('x')", 1, "ImportError: "),
    ],
)
def test_windows_is_refused_in_a_sentence(code, status, error):
    # Python's own modules are imported before: from 3.13 on they would look for what Windows alone
    # has.
    code = f"import shutil, sys; sys.platform = 'win32'; {code}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == status
    *before, last = done.stderr.splitlines()
    assert last.startswith(f"{error}cpc_tf runs on Linux and macOS; on Windows use it inside")
    assert bool(before) is (status == 1)


NOISY = """
import os, sys
os.write(2, b"a notice of the library")
"""
IMPORT = "from cpc_tf.core import program; program.quietly(lambda: __import__('tensorflow'))"


@pytest.mark.parametrize(
    ("library", "code", "level", "shown", "hidden"),
    [
        (NOISY, IMPORT, "3", [], ["a notice"]),
        (NOISY, IMPORT, "0", ["a notice"], []),
        (
            NOISY + "raise ImportError('no such library')",
            IMPORT,
            "3",
            ["a notice", "no such library"],
            [],
        ),
        (
            "import os\nos.abort()",
            IMPORT,
            "3",
            ["Fatal Python error: Aborted", "tensorflow.py"],
            [],
        ),
        (
            NOISY,
            f"{IMPORT}; import sys; print('our own line', file=sys.stderr)",
            "3",
            ["our own line"],
            ["a notice"],
        ),
        ("", f"import os; os.close(2); {IMPORT}; os.write(1, b'imported')", "3", ["imported"], []),
    ],
)
def test_notices_of_tensorflow_are_hidden_unless_it_fails(
    tmp_path, library, code, level, shown, hidden
):
    (tmp_path / "tensorflow.py").write_text(library)
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}", "TF_CPP_MIN_LOG_LEVEL": level}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    written = done.stdout + done.stderr
    assert all(text in written for text in shown)
    assert not any(text in written for text in hidden)


BUG = """
import sys
from cpc_tf.core import commands, program

def failing(*_):
    raise {error}

commands.Command.run = property(failing)
sys.argv = ["cpc-tf", "report", "--output=x"]
sys.exit(program.main())
"""


def stderr_of(error):
    """What a command prints that raises an error, and its exit status."""
    done = subprocess.run(
        [sys.executable, "-c", BUG.format(error=error)], capture_output=True, text=True, cwd=ROOT
    )
    return done.stderr.splitlines(), done.returncode


def test_a_bug_is_printed_with_the_versions(capsys):
    program.run(["version"])
    (version,) = capsys.readouterr().out.splitlines()
    lines, status = stderr_of("KeyError('classes')")
    assert status == 1
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-3] == "KeyError: 'classes'"
    assert "report it" in lines[-2]
    assert lines[-1] == version


@pytest.mark.parametrize(
    ("error", "last"),
    [
        ("program.ConfigError('output', 'x', 'is no folder')", "error: --output=x: is no folder"),
        ("BrokenPipeError(32, 'Broken pipe')", "BrokenPipeError: [Errno 32] Broken pipe"),
    ],
)
def test_an_error_of_the_user_has_no_versions(error, last):
    assert stderr_of(error)[0][-1] == last


@pytest.mark.slow
def test_tensorflow_itself_is_quiet(tmp_path):
    words = ["report", f"--runs={tmp_path}", f"--output={tmp_path}/report"]
    done = subprocess.run(
        [sys.executable, "-m", "cpc_tf", *words], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == done.stderr.count("error: ") == 1


@pytest.mark.slow
def test_a_command_gets_its_flags():
    done = processes.run("cpc_tf.__main__", "linear", "--preset=photos/linear", "--batch_size=many")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: --batch_size=many: must be a whole number (default 0)\n"
