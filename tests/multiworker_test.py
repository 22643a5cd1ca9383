"""Two workers in two processes train as one: the same global batch, gradients averaged over a socket."""

import json
import os
import pathlib
import socket
import subprocess
import sys

import pytest

from tests import modules, samples

pytestmark = pytest.mark.slow
SHORT = [*samples.PRETRAIN, "--train_steps=4"]


def _start(task, environment, *flags):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen([sys.executable, "-m", task, *flags], env={**os.environ, **environment}, **pipes)


def _start_workers(task, *flags):
    """Two processes of a cluster with the same flags."""
    cluster = {"worker": [f"localhost:{port}" for port in _free_ports(2)]}
    configs = [{"cluster": cluster, "task": {"type": "worker", "index": index}} for index in (0, 1)]
    return [_start(task, {"TF_CONFIG": json.dumps(config)}, "--strategy=multiworker", *flags) for config in configs]


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
    flags = [*SHORT, f"--data_dir={tmp_path}/data"]
    _finish(_start("cpc_tf.pretrain", {}, *flags, f"--workdir={tmp_path}/one"))
    workers = _start_workers("cpc_tf.pretrain", *flags, f"--workdir={tmp_path}/two")
    outputs = [_finish(process) for process in workers]
    assert _losses(tmp_path, "two") == pytest.approx(_losses(tmp_path, "one"), rel=1e-3)
    # Only the chief writes and reports.
    assert [("images/s" in output) for output in outputs] == [True, False]
    assert sorted(os.listdir(tmp_path / "two" / "checkpoints"))[-1] == "step_00000004.index"


def test_two_workers_train_all_classifiers_of_a_linear_run(tmp_path):
    modules.write_module(tmp_path / "hub")
    folder = samples.write_pictures(tmp_path / "pictures", {"train": 4, "val": 2})
    flags = ["--test_split=val", "--batch_size=4", "--train_steps=2", "--cached_views=1", f"--encoder={tmp_path}/hub"]
    flags += ["--augment=none", f"--dataset=folder:{folder}", f"--data_dir={tmp_path}/data"]
    outputs = [_finish(process) for process in _start_workers("cpc_tf.linear", *flags, f"--workdir={tmp_path}/run")]
    assert [("results and picture:" in output) for output in outputs] == [True, False]
    table = pathlib.Path(tmp_path, "run/table.txt").read_text()
    assert [line.split("  ")[0] for line in table.splitlines()[1:]] == ["encoder", "random encoder", "pixels", "chance"]
    _finish(_start("cpc_tf.linear", {}, *flags, f"--workdir={tmp_path}/one"))
    for part in ("", "random", "pixels"):
        results = (json.loads(pathlib.Path(tmp_path, run, part, "result.json").read_text()) for run in ("one", "run"))
        one, two = ({name: result[name] for name in ("top1", "loss")} for result in results)
        assert two == pytest.approx(one, rel=1e-3)
