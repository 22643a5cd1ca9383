"""EXIF orientation of every kind of picture, against Pillow."""

import io
import struct

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageOps

from cpc_tf.augment.config import AugmentConfig
from cpc_tf.data.config import CanvasConfig, GeometryConfig, ImageConfig
from cpc_tf.data.decoding import decode
from cpc_tf.data.pipeline import detection_pipeline, pipeline
from cpc_tf.data.sources.folder import open_folder
from cpc_tf.data.views.views import PatchGrid, RandomSizedCrop
from cpc_tf.detect import pictures
from cpc_tf.pretrain import patch_sheet
from cpc_tf.pretrain.config import PretrainConfig
from tests.data.samples import Images

PICTURE = Image.fromarray(np.random.default_rng(0).integers(0, 256, [6, 4, 3], dtype=np.uint8)).resize((44, 66))
TURNS = range(1, 9)
# What turns a picture so that a viewer, who follows EXIF, shows it upright.
UNDO = dict(zip(TURNS[1:], (Image.Transpose(number) for number in (0, 3, 1, 5, 2, 6, 4))))
FUNCTIONS = (decode.decode, decode.image_size, decode.stored_size, decode.orientation)
PIXELS, SIZE, STORED_SIZE, ORIENTATION = (
    tf.function(function, input_signature=[tf.TensorSpec([], tf.string)]) for function in FUNCTIONS
)


def save(image, kind, orientation=1, **options):
    exif = Image.Exif()
    exif[0x0112] = orientation
    stream = io.BytesIO()
    image.save(stream, kind, exif=exif, **options)
    return stream.getvalue()


def shown(encoded):
    """The picture as a viewer shows it: uint8 [H, W, 3]."""
    return np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(encoded))).convert("RGB"))


KINDS = [
    ("JPEG", "RGB", {}),
    ("JPEG", "RGB", {"progressive": True}),
    ("JPEG", "L", {}),
    ("JPEG", "CMYK", {}),
    ("MPO", "RGB", {"save_all": True, "append_images": [PICTURE.rotate(180)]}),
    ("PNG", "RGB", {}),
    ("PNG", "LA", {}),
    ("PNG", "P", {}),
    ("WEBP", "RGB", {"lossless": True}),
    ("WEBP", "RGBA", {}),
    ("WEBP", "RGB", {"save_all": True, "append_images": [PICTURE.rotate(180)]}),
    ("TIFF", "RGB", {}),
    ("TIFF", "L", {"compression": "tiff_lzw"}),
    ("TIFF", "CMYK", {}),
    ("TIFF", "P", {}),
    ("TIFF", "1", {"compression": "group4"}),
    ("TIFF", "RGB", {"save_all": True, "append_images": [PICTURE.resize((9, 9))]}),
]


@pytest.mark.parametrize("orientation", TURNS)
def test_pictures_are_turned_as_they_are_shown(orientation):
    for kind, mode, options in KINDS:
        encoded = save(PICTURE.convert(mode), kind, orientation, **options)
        pixels = PIXELS(encoded)
        np.testing.assert_array_equal(pixels, shown(encoded), f"{kind} {mode} {options}")
        assert SIZE(encoded).numpy().tolist() == list(pixels.shape[:2])
        assert STORED_SIZE(encoded).numpy().tolist() == [66, 44]
        assert ORIENTATION(encoded) == orientation
    np.testing.assert_array_equal(decode.decode(tf.constant(encoded)), pixels)  # outside of a graph, too


def exif_block(order, value, kind=3, tags=((0x010F, 2, 4, b"abc\0"),)):
    """EXIF's bytes with an orientation behind other tags."""
    number = struct.pack(order + ("I" if kind == 4 else "H"), value).ljust(4, b"\0")
    entries = [*tags, (0x0112, kind, 1, number)]
    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "IH", 8, len(entries))
    table = b"".join(struct.pack(order + "HHI", *entry[:3]) + entry[3] for entry in entries)
    return head + table + bytes(4)


def segment(marker, data):
    return b"\xff" + bytes([marker]) + struct.pack(">H", len(data) + 2) + data


def jpeg(*segments):
    stream = io.BytesIO()
    PICTURE.save(stream, "JPEG")
    plain = stream.getvalue()
    return plain[:20] + b"".join(segments) + plain[20:]  # behind JFIF's


EXIF = b"Exif\0\0"


