"""One process at a time in a run's directory."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator

import tensorflow as tf
from absl import logging

from cpc_tf.files import NotWritten, reason, remove_leftovers, write_file
from cpc_tf.settings import ConfigError

FILE = "lock"
BEAT = 30.0  # seconds between two signs of life in a bucket
SILENCE = 4 * BEAT  # after which its owner counts as gone
LONGEST = 4096  # bytes of a lock in a bucket


@contextlib.contextmanager
def locked(directory: str) -> Iterator[None]:
    """Keeps other processes out of a directory, which is made if there is none and goes if it stays empty.

    On a disk the operating system holds the lock, and lets go of it however the process ends. A bucket has no locks:
    there a file with a sign of life stands for one. A process that was killed leaves it behind, and it counts for
    SILENCE seconds more unless this machine sees that the process is gone; of two that begin within the same second,
    both may get it.

    Raises:
      ConfigError: another process is there, or the directory cannot be written to.
    """
    with _on_disk(directory) if "://" not in directory else _in_bucket(directory):
        yield


def _refusal(directory: str, owner: str, advice: str = "") -> ConfigError:
    return ConfigError(
        f"--workdir={directory}: {owner} is at work there; wait until it has ended, or take another --workdir{advice}"
    )


@contextlib.contextmanager
def _on_disk(directory: str) -> Iterator[None]:
    try:
        os.makedirs(directory, exist_ok=True)
        file = open(os.path.join(directory, FILE), "a+")  # noqa: SIM115, closed below
    except OSError as error:
        raise ConfigError(f"--workdir={directory}: cannot be written to ({error.strerror})") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise _refusal(directory, file.read(200).strip() or "another process") from None
        except OSError as error:  # some network file systems have none
            logging.warning("%s: no lock can be had here (%s); do not run two processes in it", directory, error)
        with contextlib.suppress(OSError):  # on a full disk the lock is held all the same
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
            file.flush()
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                if os.listdir(directory) == [FILE]:  # nothing came of the run
                    os.remove(file.name)
                    os.rmdir(directory)


@contextlib.contextmanager
def _in_bucket(directory: str) -> Iterator[None]:
    path, own = f"{directory}/{FILE}", uuid.uuid4().hex
    try:
        _take(directory, path, own)
    except (tf.errors.OpError, NotWritten) as error:
        raise ConfigError(
            f"--workdir={directory}: cannot be written to ({reason(error.__cause__ or error)})"
        ) from error
    ended = threading.Event()

    def live() -> None:
        while not ended.wait(BEAT):
            with contextlib.suppress(tf.errors.OpError, NotWritten):  # the bucket may be out of reach for a moment
                found = _read(path)
                if found and found["owner"] != own:
                    logging.warning(
                        "--workdir=%s: process %s on %s has taken it, since this one gave no sign of life for %.0f s; "
                        "end one of them, both write there",
                        directory,
                        found["process"],
                        found["host"],
                        SILENCE,
                    )
                    return
                _beat(path, own)

    thread = threading.Thread(target=live, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        with contextlib.suppress(tf.errors.OpError):
            if (_read(path) or {}).get("owner") == own:
                tf.io.gfile.remove(path)


def _take(directory: str, path: str, own: str) -> None:
    tf.io.gfile.makedirs(directory)
    remove_leftovers(directory, FILE + r"\.\d+\.tmp")  # as write_file names them
    found = _read(path)
    if found and _alive(found):
        until = f"; if it was killed, its lock ends within {SILENCE:.0f} s"
        raise _refusal(directory, f"process {found['process']} on {found['host']}", until)
    _beat(path, own)
    if (_read(path) or {}).get("owner") != own:
        raise _refusal(directory, "another process that began just now")


def _alive(found: dict) -> bool:
    if found["host"] == socket.gethostname():
        try:
            os.kill(found["process"], 0)  # sends nothing, but asks whether it could
        except (ProcessLookupError, OverflowError):
            return False
        except PermissionError:  # somebody else's
            pass
    return time.time() - found["time"] < SILENCE


def _beat(path: str, owner: str) -> None:
    content = {"owner": owner, "process": os.getpid(), "host": socket.gethostname(), "time": time.time()}
    write_file(path, json.dumps(content))  # whole: what is half written would count as no lock


def _read(path: str) -> dict | None:
    """What stands in a lock, None if there is none or it is no lock."""
    try:
        with tf.io.gfile.GFile(path) as file:
            found = json.loads(file.read(LONGEST))  # without a length it is cut to the size of a file put there since
        return found if {"owner", "process", "host", "time"} <= found.keys() else None
    except (tf.errors.NotFoundError, ValueError, AttributeError):
        return None
