"""Image files to pixels, headers and EXIF orientation."""

import functools
import io
import struct

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageOps

from cpc_tf.augment.config import AugmentConfig
from cpc_tf.data import decode, pipeline
from cpc_tf.data.config import GeometryConfig
from cpc_tf.data.views import PatchGrid
from cpc_tf.pretrain import patch_sheet
from cpc_tf.pretrain.config import PretrainConfig
from tests.data.samples import encode, open_folder, write_files

NOISE = np.random.default_rng(0).integers(0, 256, [6, 8, 3], dtype=np.uint8)
# odd width: BMP rows are padded
RGB = Image.fromarray(NOISE).resize((45, 36), Image.Resampling.BICUBIC)
GREY = RGB.convert("L")
BITS = GREY.convert("1")
PALETTE = RGB.convert("P", palette=Image.Palette.ADAPTIVE)


IN_GRAPH, PORTABLE = (
    tf.function(
        functools.partial(decode.decode, **options), input_signature=[tf.TensorSpec([], tf.string)]
    )
    for options in ({}, {"portable": True})
)


def with_alpha(image):
    image = image.copy()
    image.putalpha(GREY)
    return image


KINDS = [
    *((image, "JPEG", {}) for image in (RGB, GREY, RGB.convert("CMYK"))),
    (RGB, "JPEG", {"progressive": True, "quality": 30}),
    *(
        (image, "PNG", {})
        for image in (RGB, GREY, BITS, PALETTE, with_alpha(RGB), with_alpha(GREY))
    ),
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
    for function in (
        decode.decode,
        IN_GRAPH,
        *([] if kind == "BMP" and "RGB" not in image.mode else [PORTABLE]),
    ):
        pixels = function(tf.constant(encoded))
        assert pixels.dtype == tf.uint8
        np.testing.assert_array_equal(pixels, expected)
    if kind != "JPEG":  # which alone is decoded at a fraction
        assert decode.decode(tf.constant(encoded), 3).shape == (36, 45, 3)
    size = decode.image_size(tf.constant(encoded))
    assert size.dtype == tf.int32
    assert size.numpy().tolist() == [36, 45]


CUT = [
    *(encode(RGB, kind)[:-200] for kind in ("JPEG", "PNG", "WEBP", "TIFF")),
    encode(RGB, "JPEG")[:-2],
    encode(PALETTE, "BMP")[:-200],
    encode(PALETTE, "GIF")[:-400],
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "encoded", [b"", b"\xff", b"BM", b"These are words.", b"\xff\xd8\xff\xe0", *CUT]
)
@pytest.mark.parametrize("least_side", [0, 40])
def test_broken_files_are_refused(encoded, least_side):
    with pytest.raises(tf.errors.InvalidArgumentError):
        decode.decode(tf.constant(encoded), least_side)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("least_side", "shape"), [(0, (80, 120)), (41, (80, 120)), (40, (40, 60)), (3, (10, 15))]
)
@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
def test_large_jpegs_are_decoded_at_a_fraction(least_side, shape, mode):
    image = Image.linear_gradient("L").resize((120, 80)).convert(mode)
    pixels = decode.decode(tf.constant(encode(image, "JPEG", quality=95)), least_side).numpy()
    assert pixels.shape == (*shape, 3)
    expected = np.asarray(image.convert("RGB").resize(shape[::-1], Image.Resampling.BOX)).astype(
        int
    )
    assert np.abs(pixels - expected).max() <= 8


@pytest.mark.parametrize(
    "encoded", [b"", b"These are words.", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0"]
)
def test_size_of_broken_files_is_refused(encoded):
    with pytest.raises(tf.errors.InvalidArgumentError):
        decode.image_size(tf.constant(encoded))


PICTURE = Image.fromarray(
    np.random.default_rng(0).integers(0, 256, [6, 4, 3], dtype=np.uint8)
).resize((44, 66))
TURNS = range(1, 9)
# What turns an image so that a viewer, who follows EXIF, shows it upright.
UNDO = dict(zip(TURNS[1:], (Image.Transpose(number) for number in (0, 3, 1, 5, 2, 6, 4))))
PIXELS, SIZE, STORED_SIZE, ORIENTATION = (
    tf.function(function, input_signature=[tf.TensorSpec([], tf.string)])
    for function in (decode.decode, decode.image_size, decode.stored_size, decode.orientation)
)


def exif(orientation, order="<"):
    found = Image.Exif()
    found[0x010F] = "maker"
    found[0x0112] = orientation
    found.endian = order
    return found


def save(image, kind, orientation=1, **options):
    return encode(image, kind, exif=exif(orientation), **options)


def shown(encoded):
    """The image as a viewer shows it: uint8 [H, W, 3]."""
    return np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(encoded))).convert("RGB"))


