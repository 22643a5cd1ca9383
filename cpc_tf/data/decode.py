"""Encoded image files to pixels, and the contents of their headers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from cpc_tf.core import native
from cpc_tf.data import pillow

_PNG = b"\x89PNG\r\n\x1a\n"
_GIF = b"GIF8"
_PNG_FIRST = (  # length and name of the first chunk: width, height, bits of a value and others
    b"\0\0\0\x0dIHDR"
)
# begin of the part with EXIF
_JPEG_EXIF = b"Exif\0\0"
_PNG_EXIF = b"eXIf"
# how a block of EXIF begins
_LITTLE = b"II*\0"
_BIG = b"MM\0*"
# its tag of the orientation, and types that it may have
_ORIENTATION = 0x0112
_SHORT = 3
_LONG = 4
_BMP_MASKS = b"\0\0\xff\0\0\xff\0\0\xff\0\0\0"  # of red, green and blue
_JPEG_SCALES = (1, 2, 4, 8)  # what libjpeg can divide by while decoding

IntensityRange = tuple[float, float]  # values in images of more than 8 bits that become 0 and 255
UPPER_BITS: IntensityRange = (127.5, 65407.5)  # of which exactly the upper 8 of 16 bits come

# Traces a function once in a process for each choice of its Python arguments: tracing takes a
# second on a slow core, and a run makes many datasets. The encoded file must be a tensor: Python
# bytes would be traced anew for each file.
_traced_once = functools.partial(tf.function, autograph=False)


@_traced_once
def decode(
    encoded: tf.Tensor,
    least_side: int = 0,
    intensity_range: IntensityRange | None = None,
    portable: bool = False,
) -> tf.Tensor:
    """Decodes a JPEG, PNG, BMP, GIF, WebP or TIFF (first frame or page), turned as its EXIF
    orientation says.

    Grey becomes RGB, alpha is dropped, CMYK is converted.

    Args:
      encoded: string scalar, the bytes of the file.
      least_side: shorter side that is large enough for the caller; 0: the full size. A JPEG is
        decoded at a half, a quarter or an eighth of its size while its shorter side stays at least
        this: 4 ms instead of 7 for 6 megapixels to 300.
      intensity_range: the values that become 0 and 255 in images of more than 8 bits. Values
        between them are scaled, values outside are clipped. None: the upper 8 of 16 bits are kept.
      portable: whether to use TensorFlow's operations alone, which can be saved: WebP, TIFF, and
        BMP that is compressed or has less than 24 bits a pixel are refused.

    Returns:
      uint8 [H, W, 3].

    Raises:
      tf.errors.InvalidArgumentError: the file is empty, broken or of another format.
    """

    def other():
        is_gif = tf.equal(tf.strings.substr(encoded, 0, len(_GIF)), _GIF)
        by_pillow = functools.partial(pillow.pixels, intensity_range=intensity_range)

        def gif():
            return tf.io.decode_image(encoded, channels=3, expand_animations=False)

        def no_gif():
            if portable:
                return _decode_bmp(encoded)
            return _by_pillow(by_pillow, encoded, tf.uint8, [None, None, 3])

        return tf.cond(is_gif, gif, no_gif)

    image = _by_format(
        encoded,
        jpeg=lambda: _decode_jpeg(encoded, least_side),
        png=lambda: _decode_png(encoded, intensity_range),
        other=other,
    )
    # What Pillow decodes it turns itself.
    image = _turn(image, _exif_orientation(encoded, lambda: tf.constant(1)))
    return tf.ensure_shape(image, [None, None, 3])


@_traced_once
def values(encoded: tf.Tensor) -> tf.Tensor:
    """Returns the stored values of a PNG or TIFF of more than 8 bits, float32 [H, W, 3]. Raises as
    `decode`.
    """
    return _by_format(
        encoded,
        jpeg=lambda: tf.zeros([0, 0, 3]),
        png=lambda: tf.cast(tf.io.decode_png(encoded, channels=3, dtype=tf.uint16), tf.float32),
        other=lambda: _by_pillow(pillow.values, encoded, tf.float32, [None, None, 3]),
    )


def image_size(encoded: tf.Tensor) -> tf.Tensor:
    """Returns the size of what `decode` gives at full size, int32 [2], (height, width), from the
    header alone.

    Raises:
      tf.errors.InvalidArgumentError: the header is broken.
    """
    return shown_size(stored_size(encoded), orientation(encoded))


def shown_size(stored: tf.Tensor, tag: tf.Tensor) -> tf.Tensor:
    """Returns the size of an image that is stored with this size, int32 [2], after `decode` has
    turned it.
    """
    return tf.where(tag >= 5, stored[::-1], stored)


def stored_size(encoded: tf.Tensor) -> tf.Tensor:
    """Returns the size of the stored image, before it is turned; otherwise as `image_size`."""
    return header(encoded).size


@_traced_once
def orientation(encoded: tf.Tensor) -> tf.Tensor:
    """Returns how `decode` turns the stored image, by EXIF's numbers: int32 scalar, 1 (not at all)
    to 8.
    """
    return _exif_orientation(encoded, lambda: _by_pillow(pillow.orientation, encoded, tf.int32, []))


class Header(NamedTuple):
    """What the header of a file says."""

    size: tf.Tensor  # int32 [2]: height and width as stored, before the image is turned
    pixels: tf.Tensor  # int64 scalar: number of pixels that `decode` needs memory for
    bits: tf.Tensor  # int64 scalar: bits per value, at least 8
    # bool scalar: whether more frames or pages follow the first, which is decoded
    several: tf.Tensor


@_traced_once
def header(encoded: tf.Tensor) -> Header:
    """Reads the header of an encoded file, a string scalar, without decoding its pixels.

    Raises:
      tf.errors.InvalidArgumentError: the header is broken.
    """

    def of_one(size, bits=8):
        size = tf.ensure_shape(tf.cast(size, tf.int64), [2])
        return tf.concat([size, tf.stack([size[0] * size[1], tf.cast(bits, tf.int64), 1])], 0)

    numbers = _by_format(
        encoded,
        jpeg=lambda: of_one(tf.io.extract_jpeg_shape(encoded)[:2]),
        png=lambda: of_one(*png_header(encoded)),
        other=lambda: _by_pillow(pillow.header, encoded, tf.int64, [5]),
    )
    return Header(
        tf.cast(numbers[:2], tf.int32), numbers[2], tf.maximum(numbers[3], 8), numbers[4] > 1
    )


def is_png(encoded: tf.Tensor) -> tf.Tensor:
    """Returns whether a file begins as a PNG and is long enough to have a header."""
    # Past the end, `substr` raises an error with all bytes of the file, which Python cannot turn
    # into text.
    has_signature = tf.equal(tf.strings.substr(encoded, 0, len(_PNG)), _PNG)
    return has_signature & (tf.strings.length(encoded) >= 25)


def png_header(encoded: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the size of a PNG, int32 [2], (height, width), and the bits of a value, uint8, from
    its header.

    Raises:
      tf.errors.InvalidArgumentError: another chunk comes first. Such a file is damaged, but the
        decoder skips that chunk: numbers in it must not be taken for the size that is decoded.
    """
    comes_first = tf.equal(tf.strings.substr(encoded, len(_PNG), len(_PNG_FIRST)), _PNG_FIRST)
    with tf.control_dependencies([tf.debugging.Assert(comes_first, ["no header of a PNG"])]):
        width_height = tf.io.decode_raw(
            tf.strings.substr(encoded, 16, 8), tf.int32, little_endian=False
        )
        bits = tf.io.decode_raw(tf.strings.substr(encoded, 24, 1), tf.uint8)
    return tf.ensure_shape(width_height, [2])[::-1], tf.ensure_shape(bits, [1])[0]


