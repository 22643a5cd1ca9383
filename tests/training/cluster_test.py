"""Processes that train together: they meet, exchange numbers and must agree; who is lost is named."""

import contextlib
import json
import os
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.core.files import NotWritten, writing
from cpc_tf.core.settings import ConfigError, replace
from cpc_tf.linear.config import LinearConfig
from cpc_tf.training import cluster
from cpc_tf.training.strategy import make_strategy
from tests import processes


def free_addresses(count):
    with socket.socket() as one:
        one.bind(("", 0))
        port = one.getsockname()[1]
    return [f"localhost:{port}", *(f"elsewhere:{number}" for number in range(1, count))]


def meet(addresses, waits):
    """How each of these processes, here threads, ends: its number -> how long it waits -> its message, or 'met'."""

    def end(index):
        try:
            cluster._meet(addresses, index, waits[index])
        except ConfigError as error:
            return str(error)
        return "met"

    with ThreadPoolExecutor(len(waits)) as pool:
        return dict(zip(waits, pool.map(end, waits)))


def start(played, index, addresses):
    """A process that plays something, see cluster_process.py."""
    config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
    environment = {**os.environ, "TF_CONFIG": json.dumps(config)}
    return processes.start(
        "tests.training.cluster_process", played, index, *addresses, env=environment
    )


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_processes_meet_in_any_order(order):
    assert meet(free_addresses(3), dict.fromkeys(order, 30)) == dict.fromkeys(order, "met")


def test_who_does_not_come_is_named():
    addresses = free_addresses(3)
    ends = meet(addresses, {0: 1, 2: 2})
    assert "waited 1 seconds in vain for elsewhere:1 of TF_CONFIG;" in ends[0]
    assert f"in vain for {addresses[0]} of TF_CONFIG" in ends[2]
    assert (
        f"in vain for {addresses[0]} of TF_CONFIG (Connection refused)"
        in meet(addresses, {1: 0.5})[1]
    )
    with pytest.raises(ConfigError, match="machine in TF_CONFIG: must be HOST:PORT"):
        cluster._meet(["machine", "other"], 0, 1)


@pytest.mark.slow  # waits
def test_one_that_was_killed_while_it_waited_counts_no_more():
    addresses = free_addresses(2)
    with ThreadPoolExecutor(1) as pool:
        ends = pool.submit(meet, addresses, {0: 2})
        connection = None
        while connection is None:
            with contextlib.suppress(OSError):
                connection = socket.create_connection(
                    ("localhost", int(addresses[0].split(":")[1])), timeout=5
                )
        # Not the number of another process: it does not count either.
        connection.sendall(b"7")
        connection.close()
    assert "in vain for elsewhere:1" in ends.result()[0]


@pytest.mark.slow  # waits
def test_a_server_of_a_process_that_will_end_is_not_taken_for_the_first_one():
    with socket.create_server(("", 0)) as stale:
        address = [f"localhost:{stale.getsockname()[1]}", "elsewhere:1"]

        def serve():
            connection = stale.accept()[0]
            connection.sendall(b"PRI * HTTP/2.0")
            connection.close()

        threading.Thread(target=serve).start()
        ends = meet(address, {1: 1})
    assert "in vain" in ends[1]


@pytest.mark.slow
def test_one_that_ends_before_tensorflow_connects_does_not_hold_up_the_others():
    addresses = free_addresses(2)
    first = start("lone", 0, addresses)
    cluster._meet(addresses, 1, wait=100)
    _, errors = first.communicate(timeout=100)
    assert first.returncode == -signal.SIGALRM
    assert (
        "the processes of TF_CONFIG were not connected within 2 seconds; one of them has ended"
        in errors
    )


def test_errors_of_a_lost_worker_become_one():
    lost = tf.errors.UnavailableError(
        None,
        None,
        "Graph execution error:\n\nat node\nCollective ops is aborted by: a timeout\nmore",
    )
    with (
        pytest.raises(cluster.LostWorker, match=r"from its last checkpoint \(a timeout\)$"),
        cluster.together("multiworker"),
    ):
        raise lost
    with pytest.raises(cluster.LostWorker), cluster.together("multiworker"), writing("checkpoint"):
        raise lost
    # Not in a run of one process, where a bucket may be out of reach, and not an error that would come again.
    with pytest.raises(tf.errors.UnavailableError), cluster.together("single"):
        raise lost
    with pytest.raises(NotWritten), cluster.together("multiworker"), writing("checkpoint"):
        raise OSError("full")


