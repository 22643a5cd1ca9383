"""Restarts a command that ends without a fault of its own: it was killed, or another process was lost.

    python -m cpc_tf.restart -- python -m cpc_tf.pretrain --strategy=multiworker ...

A run then goes on from its last checkpoint. SIGTERM, SIGINT and SIGHUP are passed on to the command and end both.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from cpc_tf.core.termination import name_of

STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
RESTARTS = 20  # most within an hour
LOST = {
    6: "another worker was lost",
    8: "an input server was lost",
}  # statuses of LostWorker and LostFeed
PAUSE = 5  # seconds before the first restart


def run(command: Sequence[str], restarts: int = RESTARTS, pause: float = PAUSE) -> int:
    """Runs a command until it is done, fails or is stopped, and returns its exit status as a shell reports it.

    Args:
      command: the program and its arguments.
      restarts: how many are allowed within an hour.
      pause: seconds before the first restart; before the second within an hour it is twice as long, and so on.
    """
    received: list[int] = []
    for number in STOPS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as with nohup
            signal.signal(number, lambda number, _: received.append(number))
    times: list[float] = []  # of the restarts within the last hour
    while True:
        ended, status = _run_once(command, received)
        if not ended or received:
            return status
        times = [each for each in times if time.monotonic() - each < 3600]
        if len(times) == restarts:
            print(
                f"restart: {ended}; no more after {restarts} restarts within an hour",
                file=sys.stderr,
                flush=True,
            )
            return status
        wait = pause * (len(times) + 1)
        print(
            f"restart: {ended}; starting it again in {wait:g} seconds", file=sys.stderr, flush=True
        )
        until = time.monotonic() + wait
        while time.monotonic() < until:
            if received:
                return 128 + received[0]
            time.sleep(0.1)
        times.append(time.monotonic())


def _run_once(command: Sequence[str], received: Sequence[int]) -> tuple[str, int]:
    """Returns (why the command can be started again, or '', its exit status). Passes `received` signals on to it."""
    try:
        # A session of its own: Ctrl-C in a terminal would reach it twice, and a second signal ends it without saving.
        process = subprocess.Popen(command, start_new_session=True)
    except OSError as error:
        print(f"error: {command[0]}: cannot be started ({error.strerror})", file=sys.stderr)
        return "", 2
    passed = 0
    while process.poll() is None:
        for number in received[passed:]:
            process.send_signal(number)
            passed += 1
        time.sleep(0.1)
    status = process.returncode
    if status in LOST:
        return LOST[status], status
    if status < 0 and -status not in STOPS:
        return f"ended by {name_of(-status)}", 128 - status
    return "", 128 - status if status < 0 else status


def main(words: Sequence[str]) -> int:
    """The tool. Takes the words of the command line after the program's name."""
    if words[:1] != ["--"] or not words[1:]:
        print(
            "error: name a command, e.g. python -m cpc_tf.restart -- python -m cpc_tf.pretrain",
            file=sys.stderr,
        )
        return 2
    return run(words[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
