"""Lines that tell of a launch, and waiting that ends."""

from __future__ import annotations

import contextlib
import sys
import time

from cpc_tf.launch.config import LaunchConfig
from cpc_tf.settings import RunEnded

_AGAIN = 600  # seconds after which a wait is spoken of again


class Failed(RunEnded):
    """The launch cannot go on."""


def say(message: str) -> None:
    """Prints a line with the time, beside the log of the training."""
    # No line is worth a TPU: the terminal may be gone, or another line be half written when a signal comes.
    with contextlib.suppress(Exception):
        print(f"{time.strftime('%H:%M:%S')} launch: {message}", file=sys.stderr, flush=True)


class Wait:
    """Waits between two questions, and says for what."""

    def __init__(self, config: LaunchConfig):
        self._config = config
        self._what, self._since, self._said = "", time.monotonic(), 0.0

    @property
    def has_waited(self) -> bool:
        """Whether it was called before."""
        return bool(self._what)

    def __call__(self, what: str) -> None:
        """Waits for --poll seconds. Raises Failed --wait_hours after the start."""
        now = time.monotonic()
        waited = now - self._since
        if waited >= self._config.wait_hours * 3600:
            raise Failed(f"{what}: gave up after {_time(waited)} (--wait_hours={self._config.wait_hours:g})")
        if what != self._what:
            say(f"{what}; asking again every {self._config.poll:g} s")
            self._what, self._said = what, now
        elif now - self._said > _AGAIN:
            say(f"{what}: for {_time(waited)} now")
            self._said = now
        time.sleep(self._config.poll)


def _time(seconds: float) -> str:
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
