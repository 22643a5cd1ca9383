"""Encoded image files to pixels, and what their headers say."""

from __future__ import annotations

import functools
from typing import NamedTuple

import tensorflow as tf

from cpc_tf.data.decoding import exif, gif, pillow

# The marks of both orders of bytes; with + for *, files of more than 4 GB.
_WEBP_OR_TIFF = r"(?s)RIFF\C{4}WEBP|(II[*+]\x00|MM\x00[*+])\C*"
_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG_SCALES = (1, 2, 4, 8)  # what libjpeg can divide by while decoding


Levels = tuple[float, float]


def decode(encoded: tf.Tensor, least_side: int = 0, levels: Levels | None = None) -> tf.Tensor:
    """Pixels of a JPEG, PNG, BMP, GIF, WebP or TIFF (first frame or page), as they are shown: turned as EXIF says.

    Grey becomes RGB, alpha is dropped, CMYK is converted.

    Args:
      encoded: string scalar, the bytes of the file.
      least_side: both sides may come out smaller than they are, but not smaller than this; 0: the full size. A JPEG is
        then decoded at a half, a quarter or an eighth if that is enough: 4 ms instead of 7 for 6 megapixels to 300.
      levels: of pictures of more than 8 bits, the values that become 0 and 255. What lies between is scaled, what lies
        outside is cut off. None: the upper 8 of 16 bits are kept.

    Returns:
      uint8 [H, W, 3].

    Raises:
      tf.errors.InvalidArgumentError: empty, broken or of another kind.
    """
    with_levels = functools.partial(pillow.pixels, levels=levels)
    image = _by_kind(
        encoded,
        jpeg=lambda: exif.upright_jpeg(_jpeg(encoded, least_side), encoded),
        png=lambda: exif.upright_png(_png(encoded, levels), encoded),
        bmp=lambda: _bmp(encoded),
        webp_or_tiff=lambda: _by_pillow(with_levels, encoded, tf.uint8, [None, None, 3]),
        other=lambda: _any(encoded),
    )
    return tf.ensure_shape(image, [None, None, 3])


def values(encoded: tf.Tensor) -> tf.Tensor:
    """What is stored in a PNG or TIFF of more than 8 bits: string scalar -> float32 [H, W, 3]. Raises as `decode`."""
    return _by_kind(
        encoded,
        jpeg=lambda: tf.zeros([0, 0, 3]),
        png=lambda: tf.cast(tf.io.decode_png(encoded, channels=3, dtype=tf.uint16), tf.float32),
        bmp=lambda: tf.zeros([0, 0, 3]),
        webp_or_tiff=lambda: _by_pillow(pillow.values, encoded, tf.float32, [None, None, 3]),
        other=lambda: tf.zeros([0, 0, 3]),
    )


def image_size(encoded: tf.Tensor) -> tf.Tensor:
    """The size of what `decode` gives at full size: string scalar -> int32 [2], (height, width), from the header alone.

    Raises:
      tf.errors.InvalidArgumentError: broken, as far as its header tells.
    """
    return exif.turned_size(stored_size(encoded), orientation(encoded))


def stored_size(encoded: tf.Tensor) -> tf.Tensor:
    """The size of the picture as it is stored, before it is turned as EXIF says; else as `image_size`."""
    return header(encoded).size


def orientation(encoded: tf.Tensor) -> tf.Tensor:
    """How `decode` turns the stored picture, by EXIF's numbers: string scalar -> int32, 1 (not at all) to 8."""
    return _by_kind(
        encoded,
        jpeg=lambda: exif.of_jpeg(encoded),
        png=lambda: exif.of_png(encoded),
        bmp=lambda: tf.constant(1),
        webp_or_tiff=lambda: _by_pillow(pillow.orientation, encoded, tf.int32, []),
        other=lambda: tf.constant(1),
    )


class Header(NamedTuple):
    """What the header of a file says."""

    size: tf.Tensor  # int32 [2]: height and width as stored, before the picture is turned
    pixels: tf.Tensor  # int64 scalar: as many as `decode` needs memory for
    bits: tf.Tensor  # int64 scalar: of a value; 8 for all that are not more
    several: tf.Tensor  # bool scalar: whether there are frames or pages behind the first, which is decoded


