"""Images of more than 8 bits: which of their values become 0 and 255."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable

import numpy as np
import tensorflow as tf
from absl import logging

from cpc_tf.data.config import FULL, DataConfig
from cpc_tf.data.decoding.decode import Levels, header, values
from cpc_tf.data.sources import check_cache, look

# Outliers beyond these are cut off: faulty pixels, a letter that is burnt in, a piece of metal.
_PERCENTILES = (0.1, 99.9)
IMAGES = 200  # to measure
_PIXELS = 20_000  # of each


def of_folder(data: DataConfig, root: str, names: list[str], deep: int, count: int) -> Levels | None:
    """Returns the levels for `decode`, the same for all splits of a folder. A warning states them.

    Args:
      data: the settings of the dataset.
      root: its folder.
      names: the images of all splits, sorted. They are read only if a split has some of more than 8 bits.
      deep, count: how many images of a split have more than 8 bits, and how many it has.
    """
    if not deep:
        return None
    if data.sixteen_bit == FULL:
        _warn(data.origin, deep, count)
        return None

    def find():
        files = _deep(root, names, data.max_megapixels)
        few = files[:: max(1, -(-len(files) // IMAGES))]
        low, high = measured(tf.constant(look.content(f"{root}/{name}")) for name in few)
        return {"deep": len(files), "low": low, "high": high}

    rules = f"levels 1 {tf.__version__} {data.max_megapixels}"
    stats, example = check_cache.stats(root, names), {"deep": 0, "low": 0.0, "high": 0.0}
    found = check_cache.remembered(data.data_dir, root, names, stats, rules, example, find)
    levels = found["low"], found["high"]
    _warn(data.origin, found["deep"], len(names), levels)
    return levels


def of_records(rule: str, dataset: str, encoded: Iterable[tf.Tensor], count: int) -> Levels | None:
    """Returns the levels of `count` records of 16 bits, of which some are given. See `of_folder`."""
    levels = None if rule == FULL else measured(encoded)
    _warn(dataset, count, count, levels)
    return levels


def measured(files: Iterable[tf.Tensor]) -> Levels:
    """Returns the range of values in encoded images, without the outermost thousandth at both ends."""
    random, found = np.random.default_rng(0), [np.zeros(0, np.float32)]
    for encoded in files:
        with contextlib.suppress(tf.errors.OpError, UnicodeDecodeError):  # broken, in a split that is not used here
            pixels = values(encoded).numpy().reshape(-1, 3)
            found.append(pixels[random.integers(len(pixels), size=_PIXELS)].ravel())
    known = np.concatenate(found)
    known = known[np.isfinite(known)]
    low, high = map(float, np.percentile(known, _PERCENTILES)) if len(known) else (0.0, 65535.0)
    return low, high if high > low else low + 1


def _deep(root, names, max_megapixels):
    """Returns the files of more than 8 bits that are not huge."""

    def is_deep(encoded):
        about = header(encoded)
        return (about.bits > 8) & (about.pixels < tf.cast(max_megapixels * 1e6, tf.int64))

    return [names[number] for number in sorted(number for number, deep in look.at_files(root, names, is_deep) if deep)]


@functools.cache  # a run opens several splits, some of them more than once
def _warn(dataset, deep, count, levels=None):
    rule = "their upper 8 bits are used (--sixteen_bit=full)"
    if levels:
        rule = "values {:g} to {:g} are scaled to 0 to 255 (--sixteen_bit=range)".format(*levels)
    logging.warning("%s: %d of %d images have more than 8 bits; %s", dataset, deep, count, rule)
