"""The user's images: files in folders and lists, or arrays; in batches that say why a broken one is
left out.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Union

import numpy as np
import tensorflow as tf
from absl import logging
from PIL import Image, ImageOps

from cpc_tf.core.files import reason
from cpc_tf.core.settings import ConfigError, parted_names
from cpc_tf.core.texts import PICTURES, shown, written
from cpc_tf.data import check, views, walk
from cpc_tf.data.config import DataConfig
from cpc_tf.data.decode import IntensityRange, decode, header

_LIST = ".txt"
_PREFETCH = 2  # batches
_OF_8_BITS = (".jpg", ".jpeg", ".jpe", ".jfif", ".gif", ".bmp", ".webp")
# Larger images are not decoded: a small file can fill the memory.
MAX_MEGAPIXELS = DataConfig.max_megapixels
MOST_BYTES = walk.most_bytes(MAX_MEGAPIXELS)

One = Union[str, os.PathLike, np.ndarray, Image.Image]
# A folder (with all below it), a file, a list of files; an array uint8 or of floats in [0, 1], [H,
# W, 3] or [N, H, W, 3]; a PIL image; a list of arrays and PIL images of any sizes.
Images = Union[One, Sequence[One]]


@dataclasses.dataclass(frozen=True)
class Pictures:
    """Files of images, which need not be sound, or arrays and PIL images.

    Attributes:
      names: as results have them: relative to the folder, or as they were given, with undecodable
        bytes escaped; '000000.png' and so on for arrays.
      paths: where the files are, as TensorFlow reads them; none for arrays.
      arrays: the arrays and PIL images; none for files.
    """

    names: list[str]
    paths: list[bytes]
    arrays: Sequence[Any] = ()

    def __len__(self) -> int:
        return len(self.names)

    @functools.cached_property
    def read(self) -> list[int]:
        """The indices of the files that are read: the others are too large, see
        `walk.most_bytes`.
        """
        return np.flatnonzero(walk.stats("", self.paths)[:, 0] < MOST_BYTES).tolist()

    @functools.cached_property
    def intensity_range(self) -> IntensityRange | None:
        """The intensity range of all images of more than 8 bits, for models that name none; None
        without such.

        A warning states it. Only files that may have more than 8 bits are read.
        """
        paths = [self.paths[i] for i in self.read]
        paths = [path for path in paths if walk.extension(os.fsdecode(path)) not in _OF_8_BITS]
        if not paths:
            return None
        # `batches` names what is broken or cannot be read.
        deep, (low, high) = check.range_of_files(paths, MAX_MEGAPIXELS, skip_unreadable=True)
        if not deep:
            return None
        what = "images have more than 8 bits, and the model does not say how to see them"
        logging.warning(
            "%d %s: their values %g to %g are scaled to 0 to 255", deep, what, low, high
        )
        return low, high

    @property
    def places(self) -> list[Any]:
        """What tells images apart: of a file its path, absolute and without links, of an array its
        pixels' digest.
        """
        if self.arrays:
            pixels = map(_pixels, self.arrays)
            return [
                (image.shape, hashlib.sha256(np.ascontiguousarray(image)).digest())
                for image in pixels
            ]
        return [path if b"://" in path else os.path.realpath(path) for path in self.paths]

    def take(self, indices: Sequence[int]) -> Pictures:
        """Returns these images."""
        names = [self.names[i] for i in indices]
        paths = [self.paths[i] for i in indices] if len(self.paths) else []
        arrays = [self.arrays[i] for i in indices] if len(self.arrays) else []
        return Pictures(names, paths, arrays)


class Batch(NamedTuple):
    """The next images, sound and broken ones.

    Attributes:
      start, stop: which ones, by index.
      indices: of the sound ones among them, int64 [n], ascending.
      images: of these, uint8 [n, ...], as they were prepared.
      broken: index -> why an image could not be read.
    """

    start: int
    stop: int
    indices: np.ndarray
    images: np.ndarray
    broken: dict[int, str]


def find(images: Images, flag: str = "pictures") -> Pictures:
    """Returns the images that a flag names, as `texts.PICTURES` says, or that Python has; a
    folder's are sorted.

    Paths in a list are relative to the working directory. A file that a list names need not exist.

    Raises:
      ConfigError: there is no such folder or file, no image, or an array is none.
    """
    if not isinstance(images, (str, os.PathLike)):
        return _of_python(images)
    text = os.fspath(images)
    where = f"--{flag}={shown(text)}"
    if not text:
        raise ConfigError(f"--{flag}= is empty: name {PICTURES}")
    if text == "-":
        return _of_list(sys.stdin.buffer.read(), f"{where}: standard input")
    path = os.path.expanduser(text)
    if tf.io.gfile.isdir(path):
        root = path.rstrip("/") or "/"
        names = walk.images(root)
        if not names:
            raise ConfigError(
                f"{where}: no image in this folder; looked for {', '.join(walk.EXTENSIONS)}"
            )
        return Pictures([*map(written, names)], [os.fsencode(f"{root}/{name}") for name in names])
    if walk.extension(path) == _LIST and tf.io.gfile.exists(path):
        with tf.io.gfile.GFile(path, "rb") as file:
            return _of_list(file.read(), where)
    files = [text] if tf.io.gfile.exists(path) else parted_names(text)
    paths = [os.path.expanduser(name) for name in files]
    for name, path in zip(files, paths):
        if not tf.io.gfile.exists(path):
            raise ConfigError(f"{where}: there is no {shown(name)}; name {PICTURES}")
        if tf.io.gfile.isdir(path):
            raise ConfigError(
                f"{where}: {shown(name)} is a folder; give one folder alone, or files"
            )
    return Pictures([*map(written, files)], [*map(os.fsencode, paths)])


def _of_list(text: bytes, where: str) -> Pictures:
    lines = [line for line in text.removeprefix(b"\xef\xbb\xbf").splitlines() if line.strip()]
    if not lines:
        raise ConfigError(f"{where} names no image; it needs one path per line")
    if any(b"\0" in line for line in lines):
        raise ConfigError(f"{where}: not a list of paths")
    return Pictures(
        [written(os.fsdecode(line)) for line in lines], [os.path.expanduser(line) for line in lines]
    )


def _of_python(images: Any) -> Pictures:
    """Returns the images of a list of files, of an array, or of a list of arrays and PIL images."""
    is_one = isinstance(images, Image.Image) or getattr(images, "ndim", 0) == 3
    items = [images] if is_one else list(images)
    if not items:
        raise ConfigError("images: the list is empty")
    are_files = [isinstance(each, (str, os.PathLike)) for each in items]
    if all(are_files):
        paths = [*map(os.fsencode, items)]
        return Pictures(
            [written(os.fsdecode(path)) for path in paths], [*map(os.path.expanduser, paths)]
        )
    if any(are_files):
        raise ConfigError("images: has both files and arrays; give only one kind")
    for index, image in enumerate(items):
        if isinstance(image, Image.Image):
            if image.mode[0] in "IF":  # their values would be cut off at 255
                depth = f"a PIL image of mode {image.mode}, of more than 8 bits"
                raise ConfigError(f"image {index}: {depth}; give its file")
            continue
        pixels = items[index] = np.asarray(image)
        if pixels.ndim != 3 or pixels.shape[-1] != 3 or 0 in pixels.shape:
            raise ConfigError(
                f"image {index}: an array of shape {list(pixels.shape)}; must be [height, width,"
                " 3], RGB"
            )
        is_fraction = (
            np.issubdtype(pixels.dtype, np.floating) and pixels.min() >= 0 and pixels.max() <= 1
        )
        if pixels.dtype != np.uint8 and not is_fraction:
            values = f"{pixels.dtype} values of {pixels.min():g} to {pixels.max():g}"
            raise ConfigError(f"image {index}: {values}; must be uint8, or floats of 0 to 1")
    return Pictures([f"{index:06}.png" for index in range(len(items))], [], items)


def _pixels(image: np.ndarray | Image.Image) -> np.ndarray:
    """Returns an image as uint8 [H, W, 3]; a PIL image is turned as its EXIF says, as its file
    would be.
    """
    if isinstance(image, Image.Image):
        return np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
    return image if image.dtype == np.uint8 else np.round(image * 255).astype(np.uint8)


def batches(
    pictures: Pictures,
    prepare: Callable[..., tf.Tensor],
    batch_size: int,
    *,
    least_side: int | Sequence[int] = 0,
    intensity_range: IntensityRange | None = None,
    quiet: bool = False,
) -> Iterator[Batch]:
    """Decodes and prepares images, in order and in parallel, and puts them into batches of sound
    ones.

    In the end it warns of files of more than 8 bits, if no intensity range is known.

    Args:
      pictures: files or arrays.
      prepare: image uint8 [H, W, 3] -> uint8 [...], of the same shape for all if `batch_size` is
        not 1. It gets the image as often as there are values of `least_side`.
      batch_size: sound images of a batch; the last may have fewer, even none.
      least_side, intensity_range: as in `decode.decode`; without a range, that of the images.
      quiet: whether not to warn, as others did.
    """
    intensity_range = intensity_range or pictures.intensity_range
    sides = [least_side] if isinstance(least_side, int) else least_side

    def read(index: tf.Tensor, path: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        encoded = tf.io.read_file(path)
        about = header(encoded)
        with tf.control_dependencies(
            [tf.debugging.assert_less(about.pixels, tf.cast(MAX_MEGAPIXELS * 1e6, tf.int64))]
        ):
            images = [decode(encoded, side, intensity_range) for side in sides]
            return index, prepare(*images), about.bits > 8

    def arrays() -> Iterator[tuple[int, np.ndarray]]:
        return enumerate(map(_pixels, pictures.arrays))

    parallel = {"num_parallel_calls": tf.data.AUTOTUNE, "deterministic": True}
    if pictures.arrays:
        kinds = tf.TensorSpec([], tf.int64), tf.TensorSpec([None, None, 3], tf.uint8)
        indexed = tf.data.Dataset.from_generator(arrays, output_signature=kinds)
        prepared = indexed.map(
            lambda index, image: (index, prepare(*[image] * len(sides)), False), **parallel
        )
    elif pictures.paths:
        paths = [pictures.paths[i] for i in pictures.read]
        files = tf.data.Dataset.from_tensor_slices(
            (np.array(pictures.read, np.int64), tf.constant(paths, tf.string))
        )
        prepared = files.map(read, **parallel).ignore_errors()  # what fails is missing afterwards
    else:
        return
    done = deep_ones = 0
    for indices, images, deep in prepared.batch(batch_size).prefetch(_PREFETCH).as_numpy_iterator():
        stop = int(indices[-1]) + 1
        missing = sorted({*range(done, stop)} - {*indices.tolist()})
        yield Batch(
            done, stop, indices, images, {i: reason_unreadable(pictures.paths[i]) for i in missing}
        )
        done = stop
        deep_ones = deep_ones + int(deep.sum())
    if done < len(pictures):
        broken = {i: reason_unreadable(pictures.paths[i]) for i in range(done, len(pictures))}
        yield Batch(done, len(pictures), np.zeros([0], np.int64), np.zeros([0], np.uint8), broken)
    if deep_ones and not intensity_range and not quiet:
        logging.warning("%d images have more than 8 bits; their upper 8 bits are used", deep_ones)


def reason_unreadable(path: bytes) -> str:
    """Returns why a file cannot be read as an image, as part of a sentence."""
    try:
        if not tf.io.gfile.exists(path):
            return "there is no such file"
        if (size := tf.io.gfile.stat(path).length) >= MOST_BYTES:
            return f"has {size / 1e6:.0f} MB, and less than {MOST_BYTES / 1e6:g} are read"
        encoded = tf.io.read_file(path)
    except (OSError, tf.errors.OpError) as error:
        return f"cannot be read: {reason(error)}"
    except UnicodeDecodeError:  # TensorFlow refuses some names
        return "cannot be read, or its name is not UTF-8"
    try:
        megapixels = int(header(encoded).pixels) / 1e6
        if megapixels >= MAX_MEGAPIXELS:
            return f"has {megapixels:.0f} megapixels, and less than {MAX_MEGAPIXELS:g} are decoded"
    except (tf.errors.OpError, UnicodeDecodeError):
        pass  # the header is damaged, which the bytes tell, too
    return f"cannot be decoded: {walk.kind_of_file(path)}"


def thumbnails(
    pictures: Pictures, side: int, intensity_range: IntensityRange | None = None
) -> np.ndarray:
    """Returns the whole of each image on a white square; of a broken one the square: uint8 [N,
    side, side, 3].
    """

    def shrink(image: tf.Tensor) -> tf.Tensor:
        size = tf.shape(image)[:2]
        height, width = tf.unstack(tf.maximum(size * side // tf.reduce_max(size), 1))
        top = (side - height) // 2
        left = (side - width) // 2
        margins = [[top, side - height - top], [left, side - width - left], [0, 0]]
        padded = tf.pad(
            views.resize(image, height, width), margins, constant_values=tf.constant(255, tf.uint8)
        )
        return tf.ensure_shape(padded, [side, side, 3])

    squares = np.full([len(pictures), side, side, 3], 255, np.uint8)
    for batch in batches(
        pictures, shrink, 32, least_side=side, intensity_range=intensity_range, quiet=True
    ):
        if len(batch.indices):
            squares[batch.indices] = batch.images
    return squares