@pytest.mark.parametrize(
    "encoded",
    [
        jpeg(segment(0xE1, EXIF + exif_block("<", 6))),
        jpeg(segment(0xE1, EXIF + exif_block(">", 6))),
        jpeg(segment(0xE1, EXIF + exif_block(">", 6, kind=4))),
        jpeg(segment(0xED, bytes(60_000)), segment(0xE2, bytes(65_000)), segment(0xE1, EXIF + exif_block(">", 6))),
        jpeg(segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0<x/>"), segment(0xE1, EXIF + exif_block("<", 6))),
        jpeg(segment(0xFE, b"a word: Exif\0\0"), b"\xff\xff\xff", segment(0xE1, EXIF + exif_block("<", 6))),
        jpeg(segment(0xDB, b"\0" + b"\1" * 64), segment(0xE1, EXIF + exif_block("<", 6))),
    ],
)
def test_exif_is_found_wherever_it_stands(encoded):
    assert ORIENTATION(encoded) == 6
    np.testing.assert_array_equal(decode.decode(tf.constant(encoded)), shown(encoded))


def test_exif_behind_the_pixels_of_a_png():
    encoded = save(PICTURE, "PNG", 6)
    place = encoded.index(b"eXIf") - 4
    length = 12 + struct.unpack_from(">I", encoded, place)[0]
    without, chunk = encoded[:place] + encoded[place + length :], encoded[place : place + length]
    moved = without[:-12] + chunk + without[-12:]
    assert ORIENTATION(moved) == 6
    np.testing.assert_array_equal(decode.decode(tf.constant(moved)), shown(moved))


@pytest.mark.parametrize("value", [0, 9, 300])
def test_an_orientation_that_is_none_is_ignored(value):
    assert ORIENTATION(jpeg(segment(0xE1, EXIF + exif_block("<", value)))) == 1


def test_damaged_exif_is_no_error(recwarn):
    block = exif_block("<", 6)
    damaged = [block[:length] for length in range(len(block))]
    damaged += [block[:place] + b"\xff" + block[place + 1 :] for place in range(len(block))]
    for each in damaged:
        found = ORIENTATION(jpeg(segment(0xE1, EXIF + each)))
        assert found in ((1, 6) if each[:8] == block[:8] else (1,)), each
    assert PIXELS(jpeg(segment(0xE1, EXIF + damaged[20]))).shape == (66, 44, 3)
    assert ORIENTATION(jpeg()[:20] + b"\xff\xe1\0\1Exif\0\0") == 1


def test_the_shorter_side_decides_how_far_a_turned_jpeg_is_shrunk():
    encoded = save(PICTURE.resize((120, 80)), "JPEG", 6)
    assert decode.decode(tf.constant(encoded), 40).shape == (60, 40, 3)
    assert decode.decode(tf.constant(encoded), 41).shape == (120, 80, 3)


@pytest.fixture(scope="module")
def turned_and_upright(tmp_path_factory):
    """Two sources of the same pictures: stored turned in all ways, and stored upright."""
    root = tmp_path_factory.mktemp("pictures")
    found = []
    for folder in ("turned", "upright"):
        (root / folder).mkdir()
        for turn in TURNS:
            image = PICTURE.rotate(turn)
            stored = image.transpose(UNDO[turn]) if folder == "turned" and turn > 1 else image
            (root / folder / f"{turn}.png").write_bytes(save(stored, "PNG", turn if folder == "turned" else 1))
        found.append(open_folder(str(root / folder), "train", str(root / "cache")))
    return found


NONE = AugmentConfig(augment="none")
GRID = GeometryConfig(resize=24, image_size=20, patch_size=8, patch_stride=4)
CROP = ImageConfig(resize=24, image_size=20)


@pytest.mark.parametrize(
    "batches",
    [
        lambda source: pipeline.batches(source, PatchGrid(), GRID, NONE, global_batch=4, seed=0).take(2),
        lambda source: pipeline.batches(source, RandomSizedCrop(), CROP, NONE, global_batch=4, seed=0).take(2),
        lambda source: pipeline.image_views(source, CROP, NONE, 4, 1, 0),
        lambda source: pipeline.plain_patches(source, GRID, 4),
        lambda source: pipeline.plain_images(source, GRID, 4),
    ],
)
def test_training_and_evaluation_see_turned_pictures_upright(turned_and_upright, batches):
    for turned, upright in zip(*map(batches, turned_and_upright)):
        for key, values in upright.items():
            np.testing.assert_array_equal(turned[key], values)


def test_the_patch_sheet_shows_turned_pictures_upright(turned_and_upright):
    config = PretrainConfig(geometry=GRID)
    turned, upright = (patch_sheet.draw(config, source, picture=5, draws=0) for source in turned_and_upright)
    np.testing.assert_array_equal(turned, upright)


def test_boxes_are_in_the_turned_picture():
    box, canvas = [10, 4, 30, 24], CanvasConfig(canvas_height=80, canvas_width=80, area_scale=0.01)
    turned = Images([(save(PICTURE.transpose(UNDO[n]), "PNG", n), [box], [1], [False]) for n in UNDO])
    upright = Images([(save(PICTURE, "PNG"), [box], [1], [False])] * len(UNDO))
    for make in (
        lambda source: detection_pipeline.batches(source, canvas, global_batch=len(UNDO), seed=0).take(1),
        lambda source: detection_pipeline.plain_batches(source, canvas, len(UNDO)),
    ):
        for found, expected in zip(make(turned), make(upright)):
            for key, values in expected.items():
                np.testing.assert_array_equal(found[key], values)
    for image in pictures.images_at(turned, range(len(UNDO))):
        np.testing.assert_array_equal(image, np.asarray(PICTURE))
