"""Batches of tf.data's service: the same as without it, and refused where they could not be."""

import itertools
import socket
import subprocess
import sys

import pytest
import tensorflow as tf
from tensorflow.data.experimental import service

from cpc_tf.core import cli, native
from cpc_tf.core.settings import ConfigError
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.pretrain.run import pretrain
from cpc_tf.training import data_service
from tests import samples
from tests.binaries import ROOT
from tests.snippets import python_of
from tests.training import killed_run

BATCHES = 40  # more than what is read ahead


def dispatcher():
    """(a dispatcher in this process, its HOST:PORT)."""
    server = service.DispatchServer()
    return server, server.target.removeprefix("grpc://")


def worker(address, port=0):
    return service.WorkerServer(service.WorkerConfig(address, port=port, heartbeat_interval_ms=100))


def numbers():
    return tf.data.Dataset.range(10**9).map(lambda number: {"number": number})


def take(address, count=BATCHES):
    """The first numbers, through the service at an address."""
    with data_service.explained(address):
        read = iter(data_service.compute(numbers, address))
        return [int(next(read)["number"]) for _ in range(count)]


def test_one_worker_keeps_the_order():
    server, address = dispatcher()
    one = worker(address)
    assert take(address) == [*range(BATCHES)]
    del one, server


def test_several_workers_are_refused():
    server, address = dispatcher()
    both = [worker(address) for _ in range(2)]
    with pytest.raises(data_service.LostOrder, match="--data_service=.*several"):
        take(address, 10**6)  # the service may tell of the second one a little later
    del both, server


@pytest.mark.slow
def test_a_worker_that_was_restarted_ends_the_run():
    server, address = dispatcher()
    first = worker(address)
    port = int(first._address.rpartition(":")[2])
    read = iter(data_service.compute(numbers, address))
    assert int(next(read)["number"]) == 0
    first._stop()
    del first
    second = worker(address, port)
    with pytest.raises(data_service.LostOrder), data_service.explained(address):
        [*itertools.islice(read, 10000)]
    del second, server


@pytest.mark.parametrize(("address", "message"), [
    ("localhost", "must be HOST:PORT"),
    ("localhost:x", "must be HOST:PORT"),
    ("localhost:99999", "must be HOST:PORT"),
    ("localhost:FREE", "no dispatcher answers"),
])  # fmt: skip
def test_an_address_without_dispatcher_is_refused(address, message):
    with socket.create_server(("localhost", 0)) as free:
        address = address.replace("FREE", str(free.getsockname()[1]))
    with pytest.raises(ConfigError, match=f"^--data_service={address}: {message}"):
        data_service.compute(numbers, address)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"node {native.IN_PYTHON}_3", "--dataset has WebP"),
        ("Op type not registered 'CpcAugmentPatches'", "--augment_engine=reference"),
    ],
)
def test_what_a_worker_cannot_compute_is_explained(text, message):
    error = tf.errors.InvalidArgumentError(None, None, text)
    refused = pytest.raises(ConfigError, match=f"^--data_service=a:1: .*{message}")
    with refused, data_service.explained("a:1"):
        raise error
    with pytest.raises(tf.errors.InvalidArgumentError), data_service.explained(""):
        raise error


@pytest.mark.slow
def test_the_documented_service_trains_the_same(tmp_path):
    """A run of docs/scale.md's service, which goes on without it, and one in this process alone."""
    code = python_of((ROOT / "docs/scale.md").read_text())
    with (
        socket.create_server(("localhost", 0)) as one,
        socket.create_server(("localhost", 0)) as two,
    ):
        ports = [each.getsockname()[1] for each in (one, two)]
    code = code.replace("5000", str(ports[0])).replace("5001", str(ports[1]))
    code = code.replace("worker.join()", 'print("ready", flush=True)\nworker.join()')
    flags = [*samples.PRETRAIN_SMALLEST, f"--data_dir={tmp_path}/data"]

    def train(name, *words):
        pretrain(cli.parse(PretrainConfig, [*flags, f"--workdir={tmp_path}/{name}", *words]))

    train("alone", "--train_steps=12")
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            train("served", "--train_steps=8", f"--data_service=localhost:{ports[0]}")
        finally:
            process.kill()
    train("served", "--train_steps=12")
    alone, served = (killed_run.outcome(tmp_path / name) for name in ("alone", "served"))
    assert not killed_run.differences(alone, served)
