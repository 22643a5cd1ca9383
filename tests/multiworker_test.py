"""Two workers in two processes train as one: the same global batch, gradients averaged over a socket."""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys

import pytest

from cpc_tf import cli
from cpc_tf.linear.config import LinearConfig
from cpc_tf.linear.run import linear
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.pretrain.run import pretrain
from tests import modules, samples

pytestmark = pytest.mark.slow
SMALLER = ["--encoder=tiny", "--resize=24", "--image_size=24", "--patch_size=8", "--patch_stride=8"]
SHORT = [*samples.PRETRAIN, *SMALLER, "--directions=1", "--split=train", "--train_steps=4"]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """The flags of a dataset."""
    root = tmp_path_factory.mktemp("pictures")
    folder = samples.write_pictures(root / "pictures", {"train": 4, "val": 2})
    return [f"--dataset=folder:{folder}", f"--data_dir={root}/data"]


def start_workers(task, *flags, before=()):
    """Two processes of a cluster with the same flags; `before` are words of the command line that start the binary."""
    addresses = [f"localhost:{port}" for port in _free_ports(2)]
    return [start_worker(index, addresses, task, *flags, before=before) for index in (0, 1)]


def start_worker(index, addresses, task, *flags, before=()):
    """One process of a cluster."""
    config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "TF_CONFIG": json.dumps(config)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    command = [*before, sys.executable, "-m", task, "--strategy=multiworker", *flags]
    return subprocess.Popen(command, env=environment, **pipes)


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


def test_two_workers_train_as_one(pictures, tmp_path):
    flags = [*SHORT, *pictures]
    pretrain(cli.parse(PretrainConfig, [*flags, "--strategy=single", f"--workdir={tmp_path}/one"]))
    workers = start_workers("cpc_tf.pretrain", *flags, f"--workdir={tmp_path}/two")
    outputs = [_finish(process) for process in workers]
    assert _losses(tmp_path, "two") == pytest.approx(_losses(tmp_path, "one"), rel=1e-3)
    # Only the chief writes and reports.
    assert [("images/s" in output) for output in outputs] == [True, False]
    assert sorted(os.listdir(tmp_path / "two" / "checkpoints"))[-1] == "step_00000004.index"


def test_a_signal_to_one_of_them_saves_and_ends_both_after_the_same_step(pictures, tmp_path):
    places = [*pictures, f"--workdir={tmp_path}/run"]
    workers = start_workers("cpc_tf.pretrain", *SHORT, "--train_steps=4000", "--checkpoint_every=4000", *places)
    while "loss" not in (line := workers[0].stdout.readline()):
        assert line, "ended before it trained"
    workers[1].send_signal(signal.SIGTERM)
    outputs = [process.communicate(timeout=300)[0] for process in workers]
    assert [process.returncode for process in workers] == [143, 143], outputs
    steps = [int(re.search(r"error: stopped by SIGTERM: saved step (\d+) in", output)[1]) for output in outputs]
    saved = [path.name for path in tmp_path.glob("run/checkpoints/*.index")]
    assert (steps[0], saved) == (steps[1], [f"step_{steps[0]:08d}.index"])


def test_two_workers_train_all_classifiers_of_a_linear_run(pictures, tmp_path):
    modules.write_module(tmp_path / "hub")
    flags = ["--test_split=val", "--batch_size=4", "--train_steps=2", "--cached_views=1", f"--encoder={tmp_path}/hub"]
    flags += ["--augment=none", *pictures]
    outputs = [_finish(process) for process in start_workers("cpc_tf.linear", *flags, f"--workdir={tmp_path}/run")]
    assert [("results and picture:" in output) for output in outputs] == [True, False]
    table = pathlib.Path(tmp_path, "run/table.txt").read_text()
    assert [line.split("  ")[0] for line in table.splitlines()[1:]] == ["encoder", "random encoder", "pixels", "chance"]
    linear(cli.parse(LinearConfig, [*flags, "--strategy=single", f"--workdir={tmp_path}/one"]))
    for part in ("", "random", "pixels"):
        results = (json.loads(pathlib.Path(tmp_path, run, part, "result.json").read_text()) for run in ("one", "run"))
        one, two = ({name: result[name] for name in ("top1", "loss")} for result in results)
        assert two == pytest.approx(one, rel=1e-3)
