"""Reads each file of a folder once: which are broken or huge, and the intensity range of those of
more than 8 bits.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import PIL
import tensorflow as tf
from absl import logging

from cpc_tf.core import files
from cpc_tf.core.files import reason
from cpc_tf.core.progress import Progress, waiting_for
from cpc_tf.core.settings import ConfigError
from cpc_tf.core.texts import listed
from cpc_tf.data import walk
from cpc_tf.data.config import FULL, RANGE
from cpc_tf.data.decode import IntensityRange, decode, header, orientation, values
from cpc_tf.data.source import read_once
from cpc_tf.data.table import FINDINGS, Table

_PART = 1 << 20  # bytes of a file that are hashed at once
_MOST_LEFT_OUT = 0.01  # of all files; above, the data are not what their owner believes
_DESCRIBED = 20  # broken files whose kind a message tells
# Columns of what is found of a file. Images with the same PIXELS are the same; 0: not known.
STATE, DEEP, SEVERAL, HEIGHT, WIDTH, ORIENTATION, PIXELS = range(FINDINGS)
# its STATE
SOUND = 1
BROKEN = 2
HUGE = 3
# Bump the number when the check changes: old outcomes become void.
_RULES = f"7 {tf.__version__} {PIL.__version__}"
_DIGESTS = 2**62  # of pixels
MEASURED = 200  # images of more than 8 bits from which the range of all is estimated
_PIXELS = 20_000  # of each
# Values beyond these are cut off: faulty pixels, a letter that is burnt in, a piece of metal.
_PERCENTILES = (0.1, 99.9)


class Usable(NamedTuple):
    """Rows of a table whose files can be used.

    Attributes:
      rows: in the order in which they were asked for.
      intensity_range: how images of more than 8 bits are decoded, see `decode`: alike in all of the
        table.
      sizes: of each image as it is stored (height, width, EXIF's orientation), int32 [rows, 3].
    """

    rows: list[int]
    intensity_range: IntensityRange | None
    sizes: np.ndarray


def usable(table: Table, rows: Sequence[int], sixteen_bit: str = RANGE) -> Usable:
    """Returns the rows whose files can be decoded and are not huge; a warning names the others.

    Args:
      table: the images of a dataset.
      rows: those to check.
      sixteen_bit: how values of more than 8 bits become 8, `RANGE` or `FULL`.

    Raises:
      ConfigError: more than 1 % are broken, or huge, or a file cannot be read.
    """
    names = table.names[rows].tolist()
    flag = table.flag
    findings = look(table, rows)
    broken, huge = (np.flatnonzero(findings[:, STATE] == state) for state in (BROKEN, HUGE))
    described = [names[i] for i in broken]
    for place, i in enumerate(broken[:_DESCRIBED]):
        described[place] += f" ({walk.kind_of_file(table.paths[rows[i]])})"
    leave_out(flag, described, f"{len(rows)} files", "cannot be decoded", "remove or repair them")
    most = walk.most_bytes(table.max_megapixels) / 1e6
    problem = f"have {table.max_megapixels:g} megapixels or more, or {most:g} MB or more"
    leave_out(
        flag, [names[i] for i in huge], f"{len(rows)} files", problem, "remove or shrink them"
    )
    if several := int(findings[:, SEVERAL].sum()):
        message = "%s: %d of %d files have several frames or pages, of which the first is used"
        logging.warning(message, table.root, several, len(rows))
    sound = np.flatnonzero(findings[:, STATE] == SOUND)
    deep = int(findings[:, DEEP].sum())
    intensity_range = _range_of(table, sixteen_bit, deep, len(sound))
    sizes = findings[sound, HEIGHT : ORIENTATION + 1].astype(np.int32)
    return Usable([rows[place] for place in sound], intensity_range, sizes)


def look(table: Table, rows: Sequence[int]) -> np.ndarray:
    """Returns what is found of the files of some rows, int64 [rows, FINDINGS].

    Each file is decoded once. The outcome is remembered: a second start is instant, and a folder
    that has changed is looked at again.

    Raises:
      ConfigError: a file cannot be read.
    """
    limit = table.max_megapixels
    large = [row for row in rows if table.stats[row, 0] >= walk.most_bytes(limit)]
    table.looked[large, STATE] = HUGE  # without reading them
    unseen = [row for row in rows if not table.looked[row, STATE]]
    paths = table.paths[unseen].tolist()

    def is_sound(found):
        is_whole = found.shape == (len(unseen), FINDINGS) and found.dtype == np.int64
        return is_whole and bool(np.isin(found[:, STATE], (SOUND, BROKEN, HUGE)).all())

    def find():
        return {"found": _check(table.root, paths, limit)}

    if unseen:
        key = table.key(f"{_RULES} {limit}", unseen)
        cached = files.remember("checked_folders", key, find, is_sound, place=table.cache_dir)
        table.looked[unseen] = cached["found"]
    return table.looked[rows]


def leave_out(
    flag: str,
    bad: Sequence[str],
    total: str,
    problem: str,
    remedy: str,
    done: str = "are left out",
    count: int = 0,
) -> None:
    """Warns of files, rows or boxes that are left out. Raises ConfigError if they are more than 1
    %.

    Args:
      flag: the flags that name the dataset, with their values.
      bad: the names of those that are left out.
      total: how many there are, e.g. '400 files'.
      problem: why they are left out.
      remedy: what the user can do.
      done: what is done with them, if they are not left out.
      count: how many are left out, if `bad` names images with several boxes.
    """
    count = count or len(bad)
    share = count / max(int(total.split()[0]), 1)
    message = f"{flag}: {count} of {total} ({100 * share:.3g} %) {problem}"
    if share > _MOST_LEFT_OUT:
        raise ConfigError(f"{message}, more than 1 %; {remedy}: {listed(bad)}")
    if bad:
        logging.warning("%s and %s; %s: %s", message, done, remedy, listed(bad))


def _check(root, paths, max_megapixels):
    """Returns what is found of each file, int64 [paths, FINDINGS]."""

    def digest(encoded, is_deep):
        # What is hashed depends on it, or the decoding would be optimized away.
        pixels = decode(encoded)
        count = tf.strings.as_string(tf.size(pixels))
        # How values of more than 8 bits become 8 is not known yet.
        content = tf.cond(
            is_deep,
            lambda: tf.strings.join([encoded, count]),
            lambda: tf.io.serialize_tensor(pixels),
        )
        return 1 + tf.strings.to_hash_bucket_fast(content, _DIGESTS)

    def try_decode(encoded):
        about = header(encoded)
        huge = about.pixels >= tf.cast(max_megapixels * 1e6, tf.int64)
        deep = about.bits > 8
        state = tf.where(huge, HUGE, SOUND)
        pixels = tf.cond(huge, lambda: tf.constant(0, tf.int64), lambda: digest(encoded, deep))
        kinds = [state, tf.cast(deep & ~huge, tf.int32), tf.cast(about.several & ~huge, tf.int32)]
        return tf.concat(
            [tf.cast([*kinds, *tf.unstack(about.size), orientation(encoded)], tf.int64), [pixels]],
            0,
        )

    found = np.zeros([len(paths), FINDINGS], np.int64)
    done = 0
    progress = Progress(len(paths))
    found[:, STATE] = BROKEN
    with waiting_for(f"checking the images in {root}", progress):
        for number, findings in _at_files(paths, try_decode):
            found[number] = findings
            done += 1
            progress.update(done)
    return found


def _range_of(table, sixteen_bit, deep, count):
    """Returns the intensity range of a folder's images of more than 8 bits, the same for all
    splits.

    The images of all splits are read, but only if some of a split, `deep` of `count`, have more
    than 8 bits.
    """
    if not deep:
        return None
    if sixteen_bit == FULL:
        _warn(table.flag, deep, count)
        return None
    limit = table.max_megapixels
    is_small = (table.paths != "") & (table.stats[:, 0] < walk.most_bytes(limit))
    rows = [row for row in np.argsort(table.names, kind="stable") if is_small[row]]

    def find():
        number, ends = range_of_files(table.paths[rows].tolist(), limit)
        return {"deep": np.array(number), "range": np.array(ends)}

    def is_sound(deep, range):
        return deep.shape == () and range.shape == (2,) and bool(np.isfinite(range).all())

    key = table.key(f"range 2 {tf.__version__} {limit}", rows)
    outcome = files.remember("checked_folders", key, find, is_sound, place=table.cache_dir)
    low, high = outcome["range"].tolist()
    _warn(table.flag, int(outcome["deep"]), len(rows), (low, high))
    return low, high


def range_of_files(
    paths: Sequence[str], max_megapixels: float, skip_unreadable: bool = False
) -> tuple[int, IntensityRange]:
    """Returns how many of some files have more than 8 bits, and the intensity range of these; see
    `measured`.

    Args:
      paths: the files; broken ones do not count.
      max_megapixels: from which size on they do not count either.
      skip_unreadable: whether files that cannot be read do not count; else they are an error.

    Raises:
      ConfigError: a file cannot be read.
    """

    def is_deep(encoded):
        about = header(encoded)
        return (about.bits > 8) & (about.pixels < tf.cast(max_megapixels * 1e6, tf.int64))

    looked = sorted(_at_files(paths, is_deep, skip_unreadable))
    deep = [paths[number] for number, is_of_16_bits in looked if is_of_16_bits]
    few = deep[:: max(1, -(-len(deep) // MEASURED))]
    return len(deep), measured(tf.constant(content(path)) for path in few)


def range_of_records(
    rule: str, dataset: str, encoded: Iterable[tf.Tensor], count: int
) -> IntensityRange | None:
    """Returns the intensity range of `count` records of 16 bits from some of them; None if `rule`
    is FULL.
    """
    intensity_range = None if rule == FULL else measured(encoded)
    _warn(dataset, count, count, intensity_range)
    return intensity_range


def measured(files: Iterable[tf.Tensor]) -> IntensityRange:
    """Returns the intensity range of encoded images, without the outermost thousandth at both
    ends.
    """
    random = np.random.default_rng(0)
    samples = [np.zeros(0, np.float32)]
    for encoded in files:
        # Broken, in a split that is not used here.
        with contextlib.suppress(tf.errors.OpError, UnicodeDecodeError):
            pixels = values(encoded).numpy().reshape(-1, 3)
            samples.append(pixels[random.integers(len(pixels), size=_PIXELS)].ravel())
    sample = np.concatenate(samples)
    sample = sample[np.isfinite(sample)]
    low, high = map(float, np.percentile(sample, _PERCENTILES)) if len(sample) else (0.0, 65535.0)
    return low, high if high > low else low + 1


@functools.cache  # a run opens several splits, some of them more than once
def _warn(dataset, deep, count, ends=None):
    rule = "their upper 8 bits are used (--sixteen_bit=full)"
    if ends:
        rule = "values {:g} to {:g} are scaled to 0 to 255 (--sixteen_bit=range)".format(*ends)
    logging.warning("%s: %d of %d images have more than 8 bits; %s", dataset, deep, count, rule)


def _at_files(
    paths: Sequence[str],
    look: Callable[[tf.Tensor], tf.Tensor],
    skip_unreadable: bool = False,
) -> Iterator[tuple[int, np.ndarray]]:
    """Yields the numbers of the files that are sound, and the result of `look` at each.

    Hardly any Python code runs for a sound file, so a million take as long as their pixels.

    Args:
      paths: the files.
      look: encoded, a string scalar -> a tensor; fails if the file is broken.
      skip_unreadable: whether a file that cannot be read is passed over as a broken one.

    Raises:
      ConfigError: a file cannot be read.
    """

    def read(number: tf.Tensor, path: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return number, look(tf.io.read_file(path))

    files = tf.data.Dataset.from_tensor_slices(
        (tf.range(len(paths), dtype=tf.int64), tf.constant(paths, tf.string))
    )
    sound = files.map(
        read, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False
    ).ignore_errors()
    seen = set()
    for number, result in read_once(sound).as_numpy_iterator():
        seen.add(int(number))
        yield int(number), result
    if skip_unreadable:
        return
    # Files that fail are missing here. They are read again, to tell broken ones from those that
    # cannot be read now.
    for number in [number for number in range(len(paths)) if number not in seen]:
        encoded = content(paths[number])
        with contextlib.suppress(tf.errors.OpError, UnicodeDecodeError):  # broken
            yield number, look(tf.constant(encoded)).numpy()


def content(path: str) -> bytes:
    """Returns the bytes of a file. Raises ConfigError if it cannot be read."""
    with _reading(path) as file:
        return file.read()


def digest(path: str, last: int | None = None) -> str:
    """Returns the SHA-256 of a file, or of its last bytes. Raises ConfigError if it cannot be
    read.
    """
    hashed = hashlib.sha256()
    with _reading(path) as file:
        if last is not None:
            file.seek(max(0, file.size() - last))
        while part := file.read(_PART):
            hashed.update(part)
    return hashed.hexdigest()


@contextlib.contextmanager
def _reading(path: str) -> Iterator[tf.io.gfile.GFile]:
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            yield file
    except (OSError, tf.errors.OpError, UnicodeError) as error:
        raise ConfigError(
            f"{path}: cannot be read ({reason(error)}); run the same command again, and remove the"
            " file if that does not help"
        ) from error


def are_places(array: np.ndarray, count: int) -> bool:
    """Returns whether an array can be places in a list of `count`."""
    is_list = array.ndim == 1 and np.issubdtype(array.dtype, np.integer)
    return is_list and bool(((array >= 0) & (array < count)).all())
