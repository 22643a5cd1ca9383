"""The two environments: which Python goes with which, and whether modules and runs of one work in
the other.

Tests that need both run only where CPC_TF_OTHER_PYTHON names the Python of the other environment,
as .ci/run does.
"""

import os
import shutil
import subprocess
import sys

import pytest
import tensorflow as tf

from cpc_tf.core.files import read_json
from cpc_tf.export.encoder import encoder_reference
from cpc_tf.export.verify import verify
from tests import samples
from tests.binaries import ROOT
from tests.modules import GEOMETRY, write_module

OTHER = os.environ.get("CPC_TF_OTHER_PYTHON", "")
needs_both = pytest.mark.skipif(not OTHER, reason="CPC_TF_OTHER_PYTHON names no Python")


@pytest.fixture
def setup(tmp_path):
    """Runs setup.sh with made-up interpreters alone: {name: version, or None for a broken one}."""

    def run(versions, *arguments):
        folder = tmp_path / "bin"
        folder.mkdir()
        for name, version in versions.items():
            # It knows its version and fails at everything else, so nothing is installed.
            (folder / name).write_text(
                f'#!/bin/sh\n[ "$1" = -c ] && [ {version} != None ] && echo {version}\n'
            )
            (folder / name).chmod(0o755)
        for tool in ("bash", "dirname", "df", "awk", "mkdir"):
            (folder / tool).symlink_to(shutil.which(tool))
        command = ["bash", ROOT / "setup.sh", tmp_path / "venv", *arguments]
        return subprocess.run(command, env={"PATH": str(folder)}, capture_output=True, text=True)

    return run


@pytest.mark.parametrize(("versions", "arguments", "chosen"), [
    ({"python3": "3.9"}, [], "classic environment with Python 3.9"),
    ({"python3": "3.12"}, [], "current environment with Python 3.12"),
    ({"python3": "3.11"}, ["current"], "current environment with Python 3.11"),
    ({"python3": "3.9", "python3.13": "3.13"}, ["current"], "current environment with Python 3.13"),
    ({"python3": "3.12", "python3.10": "3.10"}, ["classic"], "classic environment with Python 3.10"),
    ({"python3": "3.14", "python3.11": "3.11", "python3.12": "3.12"}, [], "current environment with Python 3.12"),
    ({"python3": "3.8", "python3.13": None, "python3.10": "3.10"}, [], "classic environment with Python 3.10"),
    ({"python3": "3.12", "mine": "3.10"}, ["", "mine"], "classic environment with Python 3.10"),
    ({"python3": "3.8", "my python": "3.12"}, ["", "my python"], "current environment with Python 3.12"),
])  # fmt: skip
def test_the_environment_is_that_of_the_python(setup, versions, arguments, chosen):
    assert f"the {chosen} " in setup(versions, *arguments).stdout


@pytest.mark.parametrize(("versions", "arguments", "message"), [
    ({}, [], "needs Python 3.9 - 3.13: there is no python3; name one: make PYTHON=python3.12"),
    ({"python3": "3.14"}, ["classic"], "needs Python 3.9 - 3.11: python3 is 3.14; name one: make PYTHON=python3.1"),
    ({"python3": "3.11", "old": "3.8"}, ["", "old"], "needs Python 3.9 - 3.13: old is 3.8; name one:"),
    ({"python3": "3.11"}, ["", "none"], "there is no none; name one:"),
    ({"python3": "3.11"}, ["new"], "ENVIRONMENT=new: must be classic (TensorFlow 2.15) or current (TensorFlow 2.2"),
])  # fmt: skip
def test_a_python_of_no_environment_is_one_line(setup, versions, arguments, message):
    done = setup(versions, *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_what_a_link_leads_to_is_not_emptied(setup, tmp_path):
    (tmp_path / "others").mkdir()
    (tmp_path / "venv").symlink_to(tmp_path / "others")
    done = setup({"python3": "3.11"})
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(
        f"error: {tmp_path}/venv is a symbolic link, and a set-up empties the folder; name "
    )


@needs_both
@pytest.mark.slow
def test_a_module_works_in_the_other_environment(tmp_path, monkeypatch):
    """Its outputs of all sizes, and the gradients that fine-tuning with hub.KerasLayer needs."""
    encoder = write_module(tmp_path)
    monkeypatch.setattr(sys, "executable", OTHER)
    found = verify("encoder", str(tmp_path), encoder_reference(encoder, GEOMETRY))
    assert found["variables"] == len(encoder.trainable_variables)


@needs_both
@pytest.mark.slow
def test_run_resumes_in_the_other_environment(tmp_path):
    def train(python, steps):
        folders = [f"--data_dir={tmp_path}/data", f"--workdir={tmp_path}/run"]
        command = [
            python,
            "-m",
            "cpc_tf.pretrain",
            *samples.PRETRAIN,
            *folders,
            f"--train_steps={steps}",
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT)
        assert done.returncode == 0, done.stderr
        return done.stderr

    assert "started with" not in train(sys.executable, 4)
    assert train(OTHER, 8).count(f"started with TensorFlow {tf.__version__} and resumes with ") == 1
    assert read_json(f"{tmp_path}/run/result.json")["step"] == 8


def test_the_image_finds_the_program_anywhere():
    """Docker is not here: the lines of the Dockerfile are, which set up as `make setup` does."""
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    workdir = next(line.split()[1] for line in lines if line.startswith("WORKDIR "))
    path = lines.index(f"ENV PATH={workdir}/.venv/bin:$PATH")
    assert lines.index("RUN make setup GPU=$GPU") < path
    assert "\nVENV ?= .venv\n" in (ROOT / "Makefile").read_text()
    assert lines[-1] == 'CMD ["make", "demo"]'
