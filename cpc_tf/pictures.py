"""Pictures that people have: found in folders and lists, and decoded in batches; a broken one gives its reason."""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

from cpc_tf.data import check, walk
from cpc_tf.data.config import DataConfig
from cpc_tf.data.decoding import signatures
from cpc_tf.data.decoding.decode import IntensityRange, decode, header
from cpc_tf.data.views import geometry
from cpc_tf.files import reason
from cpc_tf.settings import ConfigError, parted_names
from cpc_tf.texts import PICTURES, escaped, shown

_LIST = ".txt"
_PREFETCH = 2  # batches
_OF_8_BITS = (".jpg", ".jpeg", ".jpe", ".jfif", ".gif", ".bmp", ".webp")
MAX_MEGAPIXELS = DataConfig.max_megapixels  # larger pictures are not decoded: a small file can fill the memory


@dataclasses.dataclass(frozen=True)
class Pictures:
    """Files of pictures, which need not be sound.

    Attributes:
      names: as results show them, each on one line: relative to the folder, or as they were given.
      paths: where the files are, as TensorFlow reads them.
    """

    names: list[str]
    paths: list[bytes]

    def __len__(self) -> int:
        return len(self.names)

    @functools.cached_property
    def levels(self) -> IntensityRange | None:
        """The range of values in those of more than 8 bits, for models that name none; None if there are none.

        It is that of all together, as in training. A warning states it. Only files that may have more bits are read.
        """
        paths = [path for path in self.paths if walk.extension(os.fsdecode(path)) not in _OF_8_BITS]
        if not paths:
            return None

        def is_deep(path: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            about = header(tf.io.read_file(path))
            return path, (about.bits > 8) & (about.pixels < tf.cast(MAX_MEGAPIXELS * 1e6, tf.int64))

        # What is broken or cannot be read is told where it is encoded.
        looked = tf.data.Dataset.from_tensor_slices(paths).map(is_deep, num_parallel_calls=tf.data.AUTOTUNE)
        deep = [path for path, own in looked.ignore_errors().as_numpy_iterator() if own]
        if not deep:
            return None
        low, high = check.measured(map(tf.io.read_file, deep[:: -(-len(deep) // check.MEASURED)]))
        what = "pictures have more than 8 bits, and the model does not say how to see them"
        logging.warning("%d %s: their values %g to %g are scaled to 0 to 255", len(deep), what, low, high)
        return low, high

    @property
    def places(self) -> list[bytes]:
        """The paths by which the same file is known however it was named: absolute, without links."""
        return [path if b"://" in path else os.path.realpath(path) for path in self.paths]

    def take(self, indices: Sequence[int]) -> Pictures:
        """Returns these pictures."""
        return Pictures([self.names[i] for i in indices], [self.paths[i] for i in indices])


class Batch(NamedTuple):
    """The next pictures, sound and broken ones.

    Attributes:
      start, stop: which ones, by index.
      indices: of the sound ones among them, int64 [n], ascending.
      images: of these, uint8 [n, ...], as they were prepared.
      deep: whether each has more than 8 bits, bool [n].
      broken: index -> why a picture could not be read.
    """

    start: int
    stop: int
    indices: np.ndarray
    images: np.ndarray
    deep: np.ndarray
    broken: dict[int, str]


def find(given: str, flag: str = "pictures") -> Pictures:
    """Returns the pictures that a flag names: `texts.PICTURES` says how. Files of a folder are sorted.

    Paths in a list are relative to the working directory. A file that a list names need not exist.

    Raises:
      ConfigError: there is no such folder or file, or no picture.
    """
    where = f"--{flag}={shown(given)}"
    if not given:
        raise ConfigError(f"--{flag}= is empty: name {PICTURES}")
    if given == "-":
        return _of_list(sys.stdin.buffer.read(), f"{where}: standard input")
    path = os.path.expanduser(given)
    if tf.io.gfile.isdir(path):
        root = path.rstrip("/") or "/"
        names = walk.images(root)
        if not names:
            raise ConfigError(f"{where}: no picture in this folder; looked for {', '.join(walk.EXTENSIONS)}")
        return Pictures([*map(escaped, names)], [os.fsencode(f"{root}/{name}") for name in names])
    if walk.extension(path) == _LIST and tf.io.gfile.exists(path):
        with tf.io.gfile.GFile(path, "rb") as file:
            return _of_list(file.read(), where)
    files = [given] if tf.io.gfile.exists(path) else parted_names(given)
    paths = [os.path.expanduser(name) for name in files]
    for name, path in zip(files, paths):
        if not tf.io.gfile.exists(path):
            raise ConfigError(f"{where}: there is no {shown(name)}; name {PICTURES}")
        if tf.io.gfile.isdir(path):
            raise ConfigError(f"{where}: {shown(name)} is a folder; give one folder alone, or files")
    return Pictures([*map(escaped, files)], [*map(os.fsencode, paths)])


def _of_list(text: bytes, where: str) -> Pictures:
    lines = [line for line in text.removeprefix(b"\xef\xbb\xbf").splitlines() if line.strip()]
    if not lines:
        raise ConfigError(f"{where} names no picture; it needs a path a line")
    if any(b"\0" in line for line in lines):
        raise ConfigError(f"{where}: not a list of paths")
    return Pictures([escaped(os.fsdecode(line)) for line in lines], [os.path.expanduser(line) for line in lines])


def batches(
    pictures: Pictures,
    prepare: Callable[[tf.Tensor], tf.Tensor],
    batch_size: int,
    *,
    least_side: int = 0,
    levels: IntensityRange | None = None,
    start: int = 0,
) -> Iterator[Batch]:
    """Decodes and prepares pictures, in order and in parallel, and puts them into batches of sound ones.

    Args:
      pictures: the files.
      prepare: image uint8 [H, W, 3] -> uint8 [...], of the same shape for all if `batch_size` is not 1.
      batch_size: sound pictures of a batch; the last may have fewer, even none.
      least_side, levels: as in `decode.decode`; without levels, those of the pictures.
      start: index of the first picture.
    """

    levels = levels or pictures.levels

    def read(index: tf.Tensor, path: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        encoded = tf.io.read_file(path)
        about = header(encoded)
        with tf.control_dependencies([tf.debugging.assert_less(about.pixels, tf.cast(MAX_MEGAPIXELS * 1e6, tf.int64))]):
            return index, prepare(decode(encoded, least_side, levels)), about.bits > 8

    if start >= len(pictures):
        return
    indices = tf.range(start, len(pictures), dtype=tf.int64)
    files = tf.data.Dataset.from_tensor_slices((indices, tf.constant(pictures.paths[start:])))
    # What fails is missing afterwards.
    found = files.map(read, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True).ignore_errors()
    done = start
    for indices, images, deep in found.batch(batch_size).prefetch(_PREFETCH).as_numpy_iterator():
        stop = int(indices[-1]) + 1
        missing = sorted({*range(done, stop)} - {*indices.tolist()})
        yield Batch(done, stop, indices, images, deep, {i: why_not(pictures.paths[i]) for i in missing})
        done = stop
    if done < len(pictures):
        broken = {i: why_not(pictures.paths[i]) for i in range(done, len(pictures))}
        nothing = np.zeros([0])
        yield Batch(done, len(pictures), nothing.astype(np.int64), nothing.astype(np.uint8), nothing > 0, broken)


def why_not(path: bytes) -> str:
    """Returns why a file cannot be read as a picture, as part of a sentence."""
    try:
        if not tf.io.gfile.exists(path):
            return "there is no such file"
        with tf.io.gfile.GFile(path, "rb") as file:
            data = file.read()
    except (OSError, tf.errors.OpError) as error:
        return f"cannot be read: {reason(error)}"
    except UnicodeDecodeError:  # TensorFlow refuses some names
        return "cannot be read, or its name is not UTF-8"
    try:
        megapixels = int(header(tf.constant(data)).pixels) / 1e6
        if megapixels >= MAX_MEGAPIXELS:
            return f"has {megapixels:.0f} megapixels, and less than {MAX_MEGAPIXELS:g} are decoded"
    except (tf.errors.OpError, UnicodeDecodeError):
        pass  # the header is damaged, which the bytes tell, too
    return f"cannot be decoded: {signatures.of(data)}"


def thumbnails(pictures: Pictures, side: int, levels: IntensityRange | None = None) -> np.ndarray:
    """Returns the whole of each picture on a white square; of a broken one the square: uint8 [N, side, side, 3]."""

    def shrink(image: tf.Tensor) -> tf.Tensor:
        size = tf.shape(image)[:2]
        height, width = tf.unstack(tf.maximum(size * side // tf.reduce_max(size), 1))
        top, left = (side - height) // 2, (side - width) // 2
        margins = [[top, side - height - top], [left, side - width - left], [0, 0]]
        padded = tf.pad(geometry.resize(image, height, width), margins, constant_values=tf.constant(255, tf.uint8))
        return tf.ensure_shape(padded, [side, side, 3])

    found = np.full([len(pictures), side, side, 3], 255, np.uint8)
    for batch in batches(pictures, shrink, 32, least_side=side, levels=levels):
        if len(batch.indices):
            found[batch.indices] = batch.images
    return found


def say_deep(count: int, levels: IntensityRange | None) -> None:
    """Warns of pictures of more than 8 bits, if there is any and the model does not say how to see them."""
    if count and not levels:
        logging.warning("%d pictures have more than 8 bits; their upper 8 bits are used", count)
