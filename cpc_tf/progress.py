"""The beginning of a printed line: how far, and how much time is left."""

from __future__ import annotations

import time


class Progress:
    """Counts work done in this process and computes its rate and the time left.

    Args:
      total: all units of work.
      done: how many were done before this process.
    """

    def __init__(self, total: int, done: int = 0):
        self.total, self.done = total, done
        self._first, self._start = None, 0.0
        self._created = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since this object was created."""
        return time.monotonic() - self._created

    def update(self, done: int) -> None:
        """Sets how many units are done. The clock starts at the first call: start-up does not count."""
        self.done = done
        if self._first is None:
            self._first, self._start = done, time.monotonic()

    @property
    def rate(self) -> float:
        """Units per second since the first update; 0 while unknown."""
        if self._first is None or self.done == self._first:
            return 0.0
        return (self.done - self._first) / max(time.monotonic() - self._start, 1e-9)

    def __str__(self) -> str:
        share = f"{self.done}/{self.total} {100 * self.done // max(self.total, 1):3d} %"
        left = duration((self.total - self.done) / self.rate) + " left" if self.rate else "timing"
        return f"{share}  {left}"


def duration(seconds: float) -> str:
    """Returns seconds as 1:05, 2:03:04 or 3 d 04:05:06."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours:02d}:{minutes:02d}:{seconds:02d}"
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
