"""On what, of which commit and versions, and when a run was made: for its run.json and
result.json.
"""

from __future__ import annotations

import datetime
import functools
import pathlib
import platform
import re
import subprocess

import tensorflow as tf

import cpc_tf
from cpc_tf.core import devices

_ROOT = pathlib.Path(cpc_tf.__file__).parent.parent


def timestamp() -> str:
    """Returns the date and time in UTC, to the minute: '2026-11-27 05:58 UTC'."""
    return f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC"


@functools.cache
def environment() -> dict[str, str]:
    """Returns {'machine': its processors and GPUs, 'commit': of the checkout; none of an installed
    package}.
    """
    count = len(devices.cores())
    machine = [
        f"{count} core{'s' * (count > 1)} of {_processor()}",
        *sorted(set(devices.gpu_names())),
    ]
    commit = _commit()
    return {"machine": ", ".join(machine), **({"commit": commit} if commit else {})}


def of_result() -> dict[str, str]:
    """Returns what a result.json says of its making: the day, machine, commit, and the versions of
    both programs.
    """
    return {
        "date": timestamp().split()[0],
        **environment(),
        "version": cpc_tf.__version__,
        "tensorflow": tf.__version__,
    }


def _processor() -> str:
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    if model := re.search(r"^model name\s*: (.+)$", text, re.MULTILINE):
        return model[1]
    return platform.processor() or platform.machine()


def _commit() -> str:
    """Returns '1a2b3c4d', '1a2b3c4d-dirty' of a checkout with changes, or ''."""
    # git would look in the folders above, of someone else's project.
    if not (_ROOT / ".git").exists():
        return ""
    describe = "describe --always --dirty --exclude=* --abbrev=8".split()
    command = ["git", "-C", str(_ROOT), *describe]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if not done.returncode else ""
