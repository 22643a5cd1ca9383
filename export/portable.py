"""Decodes files by operations that can be saved in a module; what cannot gives a reason, no error.

GIF is refused: the memory that it needs stands in the headers of its frames, all over the file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from cpc_tf.data.decode import is_png, png_header

_NO_BMP = "a BMP that is damaged, compressed or has less than 24 bits a pixel"


def decoded(
    encoded: tf.Tensor,
    decode: Callable[[tf.Tensor], tf.Tensor],
    blank: tf.Tensor,
    max_megapixels: float,
    sixteen_bit: bool = True,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Decodes the bytes of a JPEG, PNG or BMP.

    Args:
      encoded: string scalar.
      decode: the bytes -> an image like `blank`; it may raise.
      blank: stands for an image that cannot be decoded.
      max_megapixels: from here on an image is not decoded: a small file can fill the memory. Its
        header says it.
      sixteen_bit: whether a PNG of 16 bits is decoded: without their intensity range, white is not
        defined.

    Returns:
      The image or `blank`, and a string scalar: why it is blank, or ''.
    """
    unknown = tf.constant(-1, tf.int64)
    pixels = _or_else(_pixels, encoded, unknown)
    too_large = tf.cast(pixels, tf.float64) >= max_megapixels * 1e6
    refused = (
        tf.constant(False) if sixteen_bit else _or_else(_is_of_16_bits, encoded, tf.constant(False))
    )
    image, done = tf.cond(
        (pixels < 0) | too_large | refused,
        lambda: (blank, tf.constant(False)),
        lambda: _or_else(lambda data: (decode(data), True), encoded, (blank, tf.constant(False))),
    )
    image = tf.ensure_shape(image, blank.shape)
    megapixels = tf.strings.as_string(tf.cast(pixels // 10**6, tf.int64))
    why = tf.case(
        [
            (done, lambda: tf.constant("")),
            (
                tf.equal(tf.strings.length(encoded), 0),
                lambda: tf.constant("cannot be decoded: empty"),
            ),
            (
                too_large,
                lambda: tf.strings.join(
                    [
                        "has ",
                        megapixels,
                        f" megapixels, and less than {max_megapixels:g} are decoded",
                    ]
                ),
            ),
            (
                tf.equal(_kind(encoded), "GIF"),
                lambda: tf.constant("cannot be decoded: a GIF; save it as PNG"),
            ),
            (
                tf.equal(_kind(encoded), "BMP"),
                lambda: tf.constant(f"cannot be decoded: {_NO_BMP}; save it as PNG"),
            ),
            (
                refused,
                lambda: tf.constant(
                    "has 16 bits, and the model knows no range of their values: scale them to 8"
                    " bits"
                ),
            ),
            (
                tf.not_equal(_kind(encoded), ""),
                lambda: tf.strings.join(
                    ["cannot be decoded: a ", _kind(encoded), " that is damaged or cut short"]
                ),
            ),
        ],
        default=lambda: tf.constant("cannot be decoded: not a JPEG, PNG or BMP; save it as one"),
    )
    return image, why


def _or_else(function: Callable[[tf.Tensor], Any], encoded: tf.Tensor, otherwise: Any) -> Any:
    """Returns what a function gives, or `otherwise` if it fails. In a graph only datasets go on
    after an error.
    """
    computed = tf.data.Dataset.from_tensors(encoded).map(function).ignore_errors()
    return (
        computed.concatenate(tf.data.Dataset.from_tensors(otherwise)).take(1).get_single_element()
    )


def _is_of_16_bits(encoded: tf.Tensor) -> tf.Tensor:
    """Returns whether a file is a PNG of 16 bits. It may raise if the header is damaged."""
    return tf.cond(
        is_png(encoded), lambda: png_header(encoded)[1] == 16, lambda: tf.constant(False)
    )


def _begins(encoded: tf.Tensor, with_: bytes) -> tf.Tensor:
    return tf.equal(tf.strings.substr(encoded, 0, len(with_)), with_)


def _kind(encoded: tf.Tensor) -> tf.Tensor:
    """Returns the format of a file by how it begins; '' if it is another one."""
    begins = {b"\xff\xd8\xff": "JPEG", b"\x89PNG\r\n\x1a\n": "PNG", b"GIF8": "GIF", b"BM": "BMP"}
    return tf.strings.join(
        [tf.where(_begins(encoded, begin), name, "") for begin, name in begins.items()]
    )


def _pixels(encoded: tf.Tensor) -> tf.Tensor:
    """Returns the pixels that decoding needs memory for, int64. It may raise if the header is
    damaged.
    """

    def area(size: tf.Tensor) -> tf.Tensor:
        # a BMP may stand on its head
        return tf.reduce_prod(tf.abs(tf.cast(tf.ensure_shape(size, [2]), tf.int64)))

    return tf.case(
        [
            (tf.io.is_jpeg(encoded), lambda: area(tf.io.extract_jpeg_shape(encoded)[:2])),
            (is_png(encoded), lambda: area(png_header(encoded)[0])),
            (
                _begins(encoded, b"BM"),
                lambda: area(tf.io.decode_raw(tf.strings.substr(encoded, 18, 8), tf.int32)),
            ),
        ],
        default=lambda: tf.constant(-1, tf.int64),
    )
