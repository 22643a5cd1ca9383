"""What checks of folders have found, remembered in files."""

from __future__ import annotations

import hashlib
import json
import math
import os
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from cpc_tf import cache
from cpc_tf.files import reason, remove_leftovers


def path(cache_dir: str, names: list[str], stats: np.ndarray, rules: str) -> str:
    """The file of the outcome for a folder's files. It is another one once a file is added, removed or written.

    Args:
      cache_dir: where outcomes are kept; empty: `cache.folder()`.
      names, stats: the files, their sizes and times of change.
      rules: what else the outcome depends on.
    """
    digest = hashlib.sha256(f"{rules}\n".encode())
    for name, (length, changed) in zip(names, stats.tolist()):
        digest.update(f"{name}\n{length} {changed}\n".encode())
    folder = os.path.expanduser(cache_dir) if cache_dir else cache.folder()
    return os.path.join(folder, "checked_folders", digest.hexdigest()[:32] + ".json")


def recall(outcome: str, names: list[str], example: dict[str, Any]) -> dict[str, Any] | None:
    """What was remembered of these files. None if that was nothing, or it cannot be of these.

    Args:
      example: a value of the same kind for each that was remembered: a list of files, or a number.
    """
    try:
        with tf.io.gfile.GFile(outcome) as file:
            record = json.load(file)
        found, known = {kind: record[kind] for kind in example}, set(names)
        sound = all(_is_like(some, example[kind], known) for kind, some in found.items())
    # TypeError: a list or a number instead of an object, or of a name.
    except (tf.errors.OpError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return found if sound and record.get("files") == len(names) else None


def _is_like(value, example, known):
    if isinstance(example, list):
        return isinstance(value, list) and known.issuperset(value)
    return isinstance(value, (int, float)) and math.isfinite(value)


def remember(outcome: str, record: dict) -> None:
    """Writes aside and renames, so that nobody reads half a file; a cache that cannot be written is no error."""
    aside = f"{outcome}.{os.getpid()}"
    folder = os.path.dirname(outcome)
    try:
        tf.io.gfile.makedirs(folder)
        remove_leftovers(folder, r"[0-9a-f]{32}\.json\.\d+")
        with tf.io.gfile.GFile(aside, "w") as file:
            json.dump(record, file, indent=1)
        tf.io.gfile.rename(aside, outcome, overwrite=True)
    except (tf.errors.OpError, UnicodeError) as error:
        logging.warning("%s: cannot be written, the folder will be checked again: %s", outcome, reason(error))
