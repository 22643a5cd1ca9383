"""Finds the broken and the huge files of a folder by decoding each once, and remembers them."""

from __future__ import annotations

import concurrent.futures
import hashlib
import time
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

from cpc_tf.data import check_cache
from cpc_tf.data.config import DataConfig
from cpc_tf.data.decode import decode, pixels
from cpc_tf.settings import ConfigError
from cpc_tf.texts import listed

_MOST_LEFT_OUT = 0.01  # of all files; above, the data are not what their owner believes
_REPORT_EVERY = 10  # seconds
_STAT_THREADS = 16  # hide the round trips to a bucket
_VERSION = 2  # of the check: a change makes old outcomes void
_KINDS = ("broken", "huge")


class Checked(NamedTuple):
    """The files that can be used, and what `stats` said of them when they were checked."""

    names: list[str]
    stats: np.ndarray


def sound(
    root: str,
    names: list[str],
    cache_dir: str = "",
    dataset: str = "",
    max_megapixels: float = DataConfig.max_megapixels,
) -> Checked:
    """The files that can be decoded and are not huge; a warning names the others.

    Args:
      root: the folder.
      names: files relative to it.
      cache_dir: where outcomes are kept, by a digest of names, sizes and times of change: a second start is instant,
        and a changed folder is checked again. Empty: ~/.cache/cpc_tf.
      dataset: the --dataset that the folder belongs to; empty: folder:ROOT.
      max_megapixels: images have less.

    Raises:
      ConfigError: more than 1 % are broken, or huge.
    """
    found_stats = stats(root, names)
    outcome = check_cache.path(cache_dir, _digest(names, found_stats, max_megapixels))
    found = check_cache.recall(outcome, names, _KINDS)
    if found is None:
        found = dict(zip(_KINDS, _check(root, names, max_megapixels)))
        check_cache.remember(outcome, {"folder": root, "files": len(names), **found})
    dataset = dataset or f"folder:{root}"
    _report(root, dataset, found["broken"], len(names), "cannot be decoded", "repair")
    _report(root, dataset, found["huge"], len(names), f"have {max_megapixels:g} megapixels or more", "shrink")
    bad = {name for some in found.values() for name in some}
    kept = [number for number, name in enumerate(names) if name not in bad]
    return Checked([names[number] for number in kept], found_stats[kept])


def stats(root: str, names: list[str]) -> np.ndarray:
    """int64 [names, 2]: size in bytes and time of change in ns of each file, -1 of what is not there."""

    def describe(name):
        try:
            stat = tf.io.gfile.stat(f"{root}/{name}")
        except tf.errors.OpError:
            return -1, -1
        return stat.length, stat.mtime_nsec

    chunks = [names[i : i + 1000] for i in range(0, len(names), 1000)]
    with concurrent.futures.ThreadPoolExecutor(_STAT_THREADS) as pool:
        parts = pool.map(lambda chunk: np.array([describe(name) for name in chunk], np.int64), chunks)
        return np.concatenate([np.zeros([0, 2], np.int64), *parts])


def _report(root, dataset, bad, total, what, remedy):
    if not bad:
        return
    share = f"{len(bad)} of {total} files ({100 * len(bad) / total:.3g} %) {what}"
    if len(bad) > _MOST_LEFT_OUT * total:
        raise ConfigError(f"--dataset={dataset}: {share}, more than 1 %; remove or {remedy} them: {listed(bad)}")
    logging.warning("%s: %s and are left out: %s", root, share, listed(bad))


def _check(root, names, max_megapixels):
    """Names of the files that cannot be decoded, and of those that are not, since they are huge."""
    files = tf.data.Dataset.from_tensor_slices((tf.range(len(names), dtype=tf.int64), tf.constant(names)))

    def try_decode(number, name):
        encoded = tf.io.read_file(tf.strings.join([root, name], "/"))
        huge = pixels(encoded) >= tf.cast(max_megapixels * 1e6, tf.int64)
        decoded = tf.cond(huge, lambda: tf.zeros([], tf.int64), lambda: tf.size(decode(encoded), tf.int64))
        # Depends on the pixels, lest the decoding be optimized away.
        return number + 0 * decoded, huge

    # Whatever fails is missing afterwards: hardly any Python code runs for a file, so a million take as long as their
    # pixels.
    decoded = files.map(try_decode, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False).ignore_errors()
    is_huge = {}
    start = reported = time.monotonic()
    for number, huge in decoded.as_numpy_iterator():
        is_huge[int(number)] = bool(huge)
        now = time.monotonic()
        if now - reported > _REPORT_EVERY:
            reported = now
            left = (now - start) / len(is_huge) * (len(names) - len(is_huge))
            logging.info("checking %s: %d of %d files, %d s left", root, len(is_huge), len(names), left)
    broken = [name for number, name in enumerate(names) if number not in is_huge]
    return broken, [name for number, name in enumerate(names) if is_huge.get(number)]


def _digest(names, found_stats, max_megapixels):
    """Changes when a file is added, removed, renamed or written, and with the rules of the check."""
    digest = hashlib.sha256(f"{_VERSION} {tf.__version__} {max_megapixels}\n".encode())
    for name, (length, changed) in zip(names, found_stats.tolist()):
        digest.update(f"{name}\n{length} {changed}\n".encode())
    return digest.hexdigest()[:32]
