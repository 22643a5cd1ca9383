import signal
import subprocess

import pytest

from cpc_tf import restart
from cpc_tf.training.cluster import LostWorker
from cpc_tf.training.feeds import LostFeed
from tests import processes


@pytest.fixture(autouse=True)
def handlers():
    before = {number: signal.getsignal(number) for number in restart.STOPS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def run(tmp_path):
    """Runs a shell script with the number of its start as $1; returns (status, number of starts)."""

    def run(script, restarts=5, pause=0):
        count = tmp_path / "starts"
        command = f"echo >> {count}; set -- $(wc -l < {count}); {script}"
        return restart.run(["sh", "-c", command], restarts, pause), count.read_text().count("\n")

    return run


@pytest.mark.parametrize(
    "end", ["kill -KILL $$", "kill -35 $$", f"exit {LostWorker.status}", f"exit {LostFeed.status}"]
)
def test_a_killed_process_and_one_that_lost_another_start_again(end, run, capfd):
    assert run(f"test $1 = 3 || {end}") == (0, 3)
    assert capfd.readouterr().err.count("; starting it again in 0 seconds\n") == 2


@pytest.mark.parametrize("status", [0, 1, 2, 3, 4, 5, 130, 143])
def test_every_other_end_is_the_end(status, run):
    assert run(f"exit {status}") == (status, 1)


def test_a_process_that_a_signal_stopped_before_it_could_say_so_ends():
    assert restart.run(["sh", "-c", "kill -TERM $$"]) == 128 + signal.SIGTERM


def test_the_number_of_restarts_is_limited_and_pauses_grow(run, capfd):
    assert run("kill -KILL $$", restarts=2, pause=0.01) == (128 + signal.SIGKILL, 3)
    assert capfd.readouterr().err.splitlines() == [
        "restart: ended by SIGKILL; starting it again in 0.01 seconds",
        "restart: ended by SIGKILL; starting it again in 0.02 seconds",
        "restart: ended by SIGKILL; no more after 2 restarts within an hour",
    ]


def test_a_command_that_cannot_be_started_is_a_line(capsys):
    assert restart.main(["--", "no_such_command"]) == 2
    assert restart.main(["true"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "error: no_such_command: cannot be started (No such file or directory)",
        "error: name a command, e.g. python -m cpc_tf.restart -- python -m cpc_tf.pretrain",
    ]


@pytest.mark.slow
def test_a_signal_reaches_the_command_once_and_ends_both():
    script = (
        "trap 'echo got one; sleep 0.5; exit 143' TERM; echo ready; while true; do sleep 0.1; done"
    )
    process = processes.start("cpc_tf.restart", "--", "sh", "-c", script)
    processes.wait_for(process, "ready")
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=60)[0] == "got one\n"
    assert process.returncode == 143


@pytest.mark.slow
def test_a_signal_in_a_pause_ends_it():
    process = processes.start(
        "cpc_tf.restart", "--", "sh", "-c", "kill -KILL $$", stdout=subprocess.DEVNULL
    )
    assert "starting it again in 5 seconds" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    process.stderr.close()
