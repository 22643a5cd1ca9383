"""Trainings on the batches of a real feed: the same bits, also after it was killed, and for nobody else."""

import contextlib
import json
import os
import re
import shutil
import socket
import sys

import pytest
import tensorflow as tf

from benchmarks import feed as benchmark
from cpc_tf.core import cli
from cpc_tf.core.settings import ConfigError
from cpc_tf.feed import serve
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
def a_feed(*words, **variables):
    """(process of a feed, its address)."""
    with processes.start(
        "cpc_tf.feed", "--port=0", *words, env={**os.environ, **variables}
    ) as process:
        try:
            line = processes.wait_for(process, "input server:")
            yield (
                process,
                f"localhost:{re.fullmatch(r'input server: ready at port ([0-9]+)', line.strip())[1]}",
            )
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
            found = processes.run(
                "tests.feed.apart", address, data, env={**os.environ, feeds.VARIABLE: feed[1]}
            )
        finally:
            server.kill()
    assert found.returncode == 0, found.stderr
    found = json.loads(found.stdout.splitlines()[-1])  # before it stands what opening the data says
    assert "Op type not registered 'CpcAugmentPatches'" in found["alone"]
    assert "/job:worker/" in found["device"]
    assert found["same"] == [True] * apart.BATCHES


def counted(address, monkeypatch):
    """The numbers 0 to 2, through a feed, and the ports at which it then listens."""
    monkeypatch.setenv(feeds.VARIABLE, address)
    first = int(address.rpartition(":")[2]) + 1
    with feeds.connected():
        numbers = feeds.through(
            lambda: tf.data.Dataset.range(3), tf.distribute.InputContext(), hosts=["localhost"]
        )
        found = list(numbers.as_numpy_iterator())
        return found, [port for port in (first, first + 1) if not serve._is_free(port)]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux limits who reaches a port")
def test_others_reach_no_port_of_it_and_with_a_secret_those_who_know_it_do(
    feed, tmp_path, monkeypatch
):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        with contextlib.suppress(OSError):
            one.connect(("192.0.2.1", 9))
        here = one.getsockname()[0]
    if here in ("0.0.0.0", "127.0.0.1"):
        pytest.skip("this machine has no network")
    monkeypatch.setattr(feeds, "_WAIT", 0)
    reach = feeds.Connection

    class Watched(reach):
        def register(self, dataset):
            """Tries to reach TensorFlow's ports from outside while they are served."""
            port = int(self._service.rpartition(":")[2])
            for each in (port, port + 1):
                with pytest.raises(TimeoutError):
                    socket.create_connection((here, each), timeout=0.3)
            return super().register(dataset)

    monkeypatch.setattr(feeds, "Connection", Watched)
    assert counted(feed[1], monkeypatch)[0] == [0, 1, 2]
    with pytest.raises(feeds.LostFeed, match="Connection refused"):
        counted(feed[1].replace("localhost", here), monkeypatch)
    monkeypatch.setattr(feeds, "Connection", reach)

    secret = tmp_path / "feed.secret"
    secret.write_text("0123456789abcdef\n")
    secret.chmod(0o600)
    with a_feed("--address=0.0.0.0", **{feeds.SECRET: str(secret)}) as (process, address):
        address = address.replace("localhost", here)
        with pytest.raises(ConfigError, match="has another secret"):
            counted(address, monkeypatch)
        told = processes.wait_for(process, "input server:")
        assert told == f"input server: refused {here}, which has another secret\n"
        monkeypatch.setenv(feeds.SECRET, str(secret))
        first = int(address.rpartition(":")[2]) + 1
        assert counted(address, monkeypatch) == ([0, 1, 2], [first, first + 1])


def test_the_benchmark_measures_it(feed, monkeypatch):
    process, address = feed
    monkeypatch.setenv(feeds.VARIABLE, address)
    numbers = (
        benchmark._row("photos/pretrain", process.pid, seconds=0.2).strip("| ").split(" | ")[1:]
    )
    assert len(numbers) == 6
    assert all(float(number) > 0 for number in numbers)


def test_a_run_whose_feed_is_killed_ends_with_an_error_and_goes_on_with_another(
    data, tmp_path, monkeypatch
):
    flags = [*samples.PRETRAIN_SMALLEST, f"--data_dir={data}", f"--workdir={tmp_path}/run"]
    # So many steps that it cannot end before its feed does.
    words = ["cpc_tf.pretrain", *flags, "--train_steps=100000"]
    with (
        a_feed() as (process, address),
        processes.start(*words, env={**os.environ, feeds.VARIABLE: address}) as training,
    ):
        assert (
            processes.wait_for(training, "input servers:")
            == f"input servers: {address} (CPC_TF_FEED)\n"
        )
        while not list(tmp_path.glob("run/checkpoints/step_*.index")):
            processes.wait_for(training, "loss")
        process.kill()
        _, error = training.communicate(timeout=120)
    assert training.returncode == 8
    assert error.splitlines()[-1] == (
        f"error: CPC_TF_FEED: the input server at {address} has ended; start `cpc-tf feed` there, then the same "
        "command again: the run goes on from its last checkpoint"
    )
    step = max(
        int(re.search(r"\d+", path.stem)[0])
        for path in tmp_path.glob("run/checkpoints/step_*.index")
    )

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
