"""Two workers in two processes train as one: the same global batch, gradients averaged over a socket."""

import json
import os
import pathlib
import re
import signal
import subprocess

import pytest

from cpc_tf import cli
from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.linear.config import LinearConfig
from cpc_tf.linear.run import linear
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.pretrain.run import pretrain
from tests import modules, processes, samples
from tests.training import killed_workers

pytestmark = pytest.mark.slow
STEPS = 120


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """The flags of a dataset."""
    root = tmp_path_factory.mktemp("pictures")
    folder = samples.write_pictures(root / "pictures", {"train": 4, "val": 2})
    return [f"--dataset=folder:{folder}", f"--data_dir={root}/data"]


@pytest.fixture(scope="module")
def flags(pictures):
    return [*samples.PRETRAIN_SMALLEST, *pictures, "--split=train", f"--train_steps={STEPS}", "--checkpoint_every=10"]


@pytest.fixture(scope="module")
def two(flags, tmp_path_factory):
    """The directory of a run of two workers, and what each printed."""
    workdir = tmp_path_factory.mktemp("two") / "run"
    return workdir, train("cpc_tf.pretrain", *flags, f"--workdir={workdir}")


def train(task, *flags):
    """Lets both workers train to the end; returns what each printed."""
    start = processes.cluster(task, *flags)
    workers = [start(index) for index in (0, 1)]
    outputs = [worker.communicate(timeout=300)[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], outputs
    return outputs


def test_two_workers_train_as_one(flags, two, tmp_path):
    workdir, outputs = two
    pretrain(cli.parse(PretrainConfig, [*flags, "--strategy=single", "--train_steps=4", f"--workdir={tmp_path}"]))
    ones, twos = (
        [json.loads(line)["loss"] for line in (folder / "metrics.jsonl").read_text().splitlines()[:4]]
        for folder in (tmp_path, workdir)
    )
    assert twos == pytest.approx(ones, rel=1e-3)
    # Only the chief writes and reports.
    assert [("images/s" in output) for output in outputs] == [True, False]
    assert sorted(os.listdir(workdir / "checkpoints"))[-1] == f"step_{STEPS:08d}.index"


def test_a_signal_to_one_saves_and_ends_both_and_killed_ones_end_bit_for_bit_equal(flags, two, tmp_path):
    workdir = tmp_path / "run"
    start = processes.cluster("cpc_tf.pretrain", *flags, f"--workdir={workdir}")
    workers = [start(index) for index in (0, 1)]
    processes.wait_for(workers[0], "loss")
    workers[1].send_signal(signal.SIGTERM)
    outputs = [worker.communicate(timeout=300)[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [143, 143], outputs
    steps = [int(re.search(r"error: stopped by SIGTERM: saved step (\d+) in", output)[1]) for output in outputs]
    saved = [path.name for path in workdir.glob("checkpoints/*.index")]
    assert (steps[0], max(saved)) == (steps[1], f"step_{steps[0]:08d}.index")
    assert steps[0] < STEPS

    start = processes.cluster("cpc_tf.pretrain", *flags, f"--workdir={workdir}", stdout=subprocess.DEVNULL)
    ended = killed_workers.kill(start, two[0], workdir, STEPS, kills=1, seed=12)
    assert re.match(r"killed 0 and 1 times, lost the other 1 times: ended equal", ended)


def test_two_workers_train_all_classifiers_of_a_linear_run(pictures, tmp_path):
    modules.write_module(tmp_path / "hub", EncoderConfig(encoder="tiny", output_stack=1))
    flags = ["--test_split=val", "--batch_size=4", "--train_steps=2", "--cached_views=1", f"--encoder={tmp_path}/hub"]
    flags += ["--augment=none", *pictures]
    outputs = train("cpc_tf.linear", *flags, f"--workdir={tmp_path}/run")
    assert [("results and picture:" in output) for output in outputs] == [True, False]
    table = pathlib.Path(tmp_path, "run/table.txt").read_text()
    assert [line.split("  ")[0] for line in table.splitlines()[1:]] == ["encoder", "random encoder", "pixels", "chance"]
    linear(cli.parse(LinearConfig, [*flags, "--strategy=single", f"--workdir={tmp_path}/one"]))
    for part in ("", "random", "pixels"):
        results = (json.loads(pathlib.Path(tmp_path, run, part, "result.json").read_text()) for run in ("one", "run"))
        one, two = ({name: result[name] for name in ("top1", "loss")} for result in results)
        assert two == pytest.approx(one, rel=1e-3)
