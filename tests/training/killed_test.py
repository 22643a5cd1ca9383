"""Whole binaries that are killed, stopped by signals, or out of room: one line, and the same command goes on."""

import os
import re
import resource
import signal
import subprocess
import sys

import numpy as np
import pytest

from cpc_tf.data import catalog
from cpc_tf.files import read_json
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.pretrain.run import pretrain
from cpc_tf.settings import replace
from cpc_tf.training.workdir import read_config
from tests import samples
from tests.pretrain.tiny import TINY
from tests.training import killed_run, killed_workers

pytestmark = pytest.mark.slow
STAGES = {"before training": "steps of", "in training": "loss"}  # what a run prints when it gets there


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Photographs that are there already."""
    folder = str(tmp_path_factory.mktemp("data"))
    catalog.open_source(replace(TINY, data_dir=folder).data, TINY.data.split)
    return folder


def start(data, room, steps, before):
    """Starts the binary; `before` is called in its process first."""
    command = [
        sys.executable,
        "-m",
        "cpc_tf.pretrain",
        *samples.PRETRAIN,
        *killed_workers.SMALLER,
        f"--train_steps={steps}",
    ]
    command += [f"--data_dir={data}", f"--workdir={room}/run"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, preexec_fn=before, env={**os.environ, "PYTHONUNBUFFERED": "1"}, **pipes)


def test_runs_killed_at_random_moments_end_bit_for_bit_equal(tmp_path):
    ended = killed_run.kill("efficient", tmp_path, kills=3, seed=0)
    assert re.match(r"efficient: 3 kills; [1-4] runs ended equal, 0 were refused", ended)


def test_two_workers_of_which_one_is_killed_end_bit_for_bit_equal(tmp_path):
    ended = killed_workers.kill(tmp_path, kills=2, seed=8, steps=60)
    assert re.match(r"killed 1 and 1 times, .* ended equal", ended)


def test_differences_are_named():
    one = {"accuracy": 0.5, "kernel": np.ones(3), "bias": np.zeros(2)}
    assert killed_run.differences(one, {**one, "kernel": np.ones(3)}) == []
    other = {"accuracy": 0.6, "kernel": np.array([1, 1, 2.0]), "scale": np.ones(1)}
    assert set(killed_run.differences(one, other)) == {"accuracy", "kernel", "bias", "scale"}


@pytest.mark.parametrize(("stage", "number"), [("before training", signal.SIGTERM), ("in training", signal.SIGINT)])
def test_a_signal_is_a_line_and_what_is_under_way_is_saved(stage, number, data, tmp_path):
    # A test that runs in the background may have been told to ignore SIGINT.
    process = start(data, tmp_path, 40, lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    for line in process.stdout:
        if STAGES[stage] in line:
            break
    process.send_signal(number)
    _, error = process.communicate(timeout=120)
    assert process.returncode == 128 + number
    assert re.search(rf"error: stopped by {number.name}: .*; the same command goes on from there\n$", error)
    assert "Traceback" not in error
    saved = (tmp_path / "run/checkpoints").exists()
    assert saved is (stage == "in training") is ("saved step" in error)


def test_a_full_disk_is_one_line_and_the_rerun_goes_on(data, tmp_path):
    """No file may grow beyond a limit that is less than a checkpoint."""

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))

    full = start(data, tmp_path, 4, limit)
    _, error = full.communicate(timeout=300)
    assert full.returncode == 4, error
    (line,) = [line for line in error.splitlines() if line.startswith("error: ")]
    assert "cannot be written" in line
    assert "Traceback" not in error
    assert not list(tmp_path.glob("run/checkpoints/*"))
    again = pretrain(read_config(f"{tmp_path}/run", PretrainConfig))
    assert again["step"] == read_json(f"{tmp_path}/run/result.json")["step"] == 4
