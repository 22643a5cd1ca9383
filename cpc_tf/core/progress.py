"""Progress of work: how much is done, how much time is left, and what is waited for."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator

# Seconds after which a wait is named, after which its time is told, and between the lines that tell
# it again.
_FIRST = 3
_THEN = (10, 30)
_waits: list[threading.Event] = []  # those under way: only the innermost one prints
_silent = False


class Progress:
    """Counts work done in this process and computes its rate and the time left.

    Args:
      total: all units of work.
      done: how many were done before this process.
    """

    def __init__(self, total: int, done: int = 0):
        self.total = total
        self.done = self._before = done
        self._first = None
        self._start = 0.0
        self._created = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since this object was created."""
        return time.monotonic() - self._created

    def update(self, done: int) -> None:
        """Sets how many units are done. The clock starts at the first call: start-up does not
        count.
        """
        self.done = done
        if self._first is None:
            self._first, self._start = done, time.monotonic()

    @property
    def started(self) -> bool:
        """Whether there was an update."""
        return self._first is not None

    @property
    def rate(self) -> float:
        """Units per second since the first update; 0 while unknown."""
        if self._first is None or self.done == self._first:
            return 0.0
        return (self.done - self._first) / max(time.monotonic() - self._start, 1e-9)

    def __str__(self) -> str:
        share = f"{self.done}/{self.total} {100 * self.done // max(self.total, 1):3d} %"
        if self.rate:
            return f"{share}  {duration((self.total - self.done) / self.rate)} left"
        if self.done == self._before:
            return f"{share}  timing"
        # The only time that is known is that of the first units, with start-up and compiling.
        most = self.seconds / (self.done - self._before) * (self.total - self.done)
        return f"{share}  at most about {duration(most)} left"


@contextlib.contextmanager
def waiting_for(what: str, progress: Progress | None = None) -> Iterator[None]:
    """Names on stderr what is waited for inside the context if that takes some seconds, and then
    tells the time.

    The time left is that of `progress` as it is updated meanwhile; without one, the time so far is
    shown.
    """
    over = threading.Event()
    began = time.monotonic()
    stderr = sys.stderr

    def tell() -> None:
        if over.wait(_FIRST):
            return
        if _waits[-1:] == [over]:
            print(f"{what} ...", file=stderr, flush=True)
        wait = _THEN[0] - _FIRST
        while not over.wait(wait):
            so_far = f"{duration(time.monotonic() - began)} so far"
            if _waits[-1:] == [over]:
                print(
                    f"{what}: {progress if progress and progress.rate else so_far}",
                    file=stderr,
                    flush=True,
                )
            wait = _THEN[1]

    thread = threading.Thread(target=tell, daemon=True)
    _waits.append(over)
    if not _silent:
        thread.start()
    try:
        yield
    finally:
        _waits.remove(over)
        over.set()
        if thread.is_alive():
            thread.join()


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Keeps `waiting_for` quiet inside the context."""
    global _silent
    before = _silent
    _silent = True
    try:
        yield
    finally:
        _silent = before


def duration(seconds: float) -> str:
    """Returns seconds as 1:05, 2:03:04 or 3 d 04:05:06."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours:02d}:{minutes:02d}:{seconds:02d}"
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
