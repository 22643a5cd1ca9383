"""Height and width of an encoded image, from its header where that is easy."""

from __future__ import annotations

import tensorflow as tf

from cpc_tf.data.decode import decode


def image_size(encoded: tf.Tensor) -> tf.Tensor:
    """The size of what `decode` gives at full size: string scalar -> int32 [2], (height, width).

    The pixels of a JPEG or PNG are not looked at; others are decoded.

    Raises:
      tf.errors.InvalidArgumentError: broken, as far as its header tells.
    """
    png = tf.equal(tf.strings.substr(encoded, 0, 8), b"\x89PNG\r\n\x1a\n") & (tf.strings.length(encoded) >= 24)
    kinds = [(tf.io.is_jpeg(encoded), lambda: tf.io.extract_jpeg_shape(encoded)[:2]), (png, lambda: _png(encoded))]
    return tf.ensure_shape(tf.case(kinds, default=lambda: tf.shape(decode(encoded))[:2]), [2])


def _png(encoded):
    # Signature, length and kind of the first chunk, then width and height.
    return tf.io.decode_raw(tf.strings.substr(encoded, 16, 8), tf.int32, little_endian=False)[::-1]
