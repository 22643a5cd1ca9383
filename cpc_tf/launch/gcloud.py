"""Runs commands of gcloud, and tells from the message of one that failed what can be done."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cpc_tf.texts import one_line

# Kind of failure -> pattern in gcloud's message; the first that fits.
_KINDS = {
    "permission": r"PERMISSION_DENIED|does not have .*permission|[Ff]orbidden|auth login|credentials|active account|"
    r"[Rr]eauth|SERVICE_DISABLED|has not been used in project",
    "exists": r"ALREADY_EXISTS|already exists",
    "missing": r"NOT_FOUND|was not found|not found",
    "busy": r"[Rr]ate [Ll]imit|per minute|RATE_LIMIT",
    "quota": r"[Qq]uota",
    "capacity": r"no more capacity|[Ii]nsufficient .*capacity|[Ss]tockout|RESOURCE_EXHAUSTED|ZONE_RESOURCE_POOL|"
    r"enough resources|currently unavailable",
    "connection": r"[Cc]onnection|[Tt]imed out|no answer within|[Uu]nable to find the server|UNAVAILABLE|DEADLINE|"
    r"[Tt]emporar|Max retries|resolve|unreachable|INTERNAL|[Ii]nternal error|\b50[0234]\b",
}


class Done(NamedTuple):
    """How a command ended."""

    status: int
    output: str
    why: str  # what gcloud says of a failure, one line

    @property
    def kind(self) -> str:
        """The kind of failure, one of _KINDS; '' if it is none of them, or there was no failure."""
        return kind_of(self.why) if self.status else ""


def kind_of(message: str) -> str:
    """Returns the kind of failure that a message of gcloud tells of; '' for an unknown one."""
    return next((kind for kind, pattern in _KINDS.items() if re.search(pattern, message)), "")


def call(words: Sequence[str], timeout: float = 3600) -> Done:
    """Runs a command to its end.

    Args:
      words: of the command.
      timeout: seconds after which it is ended, as a failure of the kind 'connection'.
    """
    try:
        with started(words, stderr=subprocess.PIPE) as process:
            output, messages = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        return Done(124, "", f"no answer within {timeout:g} seconds")
    except OSError as error:
        return Done(127, "", f"cannot be started ({error.strerror})")
    return Done(process.returncode, output.decode(errors="replace"), _reason(messages.decode(errors="replace")))


@contextlib.contextmanager
def started(words: Sequence[str], stderr: int = subprocess.DEVNULL) -> Iterator[subprocess.Popen]:
    """Yields a process that runs a command, and ends it with all that it started. Raises OSError."""
    # A session of its own: Ctrl-C in a terminal must not end the deletion of a TPU.
    process = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, start_new_session=True
    )
    try:
        with process.stdout:
            yield process
    finally:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _reason(messages: str) -> str:
    """Returns gcloud's error, or else the last line that is not empty."""
    lines = [line.strip() for line in messages.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    return one_line((errors or lines or ["no message"])[-1].replace("ERROR: ", "", 1))
