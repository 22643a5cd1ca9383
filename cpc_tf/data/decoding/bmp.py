"""Decodes BMP by TensorFlow's operations alone: TensorFlow's own takes indices into a palette for shades of grey."""

from __future__ import annotations

import tensorflow as tf

_PALETTE = 256 * 4  # bytes: blue, green, red and nothing
_MASKS = b"\0\0\xff\0\0\xff\0\0\xff\0\0\0"  # of red, green and blue
_REFUSED = "not a JPEG, PNG or GIF, nor a BMP of 8, 24 or 32 bits that is not compressed"


def decode(encoded: tf.Tensor) -> tf.Tensor:
    """Decodes the bytes of a file, a string scalar, to uint8 [H, W, 3].

    Raises:
      tf.errors.InvalidArgumentError: it is no BMP, is broken or compressed, or has less than 8 bits a pixel.
    """

    def number(place, dtype):
        return tf.io.decode_raw(tf.strings.substr(encoded, place, dtype.size), dtype)[0]

    whole = tf.equal(tf.strings.substr(encoded, 0, 2), b"BM") & (tf.strings.length(encoded) >= 54)
    with tf.control_dependencies([tf.debugging.Assert(whole, [_REFUSED])]):
        bits, compression = tf.cast(number(28, tf.uint16), tf.int32), number(30, tf.int32)
        # 3: where each colour is among 32 bits follows; where it also is without that is taken.
        masks = tf.equal(tf.strings.substr(encoded, 54, len(_MASKS)), _MASKS)
    plain = tf.equal(compression, 0) | (tf.equal(compression, 3) & tf.equal(bits, 32) & masks)
    known = tf.equal(bits, 8) | tf.equal(bits, 24) | tf.equal(bits, 32)
    with tf.control_dependencies([tf.debugging.Assert(plain & known, [_REFUSED])]):
        values = tf.io.decode_bmp(encoded)  # uint8 [H, W, 1, 3 or 4]

    def coloured():
        palette = tf.io.decode_raw(tf.strings.substr(encoded, 14 + number(14, tf.int32), _PALETTE), tf.uint8)
        palette = tf.reshape(palette[: tf.size(palette) // 4 * 4], [-1, 4])[:, 2::-1]
        return tf.gather(palette, tf.cast(values[..., 0], tf.int32))

    return tf.cond(tf.equal(bits, 8), coloured, lambda: values[..., :3])
