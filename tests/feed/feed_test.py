"""Trainings on the batches of a real feed: the same bits, also after it was killed."""

import contextlib
import json
import os
import re
import shutil
import socket

import pytest

from benchmarks import feed as benchmark
from cpc_tf import cli
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.pretrain.run import pretrain
from cpc_tf.training import feeds
from tests import processes, samples
from tests.feed import apart
from tests.training import killed_run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder for prepared data."""
    return str(tmp_path_factory.mktemp("data"))


@contextlib.contextmanager
def a_feed():
    """(process of a feed, its address)."""
    with processes.start("cpc_tf.feed", "--port=0") as process:
        try:
            line = processes.wait_for(process, "feed:")
            yield process, f"localhost:{re.fullmatch(r'feed: ready at port ([0-9]+)', line.strip())[1]}"
        finally:
            process.kill()


@pytest.fixture(scope="module")
def feed():
    with a_feed() as found:
        yield found


def test_a_server_without_our_operations_gets_the_same_batches(feed, data):
    with socket.create_server(("localhost", 0)) as one:
        address = f"localhost:{one.getsockname()[1]}"
    with processes.start("tests.feed.apart", address) as server:
        try:
            found = processes.run("tests.feed.apart", address, data, env={**os.environ, feeds.VARIABLE: feed[1]})
        finally:
            server.kill()
    assert found.returncode == 0, found.stderr
    found = json.loads(found.stdout.splitlines()[-1])  # before it stands what opening the data says
    assert "Op type not registered 'CpcAugmentPatches'" in found["alone"]
    assert "/job:worker/" in found["device"]
    assert found["same"] == [True] * apart.BATCHES


def test_the_benchmark_measures_it(feed, monkeypatch):
    process, address = feed
    monkeypatch.setenv(feeds.VARIABLE, address)
    numbers = benchmark._row("photos/pretrain", process.pid, seconds=0.2).strip("| ").split(" | ")[1:]
    assert len(numbers) == 6
    assert all(float(number) > 0 for number in numbers)


def test_a_run_whose_feed_is_killed_ends_with_an_error_and_goes_on_with_another(data, tmp_path, monkeypatch):
    flags = [*samples.PRETRAIN_SMALLEST, f"--data_dir={data}", f"--workdir={tmp_path}/run"]
    # So many steps that it cannot end before its feed does.
    words = ["cpc_tf.pretrain", *flags, "--train_steps=100000"]
    with (
        a_feed() as (process, address),
        processes.start(*words, env={**os.environ, feeds.VARIABLE: address}) as training,
    ):
        assert processes.wait_for(training, "feeds:") == f"feeds: {address} (CPC_TF_FEED)\n"
        while not list(tmp_path.glob("run/checkpoints/step_*.index")):
            processes.wait_for(training, "loss")
        process.kill()
        _, error = training.communicate(timeout=120)
    assert training.returncode == 8
    assert error.splitlines()[-1] == (
        f"error: CPC_TF_FEED: the feed at {address} has ended; start `cpc-tf feed` there, then the same command again: "
        "the run goes on from its last checkpoint"
    )
    step = max(int(re.search(r"\d+", path.stem)[0]) for path in tmp_path.glob("run/checkpoints/step_*.index"))

    def train(*words):
        pretrain(cli.parse(PretrainConfig, [*flags, f"--train_steps={step + 8}", *words]))

    # Another process rounds otherwise, so both go on from the same step in this one.
    shutil.copytree(tmp_path / "run", tmp_path / "alone")
    train(f"--workdir={tmp_path}/alone")
    with a_feed() as (_, another):
        monkeypatch.setenv(feeds.VARIABLE, another)
        train()
    alone, fed = (killed_run.outcome(tmp_path / name) for name in ("alone", "run"))
    assert not killed_run.differences(alone, fed)
