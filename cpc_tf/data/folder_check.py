"""Finds the broken files of a folder by decoding each once, and remembers them."""

from __future__ import annotations

import concurrent.futures
import hashlib
import json
import os
import time

import tensorflow as tf
from absl import logging

from cpc_tf.data.decode import decode
from cpc_tf.settings import ConfigError

_MOST_BROKEN = 0.01  # of all files; above, the data are not what their owner believes
_NAMED = 20  # names in a message; the file of the outcome has them all
_CACHE = "~/.cache/cpc_tf"
_REPORT_EVERY = 10  # seconds
_STAT_THREADS = 16  # hide the round trips to a bucket
_VERSION = 1  # of the check: a change makes old outcomes void


def sound(root: str, names: list[str], cache_dir: str = "", dataset: str = "") -> list[str]:
    """The files that can be decoded; a warning names the others.

    Args:
      root: the folder.
      names: files relative to it.
      cache_dir: where outcomes are kept, by a digest of names, sizes and times of change: a second start is instant,
        and a changed folder is checked again. Empty: ~/.cache/cpc_tf.
      dataset: the --dataset that the folder belongs to; empty: folder:ROOT.

    Raises:
      ConfigError: more than 1 % are broken.
    """
    folder = os.path.expanduser(cache_dir or _CACHE)
    outcome = os.path.join(folder, "checked_folders", _digest(root, names) + ".json")
    broken = _recall(outcome)
    if broken is None:
        broken = _broken(root, names)
        _remember(outcome, {"folder": root, "files": len(names), "broken": broken})
    if not broken:
        return names
    listed = ", ".join(broken[:_NAMED]) + (f" and {len(broken) - _NAMED} more" if len(broken) > _NAMED else "")
    share = f"{len(broken)} of {len(names)} files ({100 * len(broken) / len(names):.3g} %) cannot be decoded"
    if len(broken) > _MOST_BROKEN * len(names):
        dataset = dataset or f"folder:{root}"
        raise ConfigError(f"--dataset={dataset}: {share}, more than 1 %; remove or repair them: {listed}")
    logging.warning("%s: %s and are left out: %s", root, share, listed)
    bad = set(broken)
    return [name for name in names if name not in bad]


def _broken(root, names):
    """Names of the files that cannot be decoded."""
    files = tf.data.Dataset.from_tensor_slices((tf.range(len(names), dtype=tf.int64), tf.constant(names)))

    def try_decode(number, name):
        # Depends on the pixels, lest the decoding be optimized away.
        pixels = tf.size(decode(tf.io.read_file(tf.strings.join([root, name], "/"))), out_type=tf.int64)
        return number + 0 * pixels

    # Whatever fails is missing afterwards: no Python code runs for a file, so a million take as long as their pixels.
    decoded = files.map(try_decode, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False).ignore_errors()
    good = set()
    start = reported = time.monotonic()
    for number in decoded.as_numpy_iterator():
        good.add(int(number))
        now = time.monotonic()
        if now - reported > _REPORT_EVERY:
            reported = now
            left = (now - start) / len(good) * (len(names) - len(good))
            logging.info("checking %s: %d of %d files, %d s left", root, len(good), len(names), left)
    return [name for number, name in enumerate(names) if number not in good]


def _digest(root, names):
    """Changes when a file is added, removed, renamed or written."""

    def describe(some):
        stats = [(name, tf.io.gfile.stat(f"{root}/{name}")) for name in some]
        return "".join(f"{name}\n{stat.length} {stat.mtime_nsec}\n" for name, stat in stats)

    chunks = [names[i : i + 1000] for i in range(0, len(names), 1000)]
    digest = hashlib.sha256(f"{_VERSION} {tf.__version__}\n".encode())
    with concurrent.futures.ThreadPoolExecutor(_STAT_THREADS) as pool:
        for text in pool.map(describe, chunks):
            digest.update(text.encode())
    return digest.hexdigest()[:32]


def _recall(outcome):
    """The broken files of an earlier check, None if there was none."""
    try:
        with tf.io.gfile.GFile(outcome) as file:
            return json.load(file)["broken"]
    except (tf.errors.OpError, ValueError, KeyError):
        return None


def _remember(outcome, record):
    """Writes aside and renames, so that nobody reads half a file; a cache that cannot be written is no error."""
    aside = f"{outcome}.{os.getpid()}"
    try:
        tf.io.gfile.makedirs(os.path.dirname(outcome))
        with tf.io.gfile.GFile(aside, "w") as file:
            json.dump(record, file, indent=1)
        tf.io.gfile.rename(aside, outcome, overwrite=True)
    except tf.errors.OpError as error:
        logging.warning("%s: cannot be written, the folder will be checked again: %s", outcome, error)
