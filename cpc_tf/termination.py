"""Ends a process on SIGTERM or SIGINT with one line, after the step under way was saved."""

from __future__ import annotations

import signal
import threading

from cpc_tf.settings import RunEnded


class Stopped(RunEnded):
    """A signal ended the run; `saved` says what became of the work, as half a sentence."""

    def __init__(self, number: int, saved: str):
        super().__init__(f"stopped by {signal.Signals(number).name}: {saved}; the same command goes on from there")
        self.status = 128 + number  # what a shell reports for a process that a signal ended


class Interrupted(KeyboardInterrupt):
    """A signal came outside of training. Not an Exception: nothing may handle it as a failure of its own."""

    def __init__(self, number: int):
        super().__init__(number)
        self.number = number


def interrupt_on_signals() -> list[int]:
    """Makes signals raise Interrupted in the main thread from now on.

    Returns:
      A list to which the signals are added. Libraries in C++ can make another error of what is raised within them.
    """
    received: list[int] = []

    def interrupt(number, frame):
        received.append(number)
        raise Interrupted(number)

    _handle(interrupt)
    return received


class Deferred:
    """A context in which the first signal only sets `number`; a second one raises Interrupted."""

    number = 0

    def __enter__(self) -> Deferred:
        self._before = _handle(self._note)
        return self

    def __exit__(self, *_) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number, frame) -> None:
        if self.number:
            raise Interrupted(number)
        self.number = number


def _handle(handler) -> dict:
    """Sets a handler of both signals, except of those that are ignored, as with nohup. Returns the handlers before.

    In another thread than the main one, which Python lets have none, nothing is set.
    """
    if threading.current_thread() is not threading.main_thread():
        return {}
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    return {number: signal.signal(number, handler) for number in handlers if handlers[number] is not signal.SIG_IGN}