def header(encoded: tf.Tensor) -> Header:
    """The header of an encoded file, a string scalar.

    Raises:
      tf.errors.InvalidArgumentError: broken, as far as its header tells.
    """

    def of_one(size, bits=8):
        size = tf.ensure_shape(tf.cast(size, tf.int64), [2])
        return tf.concat([size, tf.stack([size[0] * size[1], bits, 1])], 0)

    found = _by_kind(
        encoded,
        jpeg=lambda: of_one(tf.io.extract_jpeg_shape(encoded)[:2]),
        png=lambda: of_one(_png_size(encoded), tf.cast(_png_bits(encoded), tf.int64)),
        bmp=lambda: of_one(_bmp_size(encoded)),
        webp_or_tiff=lambda: _by_pillow(pillow.header, encoded, tf.int64, [5]),
        other=lambda: _by_pillow(gif.header, encoded, tf.int64, [5]),
    )
    return Header(tf.cast(found[:2], tf.int32), found[2], tf.maximum(found[3], 8), found[4] > 1)


def _by_kind(encoded, jpeg, png, bmp, webp_or_tiff, other):
    """What the function for the kind of a file gives. Most are JPEGs: the others are a call of their own."""

    def is_webp_or_tiff():
        return tf.strings.regex_full_match(tf.strings.substr(encoded, 0, 12), _WEBP_OR_TIFF)

    def no_jpeg():
        kinds = [
            (_begins(encoded, _PNG, 25), png),
            (_begins(encoded, b"BM", 30), bmp),
            (is_webp_or_tiff(), webp_or_tiff),
        ]
        return tf.case(kinds, default=other)

    apart = no_jpeg if tf.executing_eagerly() else exif.apart(no_jpeg)
    return tf.cond(tf.io.is_jpeg(encoded), jpeg, apart)


def _by_pillow(function, encoded, dtype, shape):
    """What a function of the file's bytes gives. Where it fails that is empty, which is an error of the shape."""
    of_bytes = lambda x: function(x if isinstance(x, bytes) else x.item())  # noqa: E731 (TensorFlow passes on either)
    return tf.ensure_shape(tf.numpy_function(of_bytes, [encoded], dtype), shape)


def _begins(encoded, signature, least_length):
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


def _png(encoded, levels):
    def eight():
        return tf.io.decode_png(encoded, channels=3)

    def scaled():
        low, high = levels
        found = tf.cast(tf.io.decode_png(encoded, channels=3, dtype=tf.uint16), tf.float32)
        return tf.saturate_cast(tf.round((found - low) * (255 / (high - low))), tf.uint8)

    return tf.cond(_png_bits(encoded) > 8, scaled, eight) if levels else eight()


def _bmp(encoded):
    def number(place, size, dtype):
        return tf.cast(tf.io.decode_raw(tf.strings.substr(encoded, place, size), dtype)[0], tf.int32)

    def look_up():
        # TensorFlow gives the indices into the palette as if they were grey levels.
        indices = tf.cast(_any(encoded)[..., 0], tf.int32)
        start = 14 + number(14, 4, tf.int32)  # behind both headers
        start = tf.clip_by_value(start, 0, tf.strings.length(encoded))  # see `_begins`
        colours = tf.io.decode_raw(tf.strings.substr(encoded, start, number(10, 4, tf.int32) - start), tf.uint8)
        return tf.gather(tf.reshape(colours, [-1, 4])[:, 2::-1], indices)  # stored as B, G, R, 0

    has_palette = tf.equal(number(28, 2, tf.uint16), 8)
    return tf.cond(has_palette, look_up, lambda: _any(encoded))


def _any(encoded):
    return tf.io.decode_image(encoded, channels=3, expand_animations=False)


def _png_size(encoded):
    # Signature, length and kind of the first chunk, then width and height.
    return tf.io.decode_raw(tf.strings.substr(encoded, 16, 8), tf.int32, little_endian=False)[::-1]


def _png_bits(encoded):
    return tf.cast(tf.io.decode_raw(tf.strings.substr(encoded, 24, 1), tf.uint8)[0], tf.int32)


def _bmp_size(encoded):
    # Width, then height, which is negative if the rows are stored from the top.
    return tf.abs(tf.io.decode_raw(tf.strings.substr(encoded, 18, 8), tf.int32))[::-1]
