"""One process works in a directory."""

import os
import signal
import subprocess
import sys

import pytest

from cpc_tf.core.locks import locked
from cpc_tf.core.settings import ConfigError

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


def test_second_process_is_refused_until_first_is_killed(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE)
    try:
        process.stdout.readline()
        with pytest.raises(ConfigError, match="process 17 on elsewhere is using this directory"):
            enter(tmp_path)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    with locked(str(tmp_path)):
        assert (tmp_path / "lock").read_text().startswith(f"process {os.getpid()} on ")
        with pytest.raises(ConfigError, match=f"process {os.getpid()}"):
            enter(tmp_path)
        (tmp_path / "result").touch()
    assert (tmp_path / "lock").exists()
    enter(tmp_path)


def test_a_run_that_leaves_nothing_leaves_no_directory(tmp_path):
    with locked(f"{tmp_path}/a/run"):
        assert (tmp_path / "a/run/lock").exists()
    assert not (tmp_path / "a/run").exists()


def test_second_process_in_a_bucket_is_a_warning(tmp_path, caplog):
    bucket = f"file://{tmp_path}"  # an address like a bucket's
    with locked(bucket):
        assert (tmp_path / "lock").read_text().startswith(f"process {os.getpid()} on ")
        assert not caplog.records
        enter(bucket)
    assert "another process uses this directory or was killed; only one may write" in caplog.text
    assert not (tmp_path / "lock").exists()


def test_a_file_system_without_locks_is_a_warning(tmp_path, monkeypatch, caplog):
    def none(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", none)
    with locked(str(tmp_path)):
        assert "cannot be locked" in caplog.text


def test_directory_that_cannot_be_locked_is_refused(tmp_path):
    (tmp_path / "lock").mkdir()
    for place in (tmp_path, "file:///proc/nope/run", "nosuch://bucket/run"):
        with pytest.raises(ConfigError, match=f"^--workdir={place}: cannot be written to "):
            enter(place)
