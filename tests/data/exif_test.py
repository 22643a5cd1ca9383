"""EXIF orientation of every kind of picture, against Pillow."""

import io

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageOps

from cpc_tf.data import decode

PIXELS = Image.fromarray(np.random.default_rng(0).integers(0, 256, [6, 4, 3], dtype=np.uint8)).resize((44, 66))
TURNS = range(1, 9)


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
    ("PNG", "RGB", {}),
    ("PNG", "LA", {}),
    ("PNG", "P", {}),
    ("WEBP", "RGB", {"lossless": True}),
    ("WEBP", "RGBA", {}),
    ("TIFF", "RGB", {}),
    ("TIFF", "L", {"compression": "tiff_lzw"}),
    ("TIFF", "CMYK", {}),
    ("TIFF", "P", {}),
    ("TIFF", "1", {"compression": "group4"}),
]


@pytest.mark.parametrize("orientation", TURNS)
def test_pictures_are_turned_as_they_are_shown(orientation):
    for kind, mode, options in KINDS:
        encoded = save(PIXELS.convert(mode), kind, orientation, **options)
        for in_graph in (lambda f: f, tf.function):
            pixels = in_graph(decode.decode)(tf.constant(encoded))
            np.testing.assert_array_equal(pixels, shown(encoded), f"{kind} {mode} {options}")
            assert in_graph(decode.image_size)(tf.constant(encoded)).numpy().tolist() == list(pixels.shape[:2])
            assert in_graph(decode.stored_size)(tf.constant(encoded)).numpy().tolist() == [66, 44]
            assert in_graph(decode.orientation)(tf.constant(encoded)) == orientation
