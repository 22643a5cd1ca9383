"""What the commands import: what a run does not use costs it no time, and no reader a look."""

import json
import subprocess
import sys

import pytest

from cpc_tf.core.commands import COMMANDS
from tests import modules, samples
from tests.binaries import ROOT
from tests.layering_test import closure

LOADED = """
print(*sorted(name for name in sys.modules if name.split(".")[0] == "cpc_tf"))
"""
CLASSIFY = """
import sys
from cpc_tf.core.commands import COMMANDS
from cpc_tf.core.settings import unflatten
command = COMMANDS["classify"]
run = command.run
from cpc_tf.export import run as exporting
exporting.verify = lambda *_: {"difference": 0}  # a process of its own
values = {"labelled": "mine", "encoder": "module", "workdir": "run"}
command(unflatten(command.config, values))
"""
LOAD_ENCODER = """
import sys
import cpc_tf
cpc_tf.load_encoder("module").features("mine/x/red/0.png")
"""
# Program -> how many files of ours it may import. Others are printed: `pytest -s -k imports`.
MOST = {CLASSIFY: 79, LOAD_ENCODER: 41}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("imports")
    modules.write_module(root / "module")
    samples.write_pictures(root / "mine", {"x": 4})
    return root


@pytest.mark.slow
@pytest.mark.parametrize("program", MOST, ids=["classify", "load_encoder"])
def test_run_imports_few_files(program, folder):
    done = subprocess.run(
        [sys.executable, "-c", program + LOADED],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "CPC_TF_CACHE": f"{folder}/cache", "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    files = done.stdout.splitlines()[-1].split()
    print(f"{len(files)} files")
    assert len(files) <= MOST[program], files
    assert not {name for name in files if name.split(".")[1:2] in (["detect"], ["boxes"])}


def test_imports_of_each_command_are_counted():
    counts = {
        name: len(closure(each.function.partition(":")[0])) for name, each in COMMANDS.items()
    }
    print(json.dumps(counts, indent=2))
    assert all(counts.values())
