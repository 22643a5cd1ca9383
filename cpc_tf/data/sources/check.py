"""Finds the broken and the huge files of a folder by decoding each once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import PIL
import tensorflow as tf
from absl import logging

from cpc_tf.data.config import DataConfig
from cpc_tf.data.decoding import signatures
from cpc_tf.data.decoding.decode import Levels, decode, header, orientation
from cpc_tf.data.sources import check_cache, levels, look
from cpc_tf.progress import Progress, waiting_for
from cpc_tf.settings import ConfigError
from cpc_tf.texts import listed

_MOST_LEFT_OUT = 0.01  # of all files; above, the data are not what their owner believes
_DESCRIBED = 20  # broken files whose kind a message tells
# Bump the number when the check changes: old outcomes become void.
_RULES = f"4 {tf.__version__} {PIL.__version__}"


class Checked(NamedTuple):
    """The usable files of a folder.

    Attributes:
      root: the folder.
      names: the files, relative to it.
      stats: their `check_cache.stats` when they were checked.
      levels: how images of more than 8 bits are decoded, see `decode`.
    """

    root: str
    names: list[str]
    stats: np.ndarray
    levels: Levels | None


def usable(
    data: DataConfig,
    root: str,
    names: list[str],
    everything: list[str],
    flag: str,
    sizes: dict[str, np.ndarray] | None = None,
) -> Checked:
    """Returns the files that can be decoded and are not huge; a warning names the others.

    The outcome is remembered: a second start is instant, and a folder that has changed is checked again.

    Args:
      data: the settings of the dataset.
      root: its folder.
      names: files of a split, relative to the folder.
      everything: the files of all splits, sorted: those of more than 8 bits are decoded alike.
      flag: the flags that name the folder, with their values, for messages.
      sizes: if given, gets {file: (height, width, EXIF's orientation) as stored, int32 [3]} of what is decoded now;
        of files whose outcome was remembered, nothing.

    Raises:
      ConfigError: more than 1 % are broken, or huge.
    """
    stats, limit = check_cache.stats(root, names), data.max_megapixels
    example = {"broken": [], "huge": [], "deep": 0, "several": 0}
    found = check_cache.remembered(
        data.data_dir, root, names, stats, f"{_RULES} {limit}", example, lambda: _check(root, names, limit, sizes)
    )
    broken = found["broken"]
    described = [f"{name} ({signatures.describe(f'{root}/{name}')})" for name in broken[:_DESCRIBED]]
    described += broken[_DESCRIBED:]
    leave_out(flag, described, f"{len(names)} files", "cannot be decoded", "remove or repair them")
    problem = f"have {limit:g} megapixels or more"
    leave_out(flag, found["huge"], f"{len(names)} files", problem, "remove or shrink them")
    if found["several"]:
        what = f"{found['several']} of {len(names)} files have several frames or pages"
        logging.warning("%s: %s, of which the first is used", root, what)
    bad = {*broken, *found["huge"]}
    kept = [number for number, name in enumerate(names) if name not in bad]
    deep_levels = levels.of_folder(data, root, everything, found["deep"], len(kept))
    return Checked(root, [names[number] for number in kept], stats[kept], deep_levels)


def leave_out(
    flag: str, bad: Sequence[str], total: str, problem: str, remedy: str, done: str = "are left out", count: int = 0
) -> None:
    """Warns of what is left out of a dataset. Raises ConfigError if that is more than 1 %.

    Args:
      flag: the flags that name the dataset, with their values.
      bad: what is left out.
      total: how much there is of what, e.g. '400 files'.
      problem: why it is left out.
      remedy: what to do about it.
      done: what becomes of it, if it is not left out.
      count: how much that is, if `bad` names what holds several of them.
    """
    count = count or len(bad)
    share = count / max(int(total.split()[0]), 1)
    message = f"{flag}: {count} of {total} ({100 * share:.3g} %) {problem}"
    if share > _MOST_LEFT_OUT:
        raise ConfigError(f"{message}, more than 1 %; {remedy}: {listed(bad)}")
    if bad:
        logging.warning("%s and %s; %s: %s", message, done, remedy, listed(bad))


def _check(root, names, max_megapixels, sizes=None):
    """Returns the broken files, the huge ones, and how many others are deep, or have several frames; see `usable`."""

    def try_decode(encoded):
        about = header(encoded)
        huge = about.pixels >= tf.cast(max_megapixels * 1e6, tf.int64)
        decoded = tf.cond(huge, lambda: tf.zeros([], tf.int64), lambda: tf.size(decode(encoded), tf.int64))
        # Depends on the pixels, or the decoding would be optimized away.
        kinds = tf.stack([huge, (about.bits > 8) & ~huge, about.several & ~huge]) & (decoded >= 0)
        if sizes is None:
            return kinds
        return tf.concat([tf.cast(kinds, tf.int32), about.size, [orientation(encoded)]], 0)

    found = {}
    progress = Progress(len(names))
    with waiting_for(f"checking the images in {root}", progress):
        for number, kinds in look.at_files(root, names, try_decode):
            found[number] = kinds[:3]
            if sizes is not None:
                sizes[names[number]] = kinds[3:]
            progress.update(len(found))
    _, deep, several = np.reshape([*found.values()], [-1, 3]).sum(0).tolist()
    return {
        "broken": [name for number, name in enumerate(names) if number not in found],
        "huge": [names[number] for number in sorted(found) if found[number][0]],
        "deep": deep,
        "several": several,
    }
