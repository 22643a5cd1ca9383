"""Reads and writes files on a disk or in a bucket, whole or not at all, and removes old leftovers."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from cpc_tf.settings import ConfigError, RunEnded
from cpc_tf.texts import escaped

_OLD = 3600  # seconds without a change: nobody is writing it any more


class NotWritten(RunEnded):
    """A file cannot be written: the disk is full, or permission is missing."""

    status = 4


@contextlib.contextmanager
def writing(path: str) -> Iterator[None]:
    """Re-raises write errors as NotWritten."""
    try:
        yield
    except (OSError, tf.errors.OpError) as error:
        raise NotWritten(
            f"{path}: cannot be written ({reason(error)}); what was saved before is whole, and the same command goes "
            "on from there once there is room and permission"
        ) from error


def write_file(path: str, content: str | bytes) -> None:
    """Writes a file under a temporary name, then renames it. Raises NotWritten."""
    temporary = f"{path}.{os.getpid()}.tmp"
    with writing(path):
        tf.io.gfile.makedirs(os.path.dirname(path) or ".")
        try:
            with tf.io.gfile.GFile(temporary, "wb" if isinstance(content, bytes) else "w") as file:
                file.write(content)
            tf.io.gfile.rename(temporary, path, overwrite=True)
        except Exception:
            with contextlib.suppress(tf.errors.OpError):
                tf.io.gfile.remove(temporary)
            raise


def read_text(path: str) -> str:
    """Returns the content of a text file. Raises ConfigError if it cannot be read."""
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            return file.read().decode()
    except (OSError, tf.errors.OpError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read ({reason(error)})") from error


def read_json(path: str, kind: type = dict) -> Any:
    """Returns the content of a JSON file. Raises ConfigError if it cannot be read or is not of this kind."""
    try:
        found = json.loads(read_text(path))
    except (json.JSONDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: is damaged ({reason(error)})") from error
    if not isinstance(found, kind):
        raise ConfigError(f"{path}: is damaged (a {type(found).__name__} instead of a {kind.__name__})")
    return found


def remove_leftovers(folder: str, pattern: str) -> None:
    """Removes what killed runs left: the old files and folders whose whole names match a regular expression.

    Old means that nothing in it has changed for an hour. What cannot be removed stays, without an error.
    """
    with contextlib.suppress(tf.errors.OpError, UnicodeError):
        for entry in tf.io.gfile.listdir(folder):
            if re.fullmatch(pattern, entry.rstrip("/")):
                with contextlib.suppress(OSError, tf.errors.OpError, UnicodeError):
                    _remove_if_old(os.path.join(folder, entry.rstrip("/")))


def _remove_if_old(path: str) -> None:
    is_folder = tf.io.gfile.isdir(path)
    below = tf.io.gfile.walk(path) if is_folder else []
    paths = [path, *(os.path.join(here, file) for here, _, files in below for file in files)]
    if time.time() - max(tf.io.gfile.stat(each).mtime_nsec for each in paths) / 1e9 < _OLD:
        return
    if not is_folder:
        tf.io.gfile.remove(path)
    elif "://" in path:
        tf.io.gfile.rmtree(path)
    else:
        shutil.rmtree(path)  # TensorFlow's would also empty the folders that links in it lead to


def to_json(value: Any) -> str:
    """Returns a value as indented, strict JSON."""
    return json.dumps(value, indent=2, allow_nan=False) + "\n"


def reason(error: Exception) -> str:
    """Returns the first line of the message of an error of the file system or of TensorFlow."""
    text = getattr(error, "strerror", None) or getattr(error, "message", None) or str(error)
    return escaped((text.strip() or type(error).__name__).splitlines()[0])


@contextlib.contextmanager
def optional_picture(path: str) -> Iterator[str]:
    """Gives a path to write a picture to. A run does not need it: what the machine fails is a warning.

    That is an image that cannot be read, a missing font or a full disk. Other errors are raised.
    """
    try:
        yield path
    except (OSError, ImportError, ConfigError, tf.errors.OpError) as error:  # ImportError: PIL without FreeType
        print(f"warning: {path} is not drawn: {reason(error)}", file=sys.stderr, flush=True)


def bytes_read() -> int | None:
    """Returns the bytes that this process has read from files so far, as Linux counts them; None on other systems.

    It counts what was asked for, whether it came from the disk or from memory, by all threads. What comes over the
    network without a file, as from gs://, is not counted.
    """
    with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/self/io") as file:
        return int(file.readline().split()[1])  # 'rchar: N'
    return None
