"""Processes that train together: they exchange numbers, must agree, and end if one is lost."""

import json
import os
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


def start(index, addresses):
    """A process of two, see cluster_process.py."""
    config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
    environment = {**os.environ, "TF_CONFIG": json.dumps(config)}
    return processes.start("tests.training.cluster_process", index, env=environment)


def test_errors_of_a_lost_worker_become_one():
    lost = tf.errors.UnavailableError(
        None,
        None,
        "Graph execution error:\n\nat node\nCollective ops is aborted by: a timeout\nmore",
    )
    with (
        pytest.raises(cluster.LostWorker, match=r"from the last checkpoint \(a timeout\)$"),
        cluster.lost_workers_explained("multiworker"),
    ):
        raise lost
    with (
        pytest.raises(cluster.LostWorker),
        cluster.lost_workers_explained("multiworker"),
        writing("checkpoint"),
    ):
        raise lost
    # Not in a run of one process, where a bucket may be out of reach, and not an error that would
    # come again.
    with pytest.raises(tf.errors.UnavailableError), cluster.lost_workers_explained("single"):
        raise lost
    with (
        pytest.raises(NotWritten),
        cluster.lost_workers_explained("multiworker"),
        writing("checkpoint"),
    ):
        raise OSError("full")


def test_lost_tpu_host_is_named_but_no_bucket():
    lost = tf.errors.UnavailableError(
        None, None, "Socket closed, from remote target /job:worker/replica:0/task:3:"
    )
    with (
        pytest.raises(cluster.LostWorker, match="task:3"),
        cluster.lost_workers_explained("tpu"),
    ):
        raise lost
    with pytest.raises(tf.errors.UnavailableError), cluster.lost_workers_explained("tpu"):
        raise tf.errors.UnavailableError(None, None, "gs://bucket: try again")


@pytest.mark.slow
def test_two_processes_report_differences_and_lost_workers():
    with socket.socket() as one, socket.socket() as two:
        for each in (one, two):
            each.bind(("localhost", 0))
        addresses = [f"localhost:{each.getsockname()[1]}" for each in (one, two)]
    started = [start(index, addresses) for index in (0, 1)]
    outputs = [process.communicate(timeout=200)[0] for process in started]
    assert [process.returncode for process in started] == [6, 9], outputs
    names = [f"CPU:0 of {address}" for address in addresses]
    for output in outputs:
        assert f"{names} [[5, -1], [6, -1]]\n" in output
    for index, output in enumerate(outputs):
        assert f"differ in --split (here {index} images);" in output
    assert "\nanother process of the cluster has ended" in outputs[0]


@pytest.fixture
def ends(monkeypatch):
    """[facts of each process, which is a thread here] -> how each ends: the message of its error,
    or ''.
    """

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
                # the number of the process in place of a strategy
                cluster.agree(index, lambda: facts[index])
            except ConfigError as error:
                return str(error)
            return ""

        monkeypatch.setattr(cluster, "addresses", lambda _: hosts)
        monkeypatch.setattr(cluster, "gathered_of_processes", gather)
        with ThreadPoolExecutor(len(facts)) as pool:
            return list(pool.map(end, range(len(facts))))

    return run


def test_what_differs_is_named_with_its_own_value(ends):
    same = {"the task": "linear", "--split": "1,200 images", "--seed": 0}
    assert ends([same] * 3) == [""] * 3
    found = ends([same, {**same, "--split": "1,100 images", "--seed": 1}, same])
    assert "differ in --split (here 1,200 images)" in found[0]
    assert "--split (here 1,100 images)" in found[1]
    assert "--seed (here 1)" in found[1]
    assert "the task" not in found[1]


@pytest.mark.parametrize("address", ["machine", "machine:x"])
def test_an_address_without_port_is_refused(monkeypatch, address):
    config = {"cluster": {"worker": [address]}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    with pytest.raises(ConfigError, match="must be HOST:PORT"):
        cluster.members()


def test_one_process_is_asked_nothing():
    cluster.agree(make_strategy("single"), lambda: pytest.fail("asked"))


def test_settings_are_compared_but_for_places():
    one, other = (LinearConfig(), replace(LinearConfig(), workdir="/mnt/run", data_dir="/mnt/data"))
    assert cluster.about_settings(one) == cluster.about_settings(other)
    # free on resume: processes that differ in it would wait for ever
    other = replace(LinearConfig(), steps_per_loop=7)
    assert cluster.about_settings(one) != cluster.about_settings(other)


def test_operation_sources_are_part_of_the_code_version(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster.cpc_tf, "__file__", str(tmp_path / "__init__.py"))
    for name in ("a.py", "op.cc", "op.h", "notes.txt"):
        (tmp_path / name).write_text("")
    codes = [cluster.about_program("linear")["the version of cpc_tf"]]
    for name in ("notes.txt", "a.py", "op.cc", "op.h"):
        (tmp_path / name).write_text("changed")
        codes.append(cluster.about_program("linear")["the version of cpc_tf"])
    assert codes[0] == codes[1]
    assert len(set(codes)) == 4
