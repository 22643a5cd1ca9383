"""Reads and writes files on a disk or in a bucket, whole or not at all; remembers what was found
out about files.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import sys
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from cpc_tf.core.settings import ConfigError, RunEnded
from cpc_tf.core.texts import escaped

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
            f"{path}: cannot be written ({reason(error)}); what was saved before is intact;"
            " free disk space or change the permissions, and run the same command to resume"
        ) from error


def write_file(path: str, content: str | bytes) -> None:
    """Writes a file under a temporary name, then renames it. Raises NotWritten.

    A link stays a link: the file behind it is replaced. A file that is replaced keeps its
    permissions.
    """
    target = path if "://" in path else os.path.realpath(path)
    temporary = f"{target}.{os.getpid()}.tmp"
    with writing(path):
        tf.io.gfile.makedirs(os.path.dirname(target))
        try:
            if "://" not in target and os.path.exists(target):
                with open(temporary, "wb"):
                    # before it has the content, which others may not read
                    shutil.copymode(target, temporary)
            with tf.io.gfile.GFile(temporary, "wb" if isinstance(content, bytes) else "w") as file:
                file.write(content)
            tf.io.gfile.rename(temporary, target, overwrite=True)
        except Exception:
            with contextlib.suppress(tf.errors.OpError):
                tf.io.gfile.remove(temporary)
            raise


@contextlib.contextmanager
def written_aside(path: str, flag: str, replaces: bool = False) -> Iterator[str]:
    """Yields a directory beside `path` that gets its name if all goes well, and is removed if not.

    Args:
      path: of the directory to write.
      flag: that names it, for messages.
      replaces: whether a directory of this name is replaced.

    Raises:
      ConfigError: there is one, and it is not to be replaced.
      NotWritten: the directory cannot be created or renamed.
    """
    path = path.rstrip("/")
    if tf.io.gfile.exists(path) and not replaces:
        raise ConfigError(flag, path, "exists already; remove it or choose another name")
    folder, name = os.path.split(path)
    if replaces:
        _bring_back(path)
    remove_leftovers(folder or ".", re.escape(name) + r"\.\d+(\.old)?\.tmp")
    new = f"{path}.{os.getpid()}.tmp"
    old = f"{path}.{os.getpid()}.old.tmp"
    above = _absent(folder)
    where = f"--{flag}={path}"
    with writing(where):
        tf.io.gfile.makedirs(new)
    try:
        yield new
        with writing(where):
            if replaces and tf.io.gfile.exists(path):
                tf.io.gfile.rename(path, old)
            tf.io.gfile.rename(new, path)
    finally:
        if tf.io.gfile.exists(old):
            if tf.io.gfile.exists(path):
                tf.io.gfile.rmtree(old)
            else:  # the new one could not get the name
                tf.io.gfile.rename(old, path)
        if tf.io.gfile.exists(new):
            tf.io.gfile.rmtree(new)
            with contextlib.suppress(OSError):  # others have written there meanwhile
                for each in above:
                    os.rmdir(each)


def _bring_back(path: str) -> None:
    """Gives a directory its name back, if a process was killed between the two renames of
    `written_aside`.
    """
    folder, name = os.path.split(path)
    if tf.io.gfile.exists(path) or not tf.io.gfile.isdir(folder or "."):
        return
    for each in tf.io.gfile.listdir(folder or "."):
        each = each.rstrip("/")
        if re.fullmatch(re.escape(name) + r"\.\d+\.old\.tmp", each):
            tf.io.gfile.rename(os.path.join(folder, each), path)
            return


def _absent(folder: str) -> list[str]:
    """Returns a folder and those above it, the deepest first, as far as they are not there; none in
    a bucket.
    """
    absent = []
    while folder and "://" not in folder and not os.path.exists(folder):
        absent.append(folder)
        folder = os.path.dirname(folder)
    return absent


def read_text(path: str) -> str:
    """Returns the content of a text file. Raises ConfigError if it cannot be read."""
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            return file.read().decode()
    except (OSError, tf.errors.OpError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read ({reason(error)})") from error


def read_json(path: str, kind: type = dict) -> Any:
    """Returns the content of a JSON file. Raises ConfigError if it cannot be read or is not of this
    kind.
    """
    try:
        value = json.loads(read_text(path))
    except (json.JSONDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: is damaged ({reason(error)})") from error
    if not isinstance(value, kind):
        raise ConfigError(
            f"{path}: is damaged (a {type(value).__name__} instead of a {kind.__name__})"
        )
    return value


def remove_leftovers(folder: str, pattern: str) -> None:
    """Removes what killed runs left: the old files and folders whose whole names match a regular
    expression.

    Old means that nothing in it has changed for an hour. What cannot be removed stays, without an
    error.
    """
    with contextlib.suppress(tf.errors.OpError, UnicodeError):
        for entry in tf.io.gfile.listdir(folder):
            if re.fullmatch(pattern, entry.rstrip("/")):
                with contextlib.suppress(OSError, tf.errors.OpError, UnicodeError):
                    _remove_if_old(os.path.join(folder, entry.rstrip("/")))


def _remove_if_old(path: str) -> None:
    is_folder = tf.io.gfile.isdir(path)
    paths = [path]
    for folder, _, files in tf.io.gfile.walk(path) if is_folder else ():
        paths += [os.path.join(folder, file) for file in files]
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
    """Gives a path to write an image to. A run does not need it: what the machine fails is a
    warning.

    That is an image that cannot be read, a missing font or a full disk. Other errors are raised.
    """
    try:
        yield path
    # ImportError: PIL without FreeType
    except (
        OSError,
        ImportError,
        ConfigError,
        tf.errors.OpError,
    ) as error:
        print(f"warning: {path} was not drawn: {reason(error)}", file=sys.stderr, flush=True)


def bytes_read() -> int | None:
    """Returns the bytes that this process has read from files so far, as Linux counts them; None on
    other systems.

    It counts what was asked for, whether it came from the disk or from memory, by all threads. What
    comes over the network without a file, as from gs://, is not counted.
    """
    with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/self/io") as file:
        return int(file.readline().split()[1])  # 'rchar: N'
    return None


Findings = dict[str, np.ndarray]


def cache_folder() -> str:
    """Returns CPC_TF_CACHE, or the folder cpc_tf of XDG_CACHE_HOME, or ~/.cache/cpc_tf. It need not
    exist.
    """
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.environ.get("CPC_TF_CACHE") or os.path.join(home, "cpc_tf")


def remember(
    kind: str,
    key: Iterable[str],
    make: Callable[[], Findings],
    is_sound: Callable[..., bool],
    *,
    place: str = "",
    again: str = "the folder will be checked again",
) -> Findings:
    """Returns `make()`, or what it returned before for the same key.

    Args:
      kind: of the findings; a folder has its name.
      key: lines of all that the findings depend on, such as names, sizes and times of files.
      make: finds them out: {name: array}.
      is_sound: called with the arrays that are remembered, by their names: whether they can be what
        `make` returns.
      place: where findings are kept; empty: `cache_folder()`.
      again: what follows if they cannot be kept, for a warning.
    """
    digest = hashlib.sha256()
    for line in key:
        digest.update(f"{line}\n".encode())
    here = os.path.join(os.path.expanduser(place) or cache_folder(), kind)
    path = os.path.join(here, digest.hexdigest()[:32] + ".npz")
    try:
        with (
            tf.io.gfile.GFile(path, "rb") as file,
            np.load(io.BytesIO(file.read()), allow_pickle=False) as arrays,
        ):
            findings = {name: arrays[name] for name in arrays.files}
        if is_sound(**findings):
            return findings
    # No file, or a damaged one.
    except (
        tf.errors.OpError,
        OSError,
        ValueError,
        KeyError,
        TypeError,
        EOFError,
        zipfile.BadZipFile,
    ):
        pass
    findings = make()
    remove_leftovers(here, r"[0-9a-f]{32}\.npz\.\d+\.tmp")
    stream = io.BytesIO()
    np.savez(stream, **findings)
    try:
        write_file(path, stream.getvalue())
    except (NotWritten, UnicodeError) as error:  # only a cache
        logging.warning(
            "%s: cannot be written, %s: %s", path, again, reason(error.__cause__ or error)
        )
    return findings
