"""The EXIF orientation of a JPEG or PNG, by TensorFlow's operations alone: they need no lock, and can be saved."""

from __future__ import annotations

import tensorflow as tf

_LITTLE, _BIG = b"II*\0", b"MM\0*"  # how a block of EXIF begins
_ORIENTATION, _SHORT, _LONG = 0x0112, 3, 4  # the tag, and types that it may have


def orientation(encoded: tf.Tensor, lead: bytes) -> tf.Tensor:
    """Returns the EXIF orientation in the bytes of a file: int32 scalar, 1 to 8; 1 if there is none that can be read.

    Args:
      encoded: string scalar.
      lead: what stands before the block of EXIF. Most files have none: looking for it takes 10 us for 100 kB.
    """

    def search(mark, otherwise):
        found = tf.raw_ops.StringSplitV2(input=[encoded], sep=lead + mark, maxsplit=1).values
        return tf.cond(tf.size(found) > 1, lambda: _read(found[1], mark == _LITTLE), otherwise)

    return search(_LITTLE, lambda: search(_BIG, lambda: tf.constant(1)))


def _read(block: tf.Tensor, little: bool) -> tf.Tensor:
    """Reads the orientation from the first list of tags in a block of EXIF, given what follows its begin."""
    data = tf.cast(tf.io.decode_raw(tf.strings.substr(block, 0, 1 << 16), tf.uint8), tf.int64)

    def number(digits):
        """The unsigned numbers in [..., bytes]; those of a block that is cut short are 0."""
        width = digits.shape[-1]
        powers = [256 ** (i if little else width - 1 - i) for i in range(width)]
        return tf.reduce_sum(digits * tf.constant(powers, tf.int64), -1)

    def at(place, width):
        digits = tf.concat([data[place : place + width], tf.zeros([width], tf.int64)], 0)[:width]
        return number(tf.ensure_shape(digits, [width]))

    start = tf.maximum(at(0, 4) - len(_LITTLE), 0)  # of the list; its place counts from the begin of EXIF
    tags = data[start + 2 : start + 2 + 12 * at(start, 2)]
    tags = tf.reshape(tags[: tf.size(tags) // 12 * 12], [-1, 12])  # [tags, (number 2, type 2, count 4, value 4)]
    kind = number(tags[:, 2:4])
    value = tf.where(kind == _SHORT, number(tags[:, 8:10]), number(tags[:, 8:12]))
    known = (number(tags[:, :2]) == _ORIENTATION) & ((kind == _SHORT) | (kind == _LONG)) & (value >= 1) & (value <= 8)
    return tf.cast(tf.concat([tf.ones([1], tf.int64), value[known]], 0)[-1], tf.int32)
