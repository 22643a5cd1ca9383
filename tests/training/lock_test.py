import json
import os
import signal
import subprocess
import sys
import time

import pytest
import tensorflow as tf

from cpc_tf.settings import ConfigError
from cpc_tf.training import lock

HOLD = """
import fcntl, sys, time
file = open(sys.argv[1] + "/lock", "a+")
fcntl.flock(file, fcntl.LOCK_EX)
file.write("process 17 on elsewhere\\n"); file.flush()
print("held", flush=True)
time.sleep(60)
"""


def test_a_second_process_is_refused_until_the_first_is_killed(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE)
    try:
        process.stdout.readline()
        with pytest.raises(ConfigError, match="process 17 on elsewhere is at work there"), lock.locked(str(tmp_path)):
            pass
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    with lock.locked(str(tmp_path)):
        assert (tmp_path / "lock").read_text().startswith(f"process {os.getpid()} on ")
        (tmp_path / "result").touch()
    assert (tmp_path / "lock").exists()


def test_a_run_of_which_nothing_came_leaves_nothing(tmp_path):
    with lock.locked(f"{tmp_path}/a/run"):
        assert (tmp_path / "a/run/lock").exists()
    assert not (tmp_path / "a/run").exists()


def test_the_lock_ends_with_its_block(tmp_path):
    for _ in range(2):
        with lock.locked(str(tmp_path)):
            pass
    ours = f"process {os.getpid()}"
    with lock.locked(str(tmp_path)), pytest.raises(ConfigError, match=ours), lock.locked(str(tmp_path)):
        pass


def test_a_directory_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "lock").mkdir()
    with pytest.raises(ConfigError, match="cannot be written to"), lock.locked(str(tmp_path)):
        pass


def test_a_file_system_without_locks_is_a_warning(tmp_path, monkeypatch, caplog):
    def none(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(lock.fcntl, "flock", none)
    with lock.locked(str(tmp_path)):
        assert "no lock can be had here" in caplog.text


@pytest.fixture
def bucket(tmp_path):
    return f"file://{tmp_path}"  # an address, as that of a bucket


@pytest.mark.parametrize("place", ["file:///proc/nope/run", "nosuch://bucket/run"])
def test_a_bucket_that_cannot_be_written_is_refused(place):
    with pytest.raises(ConfigError, match=f"^--workdir={place}: cannot be written to "), lock.locked(place):
        pass


def test_a_lock_of_a_bucket_that_is_no_file_is_refused(bucket, tmp_path):
    (tmp_path / "lock").mkdir()
    with pytest.raises(ConfigError, match="^--workdir=file://.*: cannot be written to "), lock.locked(bucket):
        pass


def owner(bucket, **values):
    found = {"owner": "x", "process": 1, "host": "elsewhere", "time": time.time(), **values}
    with tf.io.gfile.GFile(f"{bucket}/lock", "w") as file:
        file.write(json.dumps(found))


def test_a_bucket_is_locked_while_its_owner_shows_life(bucket, monkeypatch):
    monkeypatch.setattr(lock, "BEAT", 0.01)
    with lock.locked(bucket):
        first = lock._read(f"{bucket}/lock")
        with pytest.raises(ConfigError, match="its lock ends within 120 s"), lock.locked(bucket):
            pass
        time.sleep(0.1)
        assert lock._read(f"{bucket}/lock")["time"] > first["time"]
    assert not tf.io.gfile.exists(f"{bucket}/lock")


def test_a_sign_of_life_is_never_read_half_written(bucket, monkeypatch):
    monkeypatch.setattr(lock, "BEAT", 0.0)
    with lock.locked(bucket):
        assert all(lock._read(f"{bucket}/lock") for _ in range(2000))


def test_a_sign_of_life_that_a_kill_cut_short_is_removed_later(bucket, tmp_path):
    for process, age in (("1", 7200), ("2", 0)):
        path = tmp_path / f"lock.{process}.tmp"
        path.write_text("{")
        os.utime(path, (time.time() - age,) * 2)
    with lock.locked(bucket):
        assert [path.name for path in sorted(tmp_path.glob("lock.*"))] == ["lock.2.tmp"]


def test_a_bucket_is_free_once_its_owner_is_silent(bucket):
    owner(bucket)
    with pytest.raises(ConfigError, match="process 1 on elsewhere"), lock.locked(bucket):
        pass
    owner(bucket, time=time.time() - 2 * lock.SILENCE)
    with lock.locked(bucket):
        pass


def test_a_bucket_is_free_if_its_owner_is_gone_from_this_machine(bucket):
    owner(bucket, host=lock.socket.gethostname(), process=2**30)
    with lock.locked(bucket):
        pass


def test_what_is_no_lock_is_overwritten(bucket):
    with tf.io.gfile.GFile(f"{bucket}/lock", "w") as file:
        file.write("[]")
    with lock.locked(bucket):
        pass


def test_a_bucket_that_another_process_took_stays_with_that(bucket, monkeypatch, caplog):
    """This one was suspended for so long that it counted as gone."""
    monkeypatch.setattr(lock, "BEAT", 0.01)
    with lock.locked(bucket):
        while "process 1 on elsewhere has taken it" not in caplog.text:
            owner(bucket, owner="other")
            time.sleep(0.05)
    assert lock._read(f"{bucket}/lock")["owner"] == "other"
