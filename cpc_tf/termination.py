"""SIGTERM and SIGINT end a process with one line, after the work under way is saved."""

from __future__ import annotations

import signal

from cpc_tf.settings import RunEnded

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stopped(RunEnded):
    """A signal ended the run.

    Args:
      number: the signal.
      saved: what was saved, as half a sentence.
    """

    def __init__(self, number: int, saved: str):
        super().__init__(f"stopped by {signal.Signals(number).name}: {saved}; the same command goes on from there")
        self.status = 128 + number  # as a shell reports it


class Interrupted(KeyboardInterrupt):
    """A signal arrived outside of training. Not an Exception, so that no handler of failures catches it."""

    def __init__(self, number: int):
        super().__init__(number)
        self.number = number


def interrupt_on_signals() -> None:
    """From now on a signal raises Interrupted in the main thread."""

    def interrupt(number, frame):
        raise Interrupted(number)

    _handle(interrupt)


class Deferred:
    """A context in which a first signal is only recorded, as `number`, and a second one raises Interrupted."""

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
    """Sets the handler of the signals and returns the former ones. Ignored signals, as with nohup, stay ignored."""
    former = {number: signal.getsignal(number) for number in SIGNALS}
    former = {number: known for number, known in former.items() if known is not signal.SIG_IGN}
    for number in former:
        signal.signal(number, handler)
    return former
