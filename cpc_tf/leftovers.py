"""Removes what killed runs left aside."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time

import tensorflow as tf

_OLD = 3600  # seconds without a change: nobody is writing it any more


def remove(folder: str, pattern: str) -> None:
    """Removes the old files and folders in a folder whose whole names match a regular expression.

    Old is that in which nothing has changed for an hour. What cannot be removed is no error: it is only in the way.
    """
    with contextlib.suppress(tf.errors.OpError, UnicodeError):
        for entry in tf.io.gfile.listdir(folder):
            name = entry.rstrip("/")
            if re.fullmatch(pattern, name):
                with contextlib.suppress(OSError, tf.errors.OpError, UnicodeError):
                    _remove_if_old(os.path.join(folder, name))


def _remove_if_old(path):
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
