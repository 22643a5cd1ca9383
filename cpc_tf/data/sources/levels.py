"""Pictures of more than 8 bits: which of their values become 0 and 255."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable

import numpy as np
import tensorflow as tf
from absl import logging

from cpc_tf.data.config import FULL, DataConfig
from cpc_tf.data.decoding.decode import Levels, header, values
from cpc_tf.data.sources import check_cache, folder_check

# Cut off at both ends, of all values: faulty pixels, a letter that is burnt in, a piece of metal.
_PERCENTILES = (0.1, 99.9)
PICTURES = 200  # that are looked at
_PIXELS = 20_000  # of each


def of_folder(
    rule: str,
    dataset: str,
    root: str,
    names: list[str],
    split: folder_check.Checked,
    cache_dir: str = "",
    max_megapixels: float = DataConfig.max_megapixels,
) -> Levels | None:
    """The levels for `decode`. They are the same for all splits of a folder; a line says them.

    Args:
      rule: the --sixteen_bit.
      dataset: the --dataset, for the line.
      root: the folder.
      names: its pictures in all splits, sorted.
      split: those to be opened. Where none has more than 8 bits, the others are not looked at.
      cache_dir, max_megapixels: as of `folder_check.sound`.
    """
    if not split.deep:
        return None
    if rule == FULL:
        _say(dataset, split.deep, len(split.names))
        return None
    stats = folder_check.stats(root, names)
    outcome = check_cache.path(cache_dir, names, stats, f"levels 1 {tf.__version__} {max_megapixels}")
    found = check_cache.recall(outcome, names, {"deep": 0, "low": 0.0, "high": 0.0})
    if found is None:
        deep = _deep(root, names, max_megapixels)
        some = deep[:: -(-len(deep) // PICTURES)]
        low, high = measured(tf.io.read_file(f"{root}/{name}") for name in some)
        found = {"deep": len(deep), "low": low, "high": high}
        check_cache.remember(outcome, {"folder": root, "files": len(names), **found})
    levels = found["low"], found["high"]
    _say(dataset, found["deep"], len(names), levels)
    return levels


def of_records(rule: str, dataset: str, encoded: Iterable[tf.Tensor], total: int) -> Levels | None:
    """As `of_folder`, for `total` records of 16 bits, of which some are given."""
    levels = None if rule == FULL else measured(encoded)
    _say(dataset, total, total, levels)
    return levels


def measured(files: Iterable[tf.Tensor]) -> Levels:
    """The range of values in encoded pictures of more than 8 bits, without the outermost thousandth at both ends."""
    random, found = np.random.default_rng(0), [np.zeros(0, np.float32)]
    for encoded in files:
        with contextlib.suppress(tf.errors.OpError, UnicodeDecodeError):  # broken, of a split that is not used here
            pixels = values(encoded).numpy().reshape(-1, 3)
            found.append(pixels[random.integers(len(pixels), size=_PIXELS)].ravel())
    known = np.concatenate(found)
    known = known[np.isfinite(known)]
    low, high = map(float, np.percentile(known, _PERCENTILES)) if len(known) else (0.0, 65535.0)
    return low, high if high > low else low + 1


def _deep(root, names, max_megapixels):
    """Those of more than 8 bits that are not huge."""

    def look(name):
        about = header(tf.io.read_file(tf.strings.join([root, name], "/")))
        return name, (about.bits > 8) & (about.pixels < tf.cast(max_megapixels * 1e6, tf.int64))

    files = tf.data.Dataset.from_tensor_slices(names).map(look, num_parallel_calls=tf.data.AUTOTUNE)
    found = files.ignore_errors().filter(lambda name, is_deep: is_deep)
    return [name.decode() for name, _ in found.as_numpy_iterator()]


@functools.cache  # a run opens several splits, and some of them more than once
def _say(dataset, deep, total, levels=None):
    rule = "their upper 8 bits are used (--sixteen_bit=full)"
    if levels:
        rule = "values {:g} to {:g} are scaled to 0 to 255 (--sixteen_bit=range)".format(*levels)
    logging.warning("%s: %d of %d pictures have more than 8 bits; %s", dataset, deep, total, rule)
