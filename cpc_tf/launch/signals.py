"""Signals of a launch: one ends it, and none disturbs the deletion of the TPU."""

from __future__ import annotations

import signal
import threading

from cpc_tf.launch.waiting import say
from cpc_tf.termination import Interrupted

_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # the last: the terminal was closed


class Signals:
    """A context in which the first signal raises Interrupted, unless `held`. Later ones do nothing."""

    def __init__(self):
        self.held = False
        self._received = False

    def __enter__(self) -> Signals:
        self._before = {}
        if threading.current_thread() is threading.main_thread():  # Python lets no other one have handlers
            for number in _NUMBERS:
                if signal.getsignal(number) is not signal.SIG_IGN:  # as with nohup
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: object) -> None:
        if self.held or self._received:
            say("the TPU is being deleted; please wait")
            return
        self._received = True
        raise Interrupted(number)
