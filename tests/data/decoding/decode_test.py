"""Decoding, checked against PIL."""

import functools
import io

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from cpc_tf.data.decoding.decode import decode, image_size

NOISE = np.random.default_rng(0).integers(0, 256, [6, 8, 3], dtype=np.uint8)
RGB = Image.fromarray(NOISE).resize((45, 36), Image.Resampling.BICUBIC)  # odd width: BMP rows are padded
GREY = RGB.convert("L")
PALETTE = RGB.convert("P", palette=Image.Palette.ADAPTIVE)


IN_GRAPH, PORTABLE = (
    tf.function(functools.partial(decode, **options), input_signature=[tf.TensorSpec([], tf.string)])
    for options in ({}, {"portable": True})
)


def encode(image, kind, **options):
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def with_alpha(image):
    image = image.copy()
    image.putalpha(GREY)
    return image


@pytest.mark.slow
@pytest.mark.parametrize(
    ("image", "kind", "options"),
    [
        (RGB, "JPEG", {}),
        (RGB, "JPEG", {"progressive": True, "quality": 30}),
        (GREY, "JPEG", {}),
        (RGB.convert("CMYK"), "JPEG", {}),
        (RGB, "PNG", {}),
        (GREY, "PNG", {}),
        (GREY.convert("1"), "PNG", {}),
        (PALETTE, "PNG", {}),
        (PALETTE, "PNG", {"transparency": 3}),
        (with_alpha(RGB), "PNG", {}),
        (with_alpha(GREY), "PNG", {}),
        (RGB, "BMP", {}),
        (GREY, "BMP", {}),
        (PALETTE, "BMP", {}),
        (with_alpha(RGB), "BMP", {}),
        (GREY.convert("1"), "BMP", {}),
        (PALETTE, "GIF", {}),
        (PALETTE, "GIF", {"save_all": True, "append_images": [PALETTE.rotate(180)]}),
    ],
)
def test_same_pixels_as_pil(image, kind, options):
    encoded = encode(image, kind, **options)
    expected = np.asarray(Image.open(io.BytesIO(encoded)).convert("RGB"))
    for function in (decode, IN_GRAPH, *([] if kind == "BMP" and image.mode == "1" else [PORTABLE])):
        pixels = function(tf.constant(encoded))
        assert pixels.dtype == tf.uint8
        np.testing.assert_array_equal(pixels, expected)


@pytest.mark.slow
def test_cmyk_comes_out_near_the_original():
    pixels = decode(tf.constant(encode(RGB.convert("CMYK"), "JPEG", quality=100))).numpy()
    assert np.abs(pixels.astype(int) - np.asarray(RGB)).max() < 8


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_16_bits_lose_the_lower_8(channels):
    deep = np.random.default_rng(1).integers(0, 1 << 16, [5, 7, channels], dtype=np.uint16)
    pixels = decode(tf.io.encode_png(deep))
    np.testing.assert_array_equal(pixels, np.broadcast_to((deep >> 8)[..., :3], [5, 7, 3]))


@pytest.mark.slow
@pytest.mark.parametrize(
    "encoded",
    [
        b"",
        b"\xff",
        b"BM",
        b"These are words.",
        b"\xff\xd8\xff\xe0",
        encode(RGB, "JPEG")[:-200],
        encode(RGB, "JPEG")[:-2],
        encode(RGB, "PNG")[:-200],
        encode(PALETTE, "BMP")[:-200],
        encode(PALETTE, "GIF")[:-400],
        encode(RGB, "WEBP")[:-200],
        encode(RGB, "TIFF")[:-200],
    ],
)
@pytest.mark.parametrize("least_side", [0, 40])
def test_broken_files_are_refused(encoded, least_side):
    with pytest.raises(tf.errors.InvalidArgumentError):
        decode(tf.constant(encoded), least_side)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("least_side", "shape"),
    [(0, (80, 120)), (41, (80, 120)), (40, (40, 60)), (3, (10, 15))],
)
@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
def test_large_jpegs_are_decoded_at_a_fraction(least_side, shape, mode):
    image = Image.linear_gradient("L").resize((120, 80)).convert(mode)
    pixels = decode(tf.constant(encode(image, "JPEG", quality=95)), least_side).numpy()
    assert pixels.shape == (*shape, 3)
    expected = np.asarray(image.convert("RGB").resize(shape[::-1], Image.Resampling.BOX)).astype(int)
    assert np.abs(pixels - expected).max() <= 8


@pytest.mark.slow
def test_other_kinds_keep_their_size():
    assert decode(tf.constant(encode(RGB, "PNG")), 3).shape == (36, 45, 3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "mode"),
    [("JPEG", "RGB"), ("JPEG", "L"), ("JPEG", "CMYK"), ("PNG", "RGB"), ("PNG", "LA"), ("BMP", "RGB"), ("GIF", "P")],
)
def test_size_is_that_of_the_pixels(kind, mode):
    encoded = tf.constant(encode(Image.effect_noise((45, 300), 50).convert(mode), kind))
    size = image_size(encoded)
    assert size.dtype == tf.int32
    assert size.numpy().tolist() == list(decode(encoded).shape[:2]) == [300, 45]


@pytest.mark.parametrize("encoded", [b"", b"These are words.", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0"])
def test_size_of_broken_files_is_refused(encoded):
    with pytest.raises(tf.errors.InvalidArgumentError):
        image_size(tf.constant(encoded))
