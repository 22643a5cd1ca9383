"""One process at a time in a run's directory."""

import os
import signal
import subprocess
import sys

import pytest

from cpc_tf import cli
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.pretrain.run import pretrain
from cpc_tf.settings import ConfigError
from cpc_tf.training import lock
from cpc_tf.training.lock import locked


def refused(action, match):
    with pytest.raises(ConfigError, match=match):
        action()


HOLD = """
import fcntl, sys, time
file = open(sys.argv[1] + "/lock", "a+")
fcntl.flock(file, fcntl.LOCK_EX)
file.write("process 17 on elsewhere\\n"); file.flush()
print("held", flush=True)
time.sleep(60)
"""


def enter(directory):
    with locked(str(directory)):
        pass


def test_a_second_process_is_refused_until_the_first_is_killed(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE)
    try:
        process.stdout.readline()
        refused(lambda: enter(tmp_path), "process 17 on elsewhere is at work there")
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    with locked(str(tmp_path)):
        assert (tmp_path / "lock").read_text().startswith(f"process {os.getpid()} on ")
        refused(lambda: enter(tmp_path), f"process {os.getpid()}")
        (tmp_path / "result").touch()
    assert (tmp_path / "lock").exists()
    enter(tmp_path)


def test_a_run_that_leaves_nothing_leaves_no_directory(tmp_path):
    with locked(f"{tmp_path}/a/run"):
        assert (tmp_path / "a/run/lock").exists()
    assert not (tmp_path / "a/run").exists()


def test_a_run_is_refused_before_anything_is_built(tmp_path):
    config = cli.parse(PretrainConfig, [f"--workdir={tmp_path}/run", "--encoder=small"])
    with locked(config.workdir):
        refused(lambda: pretrain(config), f"--workdir=.*process {os.getpid()} .* is at work there")
    (tmp_path / "run").write_text("")
    refused(lambda: pretrain(config), "--workdir=.*cannot be written to")
    (tmp_path / "lock").mkdir()
    for place in (tmp_path, "file:///proc/nope/run", "nosuch://bucket/run"):
        refused(lambda place=place: enter(place), f"^--workdir={place}: cannot be written to ")


def test_a_second_process_in_a_bucket_is_a_warning(tmp_path, caplog):
    bucket = f"file://{tmp_path}"  # an address like a bucket's
    with locked(bucket):
        assert (tmp_path / "lock").read_text().startswith(f"process {os.getpid()} on ")
        assert not caplog.records
        enter(bucket)
    assert "another process is at work there or was killed; only one may write" in caplog.text
    assert not (tmp_path / "lock").exists()


def test_a_file_system_without_locks_is_a_warning(tmp_path, monkeypatch, caplog):
    def none(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(lock.fcntl, "flock", none)
    with locked(str(tmp_path)):
        assert "no lock can be had here" in caplog.text
