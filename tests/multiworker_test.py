"""Two workers in two processes train as one: the same global batch, gradients averaged over a socket."""

import json
import os
import pathlib
import socket
import subprocess
import sys

import pytest

from tests import samples

SHORT = [*samples.PRETRAIN, "--train_steps=4", "--negatives=gathered"]


def _start(room, name, environment, *flags):
    command = [sys.executable, "-m", "cpc_tf.pretrain", *SHORT, f"--data_dir={room}/data", f"--workdir={room}/{name}"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen([*command, *flags], env={**os.environ, **environment}, **pipes)


def _finish(process):
    output = process.communicate(timeout=300)[0]
    assert process.returncode == 0, output
    return output


def _free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("localhost", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def _losses(room, name):
    return [json.loads(line)["loss"] for line in pathlib.Path(room, name, "metrics.jsonl").read_text().splitlines()]


def test_two_workers_train_as_one(tmp_path):
    _finish(_start(tmp_path, "one", {}))
    workers = [f"localhost:{port}" for port in _free_ports(2)]
    clusters = [
        {"TF_CONFIG": json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": i}})}
        for i in (0, 1)
    ]
    outputs = [_finish(p) for p in [_start(tmp_path, "two", c, "--strategy=multiworker") for c in clusters]]
    assert _losses(tmp_path, "two") == pytest.approx(_losses(tmp_path, "one"), rel=1e-3)
    # Only the chief writes and reports.
    assert [("images/s" in output) for output in outputs] == [True, False]
    assert sorted(os.listdir(tmp_path / "two" / "checkpoints"))[-1] == "step_00000004.index"
