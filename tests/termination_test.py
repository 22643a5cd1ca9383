"""Signals: the first is deferred in training, the second interrupts, ignored ones stay ignored.

What a user sees of one: tests/cli_test.py, tests/end_to_end_test.py.
"""

import os
import signal

import pytest

from cpc_tf.termination import Deferred, Interrupted, interrupt_on_signals


@pytest.fixture(autouse=True)
def handlers():
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


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
