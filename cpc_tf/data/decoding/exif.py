"""EXIF orientation: which way up a JPEG or PNG is shown. TensorFlow's decoders leave it to others."""

from __future__ import annotations

import functools

import tensorflow as tf

_TAG = 0x0112  # Orientation
_EXIF, _CHUNK = b"Exif\0\0", b"eXIf"  # of a JPEG, of a PNG
_MOST_PARTS = 100_000  # of a file; one that has more is not searched to its end


# Kept out of the calling graph: most pictures have no EXIF, and skipping hundreds of inlined operations takes time.
apart = functools.partial(tf.function, experimental_attributes={"_noinline": True})


def of_jpeg(encoded: tf.Tensor) -> tf.Tensor:
    """The orientation of a JPEG, 1 to 8: string scalar -> int32. 1, upright, if there is none that can be read.

    It is in the first segment with EXIF before the pixels, whatever segments stand before it.
    """
    return tf.cond(_has(encoded, _EXIF), lambda: _in_jpeg(encoded), lambda: tf.constant(1))


def of_png(encoded: tf.Tensor) -> tf.Tensor:
    """The orientation of a PNG, as of `of_jpeg`: that of the chunk eXIf, before or behind the pixels."""
    return tf.cond(_has(encoded, _CHUNK), lambda: _in_png(encoded), lambda: tf.constant(1))


def upright_jpeg(image: tf.Tensor, encoded: tf.Tensor) -> tf.Tensor:
    """The pixels of a JPEG as they are shown: uint8 [H, W, 3] -> [H, W, 3], or [W, H, 3] for orientations 5 to 8."""
    return tf.cond(_has(encoded, _EXIF), lambda: _turn(image, _in_jpeg(encoded)), lambda: image)


def upright_png(image: tf.Tensor, encoded: tf.Tensor) -> tf.Tensor:
    """The pixels of a PNG as they are shown, as of `upright_jpeg`."""
    return tf.cond(_has(encoded, _CHUNK), lambda: _turn(image, _in_png(encoded)), lambda: image)


def turned_size(size: tf.Tensor, orientation: tf.Tensor) -> tf.Tensor:
    """The size [2] of a picture as it is shown, from that of the stored one."""
    return tf.where(orientation >= 5, size[::-1], size)


def _has(encoded, name):
    """Whether a file can have EXIF, for which its bytes are searched in 5 us for 100 kB."""
    return tf.size(tf.raw_ops.StringSplitV2(input=[encoded], sep=name, maxsplit=1).values) > 1


@functools.partial(apart, input_signature=[tf.TensorSpec([None, None, 3], tf.uint8), tf.TensorSpec([], tf.int32)])
def _turn(image, orientation):
    rows, columns = (tf.reduce_any(orientation == those) for those in ([3, 4, 7, 8], [2, 3, 6, 7]))
    image = tf.cond(orientation >= 5, lambda: tf.transpose(image, [1, 0, 2]), lambda: image)
    return tf.cond(
        rows | columns,
        lambda: tf.raw_ops.Reverse(tensor=image, dims=tf.stack([rows, columns, False])),
        lambda: image,
    )


@functools.partial(apart, input_signature=[tf.TensorSpec([], tf.string)])
def _in_jpeg(encoded):
    def step(place):
        head = _bytes(encoded, place, 10)
        marker, length = head[1], tf.cast(head[2] * 256 + head[3], tf.int64)
        is_exif = tf.reduce_all(head[4:] == [*_EXIF]) & (marker == 0xE1)
        ends = (head[0] != 0xFF) | (marker == 0xDA) | ((marker != 0xFF) & (length < 2))  # pixels or no segment
        behind = place + tf.where(marker == 0xFF, tf.constant(1, tf.int64), 2 + length)  # 0xFF: fills a gap
        return is_exif, ends, place + 4, place + 2 + length, behind

    return _search(encoded, 2, step)


@functools.partial(apart, input_signature=[tf.TensorSpec([], tf.string)])
def _in_png(encoded):
    def step(place):
        head = _bytes(encoded, place, 8)
        length = _number(head[:4], little=False)
        is_exif = tf.reduce_all(head[4:] == [*_CHUNK])
        return is_exif, tf.reduce_all(head[4:] == [*b"IEND"]), place + 8, place + 8 + length, place + 12 + length

    return _search(encoded, 8, step)


def _search(encoded, start, step):
    """The orientation in the part of a file that `step` finds.

    Args:
      encoded: the file.
      start: the place of the first part.
      step: of a place gives whether EXIF is there, whether the search ends there, where its data begin and end, and the
        place of the next part.
    """
    end = tf.cast(tf.strings.length(encoded), tf.int64)

    def body(place, block):
        is_exif, ends, first, last, behind = step(place)
        found = tf.strings.substr(encoded, tf.minimum(first, end), tf.maximum(last - first, 0))
        return tf.where(is_exif | ends, end, behind), tf.where(is_exif, found, block)

    _, block = tf.while_loop(
        lambda place, block: place < end,
        body,
        (tf.constant(start, tf.int64), tf.constant(b"")),
        maximum_iterations=_MOST_PARTS,
    )
    return _in_block(block)


def _in_block(block):
    """The orientation in EXIF's own bytes: a header, and a table of 12 bytes an entry."""
    block = tf.strings.regex_replace(block, r"^(Exif\x00\x00)+", "")
    head = _bytes(block, 0, 8)
    little = head[0] == ord("I")
    is_exif = (head[0] == head[1]) & (little | (head[0] == ord("M"))) & (head[2] + head[3] == 42)
    table = _number(head[4:], little)
    count = tf.cast(_number(_bytes(block, table, 2), little), tf.int32)
    entries = tf.reshape(_bytes(block, table + 2, 12 * tf.maximum(count, 1)), [-1, 12])
    # Tag, type (4: a long number), how many there are, and the value.
    tag, kind = _number(entries[:, :2], little), _number(entries[:, 2:4], little)
    value = tf.where(kind == 4, _number(entries[:, 8:12], little), _number(entries[:, 8:10], little))
    given = tf.reduce_max(tf.where((tag == _TAG) & (value <= 8), value, 1))
    return tf.where(is_exif, tf.cast(tf.maximum(given, 1), tf.int32), 1)


def _bytes(encoded, place, count):
    """int32 [count]: the bytes from a place on, zeros behind the end, past which `substr` must not be asked."""
    place = tf.minimum(tf.cast(place, tf.int64), tf.cast(tf.strings.length(encoded), tf.int64))
    part = tf.strings.substr(encoded, place, tf.cast(count, tf.int64))
    return tf.cast(tf.io.decode_raw(part, tf.uint8, fixed_length=count), tf.int32)


def _number(digits, little):
    """int64: the number of the bytes in the last dimension."""
    digits = tf.cast(digits, tf.int64)
    weights = tf.constant([1 << 8 * i for i in range(digits.shape[-1])], tf.int64)
    return tf.reduce_sum(digits * tf.where(little, weights, weights[::-1]), -1)
