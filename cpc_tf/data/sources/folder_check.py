"""Finds the broken and the huge files of a folder by decoding each once, and remembers them."""

from __future__ import annotations

import concurrent.futures
import time
from typing import NamedTuple

import numpy as np
import PIL
import tensorflow as tf
from absl import logging

from cpc_tf.data.config import DataConfig
from cpc_tf.data.decoding import signatures
from cpc_tf.data.decoding.decode import decode, header
from cpc_tf.data.sources import check_cache
from cpc_tf.settings import ConfigError
from cpc_tf.texts import listed

_MOST_LEFT_OUT = 0.01  # of all files; above, the data are not what their owner believes
_REPORT_EVERY = 10  # seconds
_STAT_THREADS = 16  # hide the round trips to a bucket
_SHOWN = 20  # files whose kind is told
# Changes when a change of the check makes old outcomes void.
_RULES = f"3 {tf.__version__} {PIL.__version__}"


class Checked(NamedTuple):
    """The files that can be used, and what `stats` said of them when they were checked."""

    names: list[str]
    stats: np.ndarray
    deep: int = 0  # of all files, those with more than 8 bits


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
        and a changed folder is checked again. Empty: `cache.folder()`.
      dataset: the --dataset that the folder belongs to; empty: folder:ROOT.
      max_megapixels: images have less.

    Raises:
      ConfigError: more than 1 % are broken, or huge.
    """
    found_stats = stats(root, names)
    outcome = check_cache.path(cache_dir, names, found_stats, f"{_RULES} {max_megapixels}")
    found = check_cache.recall(outcome, names, {"broken": [], "huge": [], "deep": 0, "several": 0})
    if found is None:
        found = _check(root, names, max_megapixels)
        check_cache.remember(outcome, {"folder": root, "files": len(names), **found})
    dataset = dataset or f"folder:{root}"
    kinds = [f"{name} ({signatures.describe(f'{root}/{name}')})" for name in found["broken"][:_SHOWN]]
    _report(root, dataset, kinds + found["broken"][_SHOWN:], len(names), "cannot be decoded", "repair")
    _report(root, dataset, found["huge"], len(names), f"have {max_megapixels:g} megapixels or more", "shrink")
    if found["several"]:
        what = f"{found['several']} of {len(names)} files have several frames or pages"
        logging.warning("%s: %s, of which the first is used", root, what)
    bad = {*found["broken"], *found["huge"]}
    kept = [number for number, name in enumerate(names) if name not in bad]
    return Checked([names[number] for number in kept], found_stats[kept], found["deep"])


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
    """{'broken': files that cannot be decoded, 'huge': files that are not, 'deep': and 'several': numbers of files}."""
    files = tf.data.Dataset.from_tensor_slices((tf.range(len(names), dtype=tf.int64), tf.constant(names)))

    def try_decode(number, name):
        encoded = tf.io.read_file(tf.strings.join([root, name], "/"))
        about = header(encoded)
        huge = about.pixels >= tf.cast(max_megapixels * 1e6, tf.int64)
        decoded = tf.cond(huge, lambda: tf.zeros([], tf.int64), lambda: tf.size(decode(encoded), tf.int64))
        # Depends on the pixels, lest the decoding be optimized away.
        return number + 0 * decoded, tf.stack([huge, about.bits > 8, about.several])

    # Whatever fails is missing afterwards: hardly any Python code runs for a file, so a million take as long as their
    # pixels.
    decoded = files.map(try_decode, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False).ignore_errors()
    found = {}
    start = reported = time.monotonic()
    for number, kinds in decoded.as_numpy_iterator():
        found[int(number)] = kinds
        now = time.monotonic()
        if now - reported > _REPORT_EVERY:
            reported = now
            left = (now - start) / len(found) * (len(names) - len(found))
            logging.info("checking %s: %d of %d files, %d s left", root, len(found), len(names), left)
    huge, deep, several = np.reshape([*found.values()], [-1, 3]).sum(0).tolist()
    return {
        "broken": [name for number, name in enumerate(names) if number not in found],
        "huge": [name for number, name in enumerate(names) if huge and number in found and found[number][0]],
        "deep": deep,
        "several": several,
    }
