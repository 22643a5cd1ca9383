"""Signals end a program within seconds: at once, or after a step was saved; ignored ones stay
ignored.
"""

import os
import pty
import signal
import subprocess
import sys
import time

import pytest

from cpc_tf.core.settings import Stopped
from cpc_tf.core.termination import Deferred, Interrupted, interrupting, name_of
from tests.binaries import ROOT


@pytest.fixture(autouse=True)
def handlers():
    before = {
        number: signal.getsignal(number)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    }
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_second_signal_does_not_interrupt_the_shutdown(number):
    with interrupting() as received:
        with pytest.raises(Interrupted) as stop:
            os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)
    assert (stop.value.number, received) == (number, [number] * 2)
    assert not isinstance(stop.value, Exception)


def test_signal_during_work_is_deferred_until_a_second():
    with Deferred() as stop:
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        stop.begin()
        stop.begin()
        assert stop.number == 0
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.number == signal.SIGTERM
        with pytest.raises(Interrupted):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ignored_signals_stay_ignored():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with interrupting(), Deferred() as stop:
        stop.begin()
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.number == 0
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_statuses_are_those_of_a_shell():
    stopped = Stopped(signal.SIGTERM, "saved step 8 in runs/a")
    assert (stopped.status, Stopped(signal.SIGINT).status) == (143, 130)
    assert (
        str(stopped) == "stopped by SIGTERM: saved step 8 in runs/a; run the same command to resume"
    )


def test_signals_without_a_name_have_a_number():
    assert [name_of(number) for number in (signal.SIGKILL, signal.SIGRTMIN + 1)] == [
        "SIGKILL",
        "signal 35",
    ]


# What the main thread does when the signals come: a mutex that is locked twice keeps it in C, as a
# compilation does.
LIBRARY = "import ctypes; c = ctypes.CDLL(None); mutex = ctypes.create_string_buffer(64)"
IN_C = (
    f"{LIBRARY}; c.pthread_mutex_lock(mutex); print('ready', flush=True);"
    " c.pthread_mutex_lock(mutex)"
)
PROGRAM = f"""
import dataclasses
from cpc_tf.core import cli
from cpc_tf.core import settings
from cpc_tf.core import termination
termination._PATIENCE = 0.3
@dataclasses.dataclass(frozen=True)
class Config(settings.Settings):
    pass
def in_c(config):
    {IN_C}
def deferred(config):
    with termination.Deferred() as stop:
        stop.begin()
        in_c(config)
cli.run(Config, FUNCTION)
"""


def ended(command, *numbers, pause=0.2, **options):
    """The status and stderr of a process that gets signals once it is ready, `pause` seconds apart,
    and the seconds that it then took.
    """
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, **options
    ) as process:
        assert process.stdout.readline() == "ready\n"
        began = time.monotonic()
        for number in numbers:
            time.sleep(pause)  # until the main thread is in C
            process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    return process.returncode, errors, time.monotonic() - began


@pytest.mark.parametrize(("function", "numbers", "status"), [
    ("in_c", [signal.SIGINT], 130),
    ("in_c", [signal.SIGTERM, signal.SIGTERM], 143),
    ("deferred", [signal.SIGINT, signal.SIGINT], 130),
])  # fmt: skip
def test_main_thread_in_c_code_still_ends_promptly(function, numbers, status):
    found, errors, seconds = ended(
        [sys.executable, "-c", PROGRAM.replace("FUNCTION", function)], *numbers
    )
    assert (found, errors) == (status, f"stopped by {signal.Signals(numbers[0]).name}\n")
    assert seconds < 5


def test_a_signal_that_waits_for_steps_is_explained():
    command = [sys.executable, "-c", PROGRAM.replace("FUNCTION", "deferred")]
    _, errors, _ = ended(command, signal.SIGTERM, signal.SIGTERM, pause=1)
    assert errors.splitlines() == [
        "SIGTERM: saving the steps that are under way first; a second signal ends without saving",
        "stopped by SIGTERM",
    ]


def test_a_program_ends_while_it_imports_tensorflow(tmp_path):
    # Stderr is put aside at that moment.
    (tmp_path / "tensorflow.py").write_text(
        "import time\nprint('ready', flush=True)\ntime.sleep(60)\n"
    )
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    command = [sys.executable, "-m", "cpc_tf.pretrain", f"--workdir={tmp_path}/run"]
    found = ended(command, signal.SIGINT, env={**os.environ, "PYTHONPATH": path})
    assert found[0] == 130
    assert found[1].startswith("stopped by SIGINT: ")


# A terminal that is closed: whoever still prints to it gets an error.
IN_A_TERMINAL = """
import os, signal, sys, time
from cpc_tf.core.termination import Deferred
with Deferred() as stop:
    stop.begin()
    print("ready", flush=True)
    while not stop.number:
        time.sleep(0.01)
    print("more", flush=True)
    print("more", file=sys.stderr, flush=True)
    open(sys.argv[1], "w").write(signal.Signals(stop.number).name)
"""


def test_closed_terminal_saves_the_current_step(tmp_path):
    process, terminal = pty.fork()
    if not process:
        os.chdir(ROOT)
        os.execv(sys.executable, [sys.executable, "-c", IN_A_TERMINAL, f"{tmp_path}/saved"])
    assert b"ready" in os.read(terminal, 100)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    assert (tmp_path / "saved").read_text() == "SIGHUP"
