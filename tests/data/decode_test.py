"""Decoding, checked against PIL."""

import functools
import io

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from cpc_tf.data.decode import decode, image_size
from tests.data.samples import encode

NOISE = np.random.default_rng(0).integers(0, 256, [6, 8, 3], dtype=np.uint8)
RGB = Image.fromarray(NOISE).resize((45, 36), Image.Resampling.BICUBIC)  # odd width: BMP rows are padded
GREY = RGB.convert("L")
BITS = GREY.convert("1")
PALETTE = RGB.convert("P", palette=Image.Palette.ADAPTIVE)


IN_GRAPH, PORTABLE = (
    tf.function(functools.partial(decode, **options), input_signature=[tf.TensorSpec([], tf.string)])
    for options in ({}, {"portable": True})
)


def with_alpha(image):
    image = image.copy()
    image.putalpha(GREY)
    return image


KINDS = [
    *((image, "JPEG", {}) for image in (RGB, GREY, RGB.convert("CMYK"))),
    (RGB, "JPEG", {"progressive": True, "quality": 30}),
    *((image, "PNG", {}) for image in (RGB, GREY, BITS, PALETTE, with_alpha(RGB), with_alpha(GREY))),
    (PALETTE, "PNG", {"transparency": 3}),
    *((image, "BMP", {}) for image in (RGB, GREY, PALETTE, with_alpha(RGB), BITS)),
    (PALETTE, "GIF", {}),
    (PALETTE, "GIF", {"save_all": True, "append_images": [PALETTE.rotate(180)]}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("image", "kind", "options"), KINDS)
def test_same_pixels_as_pil(image, kind, options):
    encoded = encode(image, kind, **options)
    expected = np.asarray(Image.open(io.BytesIO(encoded)).convert("RGB"))
    for function in (decode, IN_GRAPH, *([] if kind == "BMP" and "RGB" not in image.mode else [PORTABLE])):
        pixels = function(tf.constant(encoded))
        assert pixels.dtype == tf.uint8
        np.testing.assert_array_equal(pixels, expected)
    if kind != "JPEG":  # which alone is decoded at a fraction
        assert decode(tf.constant(encoded), 3).shape == (36, 45, 3)
    size = image_size(tf.constant(encoded))
    assert size.dtype == tf.int32
    assert size.numpy().tolist() == [36, 45]


CUT = [
    *(encode(RGB, kind)[:-200] for kind in ("JPEG", "PNG", "WEBP", "TIFF")),
    encode(RGB, "JPEG")[:-2],
    encode(PALETTE, "BMP")[:-200],
    encode(PALETTE, "GIF")[:-400],
]


@pytest.mark.slow
@pytest.mark.parametrize("encoded", [b"", b"\xff", b"BM", b"These are words.", b"\xff\xd8\xff\xe0", *CUT])
@pytest.mark.parametrize("least_side", [0, 40])
def test_broken_files_are_refused(encoded, least_side):
    with pytest.raises(tf.errors.InvalidArgumentError):
        decode(tf.constant(encoded), least_side)


@pytest.mark.slow
@pytest.mark.parametrize(("least_side", "shape"), [(0, (80, 120)), (41, (80, 120)), (40, (40, 60)), (3, (10, 15))])
@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
def test_large_jpegs_are_decoded_at_a_fraction(least_side, shape, mode):
    image = Image.linear_gradient("L").resize((120, 80)).convert(mode)
    pixels = decode(tf.constant(encode(image, "JPEG", quality=95)), least_side).numpy()
    assert pixels.shape == (*shape, 3)
    expected = np.asarray(image.convert("RGB").resize(shape[::-1], Image.Resampling.BOX)).astype(int)
    assert np.abs(pixels - expected).max() <= 8


@pytest.mark.parametrize("encoded", [b"", b"These are words.", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0"])
def test_size_of_broken_files_is_refused(encoded):
    with pytest.raises(tf.errors.InvalidArgumentError):
        image_size(tf.constant(encoded))
