"""Keeps other processes out of a file or a directory while this one writes there."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import socket
from collections.abc import Iterator
from typing import IO, TextIO

import tensorflow as tf
from absl import logging

from cpc_tf.core.files import NotWritten, reason, write_file
from cpc_tf.core.settings import ConfigError

LOCK = "lock"  # the file in a directory that is locked


def lock(file: IO, wait: bool = True) -> bool:
    """Locks an open file until it is closed, however this process ends.

    Args:
      file: an open file.
      wait: whether to wait for another process that holds it.

    Returns:
      Whether other processes are kept out; False only without `wait`. Some network file systems
      have no locks: there it is True, and a warning.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        _warn_of_no_locks(str(getattr(file, "name", "")), reason(error))
    return True


@functools.cache  # once for each file
def _warn_of_no_locks(path: str, why: str) -> None:
    logging.warning(
        "%s: cannot be locked (%s); do not run two processes in this directory", path, why
    )


@contextlib.contextmanager
def locked(directory: str) -> Iterator[None]:
    """Keeps other processes out of a directory, which is created if need be and removed if it stays
    empty.

    On a disk the operating system holds the lock and releases it however the process ends. A bucket
    has no locks: a second process gets a warning only, and so does the next one after a kill.

    Raises:
      ConfigError: another process uses the directory, or it cannot be written to.
    """
    path = os.path.join(directory, LOCK)
    owner = f"process {os.getpid()} on {socket.gethostname()}\n"
    with contextlib.ExitStack() as stack:
        try:
            if "://" in directory:
                if tf.io.gfile.exists(path):
                    logging.warning(
                        "%s: another process uses this directory or was killed; only one may write",
                        path,
                    )
                write_file(path, owner)
                stack.callback(_remove_from_bucket, path)
            else:
                os.makedirs(directory, exist_ok=True)
                file = stack.enter_context(open(path, "a+"))
                _lock_on_disk(file, directory, owner)
                stack.callback(_remove_if_empty, directory)
        except (OSError, tf.errors.OpError, NotWritten) as error:
            why = reason(error.__cause__ or error)
            raise ConfigError("workdir", directory, f"cannot be written to ({why})") from error
        yield


def _lock_on_disk(file: TextIO, directory: str, owner: str) -> None:
    if not lock(file, wait=False):
        file.seek(0)
        other = file.read(200).strip() or "another process"
        raise ConfigError(
            "workdir",
            directory,
            f"{other} is using this directory; wait until it has ended, or use another --workdir",
        )
    with contextlib.suppress(OSError):  # on a full disk the lock is held all the same
        file.truncate(0)
        file.write(owner)
        file.flush()


def _remove_if_empty(directory: str) -> None:
    with contextlib.suppress(OSError):
        if os.listdir(directory) == [LOCK]:
            os.remove(os.path.join(directory, LOCK))
            os.rmdir(directory)


def _remove_from_bucket(path: str) -> None:
    with contextlib.suppress(tf.errors.OpError):
        tf.io.gfile.remove(path)