def test_the_lost_one_is_named_and_not_those_that_ended_for_its_sake():
    with socket.create_server(("", 0)) as alive:
        here = alive.getsockname()[1]
        ports = {("chief", 0): here, ("worker", 0): 1, ("worker", 1): 2, ("worker", 2): here}
        members = [cluster.Member(*name, f"localhost:{port}") for name, port in ports.items()]
        message = "Error reported from /job:chief/task:0: Task /job:worker/replica:0/task:1 heartbeat timeout"
        lost = tf.errors.UnavailableError(None, None, message)
        with (
            pytest.raises(cluster.LostWorker, match="^localhost:2 has"),
            cluster.together("multiworker", members),
        ):
            raise lost
        # No process is named, or only one that answers: those that do not.
        assert cluster._lost([], members, 3) == ["localhost:1", "localhost:2"]
        assert cluster._lost([("chief", "0")], members, 3) == ["localhost:1", "localhost:2"]
        # All answer, as one that hangs does; a process never names itself.
        both = [members[0], members[3]]
        assert cluster._lost([("worker", "2"), ("chief", "0")], both, 0) == [members[3].address]


def test_the_host_of_a_tpu_is_named_and_a_bucket_is_none():
    lost = tf.errors.UnavailableError(
        None, None, "Socket closed, from remote target /job:worker/replica:0/task:3:"
    )
    with (
        pytest.raises(cluster.LostWorker, match="^host 3 of the TPU has ended"),
        cluster.together("tpu"),
    ):
        raise lost
    with pytest.raises(tf.errors.UnavailableError), cluster.together("tpu"):
        raise tf.errors.UnavailableError(None, None, "gs://bucket: try again")


@pytest.mark.slow
def test_two_processes_tell_who_differs_and_who_is_lost():
    with socket.socket() as one, socket.socket() as two:
        for each in (one, two):
            each.bind(("localhost", 0))
        addresses = [f"localhost:{each.getsockname()[1]}" for each in (one, two)]
    started = [start("pair", index, addresses) for index in (0, 1)]
    outputs = [process.communicate(timeout=200)[0] for process in started]
    assert [process.returncode for process in started] == [6, 9], outputs
    names = [f"CPU:0 of {address}" for address in addresses]
    for output in outputs:
        assert f"{names} [[5, -1], [6, -1]]\n" in output
        assert (
            f"differ in --split: 0 images at {addresses[0]}, 1 images at {addresses[1]};" in output
        )
    assert f"\n{addresses[1]} has ended or cannot be reached; start the same command" in outputs[0]


@pytest.fixture
def ends(monkeypatch):
    """[facts of each process, which is a thread here] -> how each ends: the message of its error, or ''."""

    def run(facts):
        hosts, table, barrier = (
            [f"host{index}:2222" for index in range(len(facts))],
            {},
            threading.Barrier(len(facts)),
        )

        def gather(index, values):
            table[index] = [*values]
            barrier.wait(60)
            found = np.array([table[index] for index in range(len(hosts))])
            barrier.wait(60)
            return found

        def end(index):
            try:
                cluster.agree(
                    index, lambda: facts[index]
                )  # the number of the process in place of a strategy
            except ConfigError as error:
                return str(error)
            return ""

        monkeypatch.setattr(cluster, "addresses", lambda _: hosts)
        monkeypatch.setattr(cluster, "gathered_of_processes", gather)
        with ThreadPoolExecutor(len(facts)) as pool:
            return list(pool.map(end, range(len(facts))))

    return run


def test_who_differs_from_most_is_named_to_all_with_what_it_has(ends):
    same = {
        "the task": "linear",
        "--split": "1,200 images, 4 classes, digest 0a1b2c3d",
        "--seed": 0,
    }
    assert ends([same] * 3) == [""] * 3
    found = ends(
        [same, {**same, "--split": "1,100 images, 4 classes, digest 9f8e7d6c", "--seed": 1}, same]
    )
    wanted = "differ in --split (and in --seed): 1,100 images, 4 classes, digest 9f8e7d6c at host1:2222, 1,200 images, "
    assert wanted + "4 classes, digest 0a1b2c3d at the others;" in found[0]
    assert found == [found[0]] * 3


def test_one_process_is_asked_nothing():
    cluster.agree(make_strategy("single"), lambda: pytest.fail("asked"))


def test_settings_are_compared_but_for_places():
    one, other = (LinearConfig(), replace(LinearConfig(), workdir="/mnt/run", data_dir="/mnt/data"))
    assert cluster.about_settings(one) == cluster.about_settings(other)
    other = replace(
        LinearConfig(), steps_per_loop=7
    )  # free on resume: processes that differ in it would wait for ever
    assert cluster.about_settings(one) != cluster.about_settings(other)


def test_machines_with_other_sources_of_the_operations_have_other_code(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster.cpc_tf, "__file__", str(tmp_path / "__init__.py"))
    for name in ("a.py", "op.cc", "op.h", "notes.txt"):
        (tmp_path / name).write_text("")
    codes = [cluster.about_program("linear")["the version of cpc_tf"]]
    for name in ("notes.txt", "a.py", "op.cc", "op.h"):
        (tmp_path / name).write_text("changed")
        codes.append(cluster.about_program("linear")["the version of cpc_tf"])
    assert codes[0] == codes[1]
    assert len(set(codes)) == 4
