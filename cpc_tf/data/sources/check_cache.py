"""Remembers what was found out about the files of a folder until one of them changes."""

from __future__ import annotations

import concurrent.futures
import hashlib
import json
import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from cpc_tf import cache
from cpc_tf.files import NotWritten, read_json, reason, remove_leftovers, write_file

_STAT_THREADS = 16  # hide the latency of a bucket


def stats(root: str, names: list[str]) -> np.ndarray:
    """Returns the size in bytes and the time of change in ns of each file, -1 if it is absent: int64 [names, 2]."""

    def describe(name):
        try:
            stat = tf.io.gfile.stat(os.path.join(root, name))
        except tf.errors.OpError:
            return -1, -1
        return stat.length, stat.mtime_nsec

    chunks = [names[i : i + 1000] for i in range(0, len(names), 1000)]
    with concurrent.futures.ThreadPoolExecutor(_STAT_THREADS) as pool:
        parts = pool.map(lambda chunk: np.array([describe(name) for name in chunk], np.int64), chunks)
        return np.concatenate([np.zeros([0, 2], np.int64), *parts])


def remembered(
    cache_dir: str,
    root: str,
    names: list[str],
    stats: np.ndarray,
    rules: str,
    example: dict[str, Any],
    find: Callable[[], dict[str, Any]],
) -> dict[str, Any]:
    """Returns `find()`, or what it returned before for the same files and rules.

    Args:
      cache_dir: where findings are kept; empty: `cache.folder()`.
      root: the folder.
      names, stats: its files and their `stats`.
      rules: what else the findings depend on.
      example: a value of the same kind for each finding: a list of files, {file: a file}, or a number.
      find: finds it out.
    """
    digest = hashlib.sha256(f"{rules}\n".encode())
    for name, (length, changed) in zip(names, stats.tolist()):
        digest.update(f"{name}\n{length} {changed}\n".encode())
    folder = os.path.join(os.path.expanduser(cache_dir) or cache.folder(), "checked_folders")
    path = os.path.join(folder, digest.hexdigest()[:32] + ".json")
    found = _recall(path, names, example)
    if found is None:
        found = find()
        remove_leftovers(folder, r"[0-9a-f]{32}\.json\.\d+\.tmp")
        try:
            write_file(path, json.dumps({"folder": root, "files": len(names), **found}, indent=1))
        except (NotWritten, UnicodeError) as error:  # only a cache
            why = reason(error.__cause__ or error)
            logging.warning("%s: cannot be written, the folder will be checked again: %s", path, why)
    return found


def _recall(path, names, example):
    """Returns what a file remembers of these files, None if there is no such file or it cannot be about these."""
    try:
        record = read_json(path)
        found, known = {kind: record[kind] for kind in example}, set(names)
        sound = all(_is_like(value, example[kind], known) for kind, value in found.items())
        return found if sound and record["files"] == len(names) else None
    except (ValueError, KeyError, TypeError):
        return None


def _is_like(value, example, known):
    if isinstance(example, list):
        return isinstance(value, list) and known.issuperset(value)
    if isinstance(example, dict):
        return isinstance(value, dict) and known.issuperset(value) and known.issuperset(value.values())
    return isinstance(value, (int, float)) and math.isfinite(value)
