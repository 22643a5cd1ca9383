"""Kinds of files that cannot be decoded."""

import numpy as np
import pytest
from PIL import Image

from cpc_tf.data import walk
from tests.data.samples import encode

JPEG = encode(Image.effect_noise((32, 32), 50), "JPEG")


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", "empty"),
        (bytes(4096), "zeros only"),
        (JPEG[:-100], "a JPEG that is cut short"),
        (JPEG[:100] + bytes(50) + JPEG[150:], "a JPEG that is damaged"),
        (b"\x89PNG\r\n\x1a\n" + bytes(30), "a PNG that is cut short"),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "a WebP that is damaged"),
        (b"II*\0" + bytes(30), "a TIFF that is damaged"),
        (b"\n<!DOCTYPE html>\n<html><body>404", "HTML"),
        (b"\xef\xbb\xbf<HTML>", "HTML"),
        (b"<?xml version='1.0'?>\n<svg xmlns='http://www.w3.org/2000/svg'/>", "SVG"),
        (b"%PDF-1.7\n%\xe2", "PDF"),
        (b"\0\0\0\x18ftypheic" + bytes(12), "HEIC"),
        (b"\0\0\0\x1cftypavif" + bytes(12), "AVIF"),
        (b"\0\0\0\x1cftypisom" + bytes(12), "a video"),
        (bytes(128) + b"DICM\2\0", "DICOM"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "a pointer of Git LFS"),
        (b"PK\x03\x04\x14", "ZIP"),
        (b"Not found: the picture has moved.\n", "text"),
        (np.random.default_rng(0).bytes(100), "of no known format"),
    ],
)
def test_kinds(data, kind):
    assert walk.kind_of(data) == kind


def test_what_cannot_be_read(tmp_path):
    assert walk.kind_of_file(str(tmp_path / "nowhere.jpg")) == "cannot be read"
