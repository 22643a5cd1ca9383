"""What SIGTERM and SIGINT do: they end a process with one line, after what is under way was saved."""

from __future__ import annotations

import signal

from cpc_tf.settings import RunEnded

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stopped(RunEnded):
    """A signal came.

    Args:
      number: of the signal.
      saved: what became of the work, as half a sentence.
    """

    def __init__(self, number: int, saved: str):
        super().__init__(f"stopped by {signal.Signals(number).name}: {saved}; the same command goes on from there")
        self.status = 128 + number  # what a shell reports for a process that a signal ended


class Interrupted(KeyboardInterrupt):
    """A signal came outside of training. No Exception, so that nobody takes it for a failure of what was tried."""

    def __init__(self, number: int):
        super().__init__(number)
        self.number = number


def interrupt_on_signals() -> None:
    """From now on a signal raises Interrupted in the main thread."""

    def interrupt(number, frame):
        raise Interrupted(number)

    _handle(interrupt)


class Deferred:
    """Within it a first signal is only noted, as `number`; a second one raises Interrupted."""

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
    """Sets the handler of the signals, and returns what handled them. What is ignored, as with nohup, stays ignored."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    before = {number: known for number, known in before.items() if known is not signal.SIG_IGN}
    for number in before:
        signal.signal(number, handler)
    return before
