import os
import signal

import pytest

from cpc_tf.termination import Deferred, Interrupted, Stopped, interrupt_on_signals


@pytest.fixture(autouse=True)
def handlers():
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def send(number):
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_interrupts(number):
    signal.signal(number, signal.default_int_handler)
    interrupt_on_signals()
    with pytest.raises(Interrupted) as stop:
        send(number)
    assert stop.value.number == number
    assert not isinstance(stop.value, Exception)


def test_a_first_signal_is_deferred_a_second_one_is_not():
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with Deferred() as stop:
        assert stop.number == 0
        send(signal.SIGTERM)
        assert stop.number == signal.SIGTERM
        with pytest.raises(Interrupted):
            send(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_who_ignores_a_signal_goes_on_so():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    interrupt_on_signals()
    with Deferred() as stop:
        send(signal.SIGINT)
        assert stop.number == 0
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_statuses_are_those_of_a_shell():
    stopped = Stopped(signal.SIGTERM, "saved step 8 in runs/a")
    assert stopped.status == 143
    assert str(stopped) == "stopped by SIGTERM: saved step 8 in runs/a; the same command goes on from there"
    assert Stopped(signal.SIGINT, "").status == 130
