"""Looks at each file of a folder; what cannot be read at the moment is told from what is broken."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from cpc_tf.data.sources.source import read_once
from cpc_tf.files import reason
from cpc_tf.settings import ConfigError


def at_files(root: str, names: list[str], look: Callable[[tf.Tensor], tf.Tensor]) -> Iterator[tuple[int, np.ndarray]]:
    """Yields the numbers of the files that are sound, and what was seen in each.

    Hardly any Python code runs for a sound file, so a million take as long as their pixels.

    Args:
      root: the folder.
      names: its files.
      look: encoded, a string scalar -> what is seen in it; fails if the file is broken.

    Raises:
      ConfigError: a file cannot be read.
    """

    def read(number: tf.Tensor, name: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return number, look(tf.io.read_file(tf.strings.join([root, name], "/")))

    files = tf.data.Dataset.from_tensor_slices((tf.range(len(names), dtype=tf.int64), tf.constant(names)))
    sound = files.map(read, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False).ignore_errors()
    seen = set()
    for number, found in read_once(sound).as_numpy_iterator():
        seen.add(int(number))
        yield int(number), found
    # What fails is missing, whatever the reason: a second look tells.
    for number in [number for number in range(len(names)) if number not in seen]:
        encoded = content(f"{root}/{names[number]}")
        with contextlib.suppress(tf.errors.OpError, UnicodeDecodeError):  # broken
            yield number, look(tf.constant(encoded)).numpy()


def content(path: str, last: int | None = None) -> bytes:
    """Returns the bytes of a file, or its last ones. Raises ConfigError if it cannot be read."""
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            if last is not None and (size := file.size()) > last:
                file.seek(size - last)
            return file.read()
    except (OSError, tf.errors.OpError, UnicodeError) as error:
        raise ConfigError(
            f"{path}: cannot be read ({reason(error)}); run the same command again, and remove the file if that does "
            "not help"
        ) from error
