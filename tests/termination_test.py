"""Signals: the first is deferred in training, the second interrupts, ignored ones stay ignored."""

import os
import signal

import pytest

from cpc_tf.termination import Deferred, Interrupted, Stopped, interrupt_on_signals


@pytest.fixture(autouse=True)
def handlers():
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_interrupts(number):
    interrupt_on_signals()
    with pytest.raises(Interrupted) as stop:
        os.kill(os.getpid(), number)
    assert stop.value.number == number
    assert not isinstance(stop.value, Exception)


def test_a_first_signal_is_deferred_a_second_one_is_not():
    with Deferred() as stop:
        assert stop.number == 0
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.number == signal.SIGTERM
        with pytest.raises(Interrupted):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ignored_signals_stay_ignored():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    interrupt_on_signals()
    with Deferred() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.number == 0
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_statuses_are_those_of_a_shell():
    stopped = Stopped(signal.SIGTERM, "saved step 8 in runs/a")
    assert (stopped.status, Stopped(signal.SIGINT, "").status) == (143, 130)
    assert str(stopped) == "stopped by SIGTERM: saved step 8 in runs/a; the same command goes on from there"
