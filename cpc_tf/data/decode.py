"""Encoded image files to pixels, and to their number."""

from __future__ import annotations

import tensorflow as tf

from cpc_tf.data import gif

_JPEG_SCALES = (1, 2, 4, 8)  # what libjpeg can divide by while decoding


def decode(encoded: tf.Tensor, least_side: int = 0) -> tf.Tensor:
    """Pixels of a JPEG, PNG, BMP or GIF (first frame).

    Grey becomes RGB, alpha is dropped, CMYK is converted, 16 bits lose the lower 8; EXIF orientation is ignored.

    Args:
      encoded: string scalar, the bytes of the file.
      least_side: both sides may come out smaller than they are, but not smaller than this; 0: the full size. A JPEG is
        then decoded at a half, a quarter or an eighth if that is enough: 4 ms instead of 7 for 6 megapixels to 300.

    Returns:
      uint8 [H, W, 3].

    Raises:
      tf.errors.InvalidArgumentError: empty, broken or of another kind.
    """
    kinds = [
        (tf.io.is_jpeg(encoded), lambda: _jpeg(encoded, least_side)),
        (_begins(encoded, b"BM", 30), lambda: _bmp(encoded)),
    ]
    image = tf.case(kinds, default=lambda: _other(encoded))
    return tf.ensure_shape(image, [None, None, 3])


def image_size(encoded: tf.Tensor) -> tf.Tensor:
    """The size of what `decode` gives at full size: string scalar -> int32 [2], (height, width), from the header alone.

    Raises:
      tf.errors.InvalidArgumentError: broken, as far as its header tells.
    """
    return tf.cast(_header(encoded)[:2], tf.int32)


def pixels(encoded: tf.Tensor) -> tf.Tensor:
    """As many pixels as `decode` needs memory for: string scalar -> int64, from the header alone. Raises as above.

    All frames of a GIF are held while its first is decoded, with a byte for a pixel instead of three.
    """
    header = _header(encoded)
    return tf.maximum(header[0] * header[1], header[2] // 3)


def _header(encoded):
    """int64 [3]: height, width, and pixels of all frames together."""

    def one_frame(size):
        size = tf.ensure_shape(tf.cast(size, tf.int64), [2])
        return tf.concat([size, size[:1] * size[1:]], 0)

    kinds = [
        (tf.io.is_jpeg(encoded), lambda: one_frame(tf.io.extract_jpeg_shape(encoded)[:2])),
        (_begins(encoded, b"\x89PNG\r\n\x1a\n", 24), lambda: one_frame(_png_size(encoded))),
        (_begins(encoded, b"BM", 26), lambda: one_frame(_bmp_size(encoded))),
        (_begins(encoded, b"GIF8"), lambda: tf.numpy_function(_gif_header, [encoded], tf.int64)),
    ]
    # What is of none of these kinds cannot be decoded, either; nor can a GIF without a frame, whose header is empty.
    header = tf.case(kinds, default=lambda: one_frame(tf.shape(decode(encoded))[:2]))
    return tf.ensure_shape(header, [3])


def _begins(encoded, signature, least_length=0):
    """Whether a file begins so and is long enough to read numbers behind that.

    Past the end, `substr` would raise with all the bytes of the file, which Python cannot turn into text.
    """
    begins = tf.equal(tf.strings.substr(encoded, 0, len(signature)), signature)
    return begins & (tf.strings.length(encoded) >= least_length)


def _jpeg(encoded, least_side):
    def scaled(ratio):
        # The exact DCT costs no more than the default here, and gives the very pixels of PIL.
        return lambda: tf.io.decode_jpeg(encoded, channels=3, ratio=ratio, dct_method="INTEGER_ACCURATE")

    if not least_side:
        return scaled(1)()
    spare = tf.reduce_min(tf.io.extract_jpeg_shape(encoded)[:2]) // least_side
    enough = tf.reduce_sum([tf.cast(spare >= ratio, tf.int32) for ratio in _JPEG_SCALES[1:]])
    return tf.switch_case(enough, [scaled(ratio) for ratio in _JPEG_SCALES])


def _bmp(encoded):
    def number(place, size, dtype):
        return tf.cast(tf.io.decode_raw(tf.strings.substr(encoded, place, size), dtype)[0], tf.int32)

    def look_up():
        # TensorFlow gives the indices into the palette as if they were grey levels.
        indices = tf.cast(_other(encoded)[..., 0], tf.int32)
        start = 14 + number(14, 4, tf.int32)  # behind both headers
        start = tf.clip_by_value(start, 0, tf.strings.length(encoded))  # see `_begins`
        colours = tf.io.decode_raw(tf.strings.substr(encoded, start, number(10, 4, tf.int32) - start), tf.uint8)
        return tf.gather(tf.reshape(colours, [-1, 4])[:, 2::-1], indices)  # stored as B, G, R, 0

    has_palette = tf.equal(number(28, 2, tf.uint16), 8)
    return tf.cond(has_palette, look_up, lambda: _other(encoded))


def _other(encoded):
    # TensorFlow 2.21 decodes WebP, 2.15 does not. What a folder holds must not depend on it: refused in both.
    encoded = tf.where(_begins(encoded, b"RIFF"), b"", encoded)
    return tf.io.decode_image(encoded, channels=3, expand_animations=False)


def _png_size(encoded):
    # Signature, length and kind of the first chunk, then width and height.
    return tf.io.decode_raw(tf.strings.substr(encoded, 16, 8), tf.int32, little_endian=False)[::-1]


def _bmp_size(encoded):
    # Width, then height, which is negative if the rows are stored from the top.
    return tf.abs(tf.io.decode_raw(tf.strings.substr(encoded, 18, 8), tf.int32))[::-1]


def _gif_header(encoded):
    return gif.header(encoded if isinstance(encoded, bytes) else encoded.item())  # TensorFlow passes on either
