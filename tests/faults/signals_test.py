"""SIGTERM and SIGINT at each stage of a binary: one line, and the exit status of a shell."""

import os
import re
import signal
import subprocess
import sys

import pytest

from tests import samples

STAGES = {"before training": "steps of", "in training": "loss"}  # what a run prints when it gets there


def start(room, *flags):
    command = [sys.executable, "-m", "cpc_tf.pretrain", *samples.PRETRAIN, "--train_steps=6", "--deterministic"]
    command += [f"--data_dir={room}/data", f"--workdir={room}/run", *flags]
    # A test that runs in the background may have been told to ignore SIGINT.
    usual = lambda: signal.signal(signal.SIGINT, signal.default_int_handler)  # noqa: E731
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, preexec_fn=usual, env={**os.environ, "PYTHONUNBUFFERED": "1"}, **pipes)


@pytest.mark.parametrize(("stage", "number"), [("before training", signal.SIGTERM), ("in training", signal.SIGINT)])
def test_a_signal_is_a_line_and_what_is_under_way_is_saved(stage, number, tmp_path):
    process = start(tmp_path)
    for line in process.stdout:
        if STAGES[stage] in line:
            break
    process.send_signal(number)
    _, error = process.communicate(timeout=120)
    assert process.returncode == 128 + number
    assert re.search(rf"error: stopped by {number.name}: .*; the same command goes on from there\n$", error)
    assert "Traceback" not in error
    saved = (tmp_path / "run/checkpoints").exists()
    assert saved is (stage == "in training") is ("saved step" in error)  # end_to_end_test.py goes on from there