def _by_format(encoded: tf.Tensor, jpeg: Callable, png: Callable, other: Callable) -> tf.Tensor:
    """Calls the function for the format of a file. Most files are JPEGs: other formats are a
    function of their own.
    """
    return tf.cond(tf.io.is_jpeg(encoded), jpeg, lambda: tf.cond(is_png(encoded), png, other))


def _exif_orientation(encoded: tf.Tensor, other: Callable) -> tf.Tensor:
    """Returns the orientation of a JPEG or PNG, or what the function returns for other formats."""
    is_jpeg = tf.io.is_jpeg(encoded)
    lead = tf.where(is_jpeg, _JPEG_EXIF, _PNG_EXIF)
    return tf.cond(is_jpeg | is_png(encoded), lambda: _orientation_of_exif(encoded, lead), other)


def _by_pillow(function: Callable, encoded: tf.Tensor, dtype: tf.DType, shape: list) -> tf.Tensor:
    """Calls a function of pillow.py on the bytes. If it fails it returns an empty array, which this
    shape refuses.
    """
    of_bytes = lambda x: function(x if isinstance(x, bytes) else x.item())  # noqa: E731 (TensorFlow passes on either)
    return tf.ensure_shape(
        tf.numpy_function(of_bytes, [encoded], dtype, name=native.IN_PYTHON), shape
    )


def _turn(image: tf.Tensor, orientation: tf.Tensor) -> tf.Tensor:
    """Turns a decoded image: uint8 [H, W, 3] -> [H, W, 3], or [W, H, 3] for orientations 5 to 8."""

    def turned():
        rows = tf.reduce_any(orientation == [3, 4, 7, 8])
        columns = tf.reduce_any(orientation == [2, 3, 6, 7])
        upright = tf.cond(orientation >= 5, lambda: tf.transpose(image, [1, 0, 2]), lambda: image)
        return tf.raw_ops.Reverse(tensor=upright, dims=tf.stack([rows, columns, False]))

    return tf.cond(orientation > 1, turned, lambda: image)


