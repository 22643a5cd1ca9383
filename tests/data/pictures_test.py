"""Reading images that people have: how they are named, and that a broken one is no end."""

import io
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from cpc_tf.core.settings import ConfigError
from cpc_tf.data import pictures
from tests.samples import write_pictures


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Twelve sound images in four folders, the first, the last and two in the middle broken in a
    way each.
    """
    root = tmp_path_factory.mktemp("own")
    write_pictures(root, {"b": 3, "d": 3}, ("red", "green"))
    (root / "a.jpg").write_bytes(b"<!doctype html><p>not found")
    (root / "b/red/1.png").write_bytes((root / "b/red/1.png").read_bytes()[:40])
    (root / "c.png").write_bytes(b"")
    (root / "z.gif").write_bytes(b"GIF89a")
    (root / "notes.txt").write_text("no image")
    return root


def read(files, **options):
    return list(pictures.batches(files, lambda image: image[:8, :8], 4, **options))


@pytest.mark.slow
def test_broken_images_have_reasons_others_keep_their_order(folder):
    files = pictures.find(str(folder))
    assert len(files) == 15
    found = read(files)
    broken = {files.names[i]: why for batch in found for i, why in batch.broken.items()}
    assert broken == {
        "a.jpg": "cannot be decoded: HTML",
        "b/red/1.png": "cannot be decoded: a PNG that is cut short",
        "c.png": "cannot be decoded: empty",
        "z.gif": "cannot be decoded: a GIF that is cut short",
    }
    assert [(batch.start, batch.stop) for batch in found] == [(0, 5), (5, 11), (11, 14), (14, 15)]
    sound = [i for batch in found for i in batch.indices]
    assert sound == sorted(set(range(15)) - {i for batch in found for i in batch.broken})
    for batch in found[:-1]:
        for index, image in zip(batch.indices, batch.images):
            wanted = tf.io.decode_png(
                (folder / files.names[index]).read_bytes(), channels=3
            ).numpy()
            np.testing.assert_array_equal(image, wanted[:8, :8])


@pytest.mark.slow
def test_12_bit_images_look_like_8_bit_images(tmp_path, monkeypatch):
    """As in training."""
    grey = np.random.default_rng(0).integers(0, 256, [30, 20, 20, 1], dtype=np.uint8)
    for folder, pixels in (("8", grey), ("12", 16 * grey.astype(np.uint16))):
        (tmp_path / folder).mkdir()
        for i, image in enumerate(pixels):
            (tmp_path / folder / f"{i:02}.png").write_bytes(tf.io.encode_png(image).numpy())
    lines = []
    monkeypatch.setattr(
        pictures.logging, "warning", lambda message, *values: lines.append(message % values)
    )
    deep, wanted = pictures.find(f"{tmp_path}/12"), pictures.find(f"{tmp_path}/8")
    assert wanted.intensity_range is None
    found, wanted = (
        np.concatenate([batch.images for batch in read(files)]) for files in (deep, wanted)
    )
    assert np.abs(found.astype(int) - wanted).max() <= 3
    assert read(deep, intensity_range=(0.0, 65535.0))[0].images.max() <= 16
    assert len(lines) == 1
    assert lines[0].startswith(
        "30 images have more than 8 bits, and the model does not say how to see them: their v"
    )


def test_files_and_lists_of_files(folder, tmp_path, monkeypatch):
    first, second = f"{folder}/d/red/0.png", f"{folder}/d/red/1.png"
    assert pictures.find(f"{first},{second}").names == [first, second]
    (tmp_path / "a,b.png").write_bytes(b"")
    assert pictures.find(f'"{tmp_path}/a,b.png",{first}').names == [f"{tmp_path}/a,b.png", first]
    (tmp_path / "list.txt").write_bytes(
        f"\ufeff{first}\r\n\r\n{folder}/no.png\n".encode() + b"odd\xff.png\n"
    )
    listed = pictures.find(str(tmp_path / "list.txt"))
    assert listed.names == [first, f"{folder}/no.png", "odd\\udcff.png"]
    batch, rest = read(listed)
    assert batch.indices.tolist() == [0]
    assert rest.broken == {
        1: "there is no such file",
        2: "cannot be read, or its name is not UTF-8",
    }
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(first.encode())))
    assert pictures.find("-") == pictures.find(first)


def test_names_are_those_of_the_files(tmp_path):
    """Not escaped for the eye: results that name no file are of no use."""
    names = ["3.04\u202fPM.png", "a\nb.png"]
    for name in names:
        (tmp_path / name).write_bytes(b"")
    assert pictures.find(str(tmp_path)).names == names
    assert pictures.find([tmp_path / name for name in names]).names == [
        f"{tmp_path}/{name}" for name in names
    ]


@pytest.mark.slow
def test_huge_pictures_are_not_decoded(folder, monkeypatch):
    monkeypatch.setattr(pictures, "MAX_MEGAPIXELS", 200e-6)
    (batch,) = read(pictures.find(f"{folder}/d/red/0.png"))
    assert "megapixels" in batch.broken[0]


@pytest.mark.slow
def test_thumbnails_show_the_whole_picture_on_white(tmp_path):
    wide = np.zeros([10, 40, 3], np.uint8)
    (tmp_path / "wide.png").write_bytes(tf.io.encode_png(wide).numpy())
    (tmp_path / "x.png").write_bytes(b"broken")
    shown = pictures.thumbnails(pictures.find(str(tmp_path)), 16)
    assert (shown[0, 6:10] == 0).all()
    assert (shown[0, :6] == 255).all()
    assert (shown[0, 10:] == 255).all()
    assert (shown[1] == 255).all()


@pytest.mark.slow
def test_undeclared_16_bit_images_are_reported(tmp_path, caplog):
    (tmp_path / "deep.jpg").write_bytes(
        tf.io.encode_png(np.full([8, 8, 3], 3000, np.uint16)).numpy()
    )
    files = pictures.find(str(tmp_path))
    assert (read(files, intensity_range=(2000.0, 4000.0))[0].images == 128).all()
    assert (read(files, quiet=True)[0].images == 11).all()
    assert caplog.text == ""
    read(files)
    assert "1 images have more than 8 bits; their upper 8 bits are used" in caplog.text


@pytest.mark.slow
def test_arrays_and_pil_images_are_as_their_files(tmp_path):
    """A PIL image is turned as its EXIF says, a grey one is RGB."""
    exif = Image.Exif()
    exif[0x0112] = 6
    pixels = np.random.default_rng(0).integers(0, 256, [20, 30, 3], np.uint8)
    Image.fromarray(pixels).save(tmp_path / "0.png")
    Image.fromarray(pixels).save(tmp_path / "1.png", exif=exif)
    Image.fromarray(pixels[..., 0]).save(tmp_path / "2.png")
    (wanted,) = read(pictures.find(tmp_path))
    grey = np.repeat(pixels[..., :1], 3, -1)
    arrays = pictures.find([pixels / 255, np.rot90(pixels, -1), grey])
    (batch,) = read(arrays)
    np.testing.assert_array_equal(batch.images, wanted.images)
    opened = pictures.find([Image.open(tmp_path / f"{i}.png") for i in range(3)])
    assert read(opened)[0].images.tolist() == batch.images.tolist()
    assert (arrays.names, arrays.places) == (
        ["000000.png", "000001.png", "000002.png"],
        opened.places,
    )
    assert len({*arrays.places, *pictures.find([pixels.reshape(30, 20, 3)]).places}) == 4
    assert pictures.find(np.stack([grey] * 5)).take([4]).names == ["000004.png"]
    assert (
        pictures.thumbnails(arrays, 8).tolist()
        == pictures.thumbnails(pictures.find(tmp_path), 8).tolist()
    )


@pytest.mark.parametrize(
    ("images", "message"),
    [
        ([], "the list is empty"),
        (np.zeros([0, 8, 8, 3]), "the list is empty"),
        (Image.fromarray(np.full([8, 8], 4096, np.uint16)), "image 0: a PIL image of mode I;16"),
        (
            np.full([2, 8, 8, 3], 2.0),
            r"image 0: float64 values of 2 to 2; must be uint8, or floats of 0 to 1",
        ),
        (np.full([8, 8, 3], np.nan), "image 0: float64 values of nan"),
        (np.zeros([8, 8, 3], np.int64), "image 0: int64 values"),
        (
            [np.zeros([8, 8, 3], np.uint8), np.zeros([8, 8, 4])],
            r"image 1: an array of shape \[8, 8, 4\]",
        ),
        (["a.png", np.zeros([8, 8, 3])], "both files and arrays"),
        ("nowhere.png", "there is no nowhere.png"),
    ],
)
def test_what_is_no_picture_is_named(images, message):
    with pytest.raises(ConfigError, match=message):
        pictures.find(images)