EXIF_KINDS = [
    ("JPEG", "RGB", {}),
    ("JPEG", "L", {"progressive": True}),
    ("JPEG", "CMYK", {}),
    ("MPO", "RGB", {"save_all": True, "append_images": [PICTURE.rotate(180)]}),
    ("PNG", "LA", {}),
    ("PNG", "P", {}),
    ("WEBP", "RGB", {"lossless": True}),
    ("WEBP", "RGB", {"save_all": True, "append_images": [PICTURE.rotate(180)]}),
    ("TIFF", "L", {"compression": "tiff_lzw"}),
    ("TIFF", "CMYK", {}),
    ("TIFF", "P", {}),
    ("TIFF", "1", {"compression": "group4"}),
    ("TIFF", "RGB", {"save_all": True, "append_images": [PICTURE.resize((9, 9))]}),
]


@pytest.mark.slow
def test_pictures_are_turned_as_they_are_shown():
    for kind, mode, options in EXIF_KINDS:
        for orientation in TURNS if options == {} else (2, 6):
            encoded = save(PICTURE.convert(mode), kind, orientation, **options)
            pixels = PIXELS(encoded)
            np.testing.assert_array_equal(
                pixels, shown(encoded), f"{kind} {mode} {options} {orientation}"
            )
            assert SIZE(encoded).numpy().tolist() == list(pixels.shape[:2])
            assert STORED_SIZE(encoded).numpy().tolist() == [66, 44]
            assert ORIENTATION(encoded) == orientation
        # outside of a graph, too
        np.testing.assert_array_equal(decode.decode(tf.constant(encoded)), pixels)


def segment(marker, data):
    return b"\xff" + bytes([marker]) + struct.pack(">H", len(data) + 2) + data


def jpeg(*segments):
    plain = encode(PICTURE, "JPEG")
    return plain[:20] + b"".join(segments) + plain[20:]  # behind JFIF's


XMP = segment(0xE1, b'http://ns.adobe.com/xap/1.0/\0<x tiff:Orientation="3"/>Exif\0\0')


@pytest.mark.parametrize(
    "segments",
    [
        (segment(0xED, bytes(60_000)), segment(0xE2, bytes(65_000))),
        (XMP,),
        (segment(0xFE, b"a word: Exif\0\0"), b"\xff\xff\xff", segment(0xDB, b"\0" + b"\1" * 64)),
    ],
)
@pytest.mark.parametrize("order", "<>")
def test_exif_is_found_wherever_it_stands(segments, order):
    encoded = jpeg(*segments, segment(0xE1, exif(6, order).tobytes()))
    assert ORIENTATION(encoded) == 6
    np.testing.assert_array_equal(PIXELS(encoded), shown(encoded))


def test_exif_behind_the_pixels_of_a_png():
    encoded = save(PICTURE, "PNG", 6)
    place = encoded.index(b"eXIf") - 4
    end = place + 12 + struct.unpack_from(">I", encoded, place)[0]
    moved = encoded[:place] + encoded[end:-12] + encoded[place:end] + encoded[-12:]
    assert ORIENTATION(moved) == 6
    np.testing.assert_array_equal(PIXELS(moved), shown(moved))


@pytest.mark.slow
def test_what_is_no_orientation_is_ignored():
    assert ORIENTATION(jpeg(XMP)) == 1
    assert ORIENTATION(jpeg()[:20] + b"\xff\xe1\0\1Exif\0\0") == 1
    for value in (0, 9, 300):
        assert ORIENTATION(jpeg(segment(0xE1, exif(value).tobytes()))) == 1
    block = exif(6).tobytes()
    for place in range(6, len(block)):  # damaged or cut off anywhere: no error
        for damaged in (block[:place], block[:place] + b"\xff" + block[place + 1 :]):
            encoded = jpeg(segment(0xE1, damaged))
            assert ORIENTATION(encoded) in (1, 6)
            assert sorted(PIXELS(encoded).shape) == [3, 44, 66]


@pytest.mark.slow
def test_shorter_side_limits_scaling_of_a_rotated_jpeg():
    encoded = save(PICTURE.resize((120, 80)), "JPEG", 6)
    assert decode.decode(tf.constant(encoded), 40).shape == (60, 40, 3)
    assert decode.decode(tf.constant(encoded), 41).shape == (120, 80, 3)


NONE = AugmentConfig(augment="none")
GRID = GeometryConfig(resize=24, image_size=20, patch_size=8, patch_stride=4)


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
def test_training_and_evaluation_see_turned_pictures_upright(tmp_path, cache):
    for turn in TURNS:
        image = PICTURE.rotate(turn)
        stored = image.transpose(UNDO[turn]) if turn > 1 else image
        pictures = {
            f"turned/{turn}.png": save(stored, "PNG", turn),
            f"upright/{turn}.png": save(image, "PNG"),
        }
        write_files(tmp_path, pictures)
    both = [open_folder(tmp_path / folder, "train", cache) for folder in ("turned", "upright")]
    for batches in (
        lambda source: pipeline.batches(
            source, PatchGrid(), GRID, NONE, global_batch=8, seed=0
        ).take(1),
        lambda source: pipeline.plain_patches(source, GRID, 4),
    ):
        for turned, upright in zip(*map(batches, both)):
            for key, values in upright.items():
                np.testing.assert_array_equal(turned[key], values)
    config = PretrainConfig(geometry=GRID)
    images = [patch_sheet.whole_image(config, source, 5) for source in both]
    np.testing.assert_array_equal(*(patch_sheet.draw(config, image, draws=0) for image in images))