def _decode_jpeg(encoded, least_side):
    def scaled(ratio):
        # The exact DCT costs no more than the default here, and gives exactly PIL's pixels.
        return lambda: tf.io.decode_jpeg(
            encoded, channels=3, ratio=ratio, dct_method="INTEGER_ACCURATE"
        )

    if not least_side:
        return scaled(1)()
    spare = tf.reduce_min(tf.io.extract_jpeg_shape(encoded)[:2]) // least_side
    index = tf.reduce_sum([tf.cast(spare >= ratio, tf.int32) for ratio in _JPEG_SCALES[1:]])
    return tf.switch_case(index, [scaled(ratio) for ratio in _JPEG_SCALES])


def _decode_png(encoded, intensity_range):
    def eight():
        return tf.io.decode_png(encoded, channels=3)

    def scaled():
        low, high = intensity_range
        pixels = tf.cast(tf.io.decode_png(encoded, channels=3, dtype=tf.uint16), tf.float32)
        return tf.saturate_cast(tf.round((pixels - low) * (255 / (high - low))), tf.uint8)

    return tf.cond(png_header(encoded)[1] > 8, scaled, eight) if intensity_range else eight()


def _decode_bmp(encoded):
    """Decodes a BMP of 24 or 32 bits: TensorFlow takes indices into a palette for shades of
    grey.
    """

    def number(place, dtype):
        return tf.io.decode_raw(tf.strings.substr(encoded, place, dtype.size), dtype)[0]

    whole = tf.equal(tf.strings.substr(encoded, 0, 2), b"BM") & (tf.strings.length(encoded) >= 54)
    with tf.control_dependencies([tf.debugging.Assert(whole, ["no BMP"])]):
        bits = tf.cast(number(28, tf.uint16), tf.int32)
        compression = number(30, tf.int32)
        # 3: where each colour is among 32 bits follows; where it also is without that is taken.
        usual = tf.equal(tf.strings.substr(encoded, 54, len(_BMP_MASKS)), _BMP_MASKS)
    plain = tf.equal(compression, 0) | (tf.equal(compression, 3) & tf.equal(bits, 32) & usual)
    with tf.control_dependencies(
        [tf.debugging.Assert(plain & (bits >= 24), ["compressed, or less than 24 bits"])]
    ):
        return tf.io.decode_bmp(encoded)[..., :3]


def _orientation_of_exif(encoded: tf.Tensor, lead: tf.Tensor | bytes) -> tf.Tensor:
    """Returns the EXIF orientation in the bytes of a file: int32 scalar, 1 to 8; 1 if there is none
    that can be read.

    Args:
      encoded: string scalar.
      lead: string scalar, what stands before the block of EXIF. Most files have none: looking for
        it takes 10 us for 100 kB.
    """
    parts = tf.raw_ops.StringSplitV2(input=[encoded], sep=lead).values
    begins = tf.strings.substr(parts, 0, len(_LITTLE))
    blocks = tf.boolean_mask(parts, (begins == _LITTLE) | (begins == _BIG))
    return tf.cond(tf.size(blocks) > 0, lambda: _orientation_in(blocks[0]), lambda: tf.constant(1))


def _orientation_in(block: tf.Tensor) -> tf.Tensor:
    """Reads the orientation from the first list of tags in a block of EXIF."""
    data = tf.cast(tf.io.decode_raw(tf.strings.substr(block, 0, 1 << 16), tf.uint8), tf.int64)
    little = tf.strings.substr(block, 0, len(_LITTLE)) == _LITTLE

    def number(digits):
        """The unsigned numbers in [..., bytes]."""
        powers = tf.constant([256**i for i in range(digits.shape[-1])], tf.int64)
        return tf.reduce_sum(digits * tf.where(little, powers, powers[::-1]), -1)

    def at(place, width):
        """The number at a place; of a block that is cut short it is 0."""
        digits = tf.concat([data[place : place + width], tf.zeros([width], tf.int64)], 0)[:width]
        return number(tf.ensure_shape(digits, [width]))

    start = tf.maximum(at(4, 4), 8)  # of the list
    tags = data[start + 2 : start + 2 + 12 * at(start, 2)]
    tags = tags[: tf.size(tags) // 12 * 12]
    tags = tf.reshape(tags, [-1, 12])  # [tags, (number 2, type 2, count 4, value 4)]
    kind = number(tags[:, 2:4])
    value = tf.where(kind == _SHORT, number(tags[:, 8:10]), number(tags[:, 8:12]))
    sound = (
        (number(tags[:, :2]) == _ORIENTATION)
        & ((kind == _SHORT) | (kind == _LONG))
        & (value >= 1)
        & (value <= 8)
    )
    return tf.cast(tf.concat([tf.ones([1], tf.int64), value[sound]], 0)[-1], tf.int32)
