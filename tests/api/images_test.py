"""Pictures in Python give what their files give; wrong ones are named."""

import numpy as np
import pytest
from PIL import Image

import cpc_tf
from cpc_tf import pictures
from cpc_tf.api.images import as_flag
from tests.api.conftest import RELEASED


@pytest.fixture(scope="module")
def encoder(room):
    return cpc_tf.load_encoder(room / RELEASED)


@pytest.mark.slow
def test_arrays_pil_images_and_files_give_the_same(encoder, room):
    files = [room / f"my_pictures/{colour}/{i}.png" for colour in ("red", "green") for i in range(3)]
    arrays = np.stack([np.asarray(Image.open(file)) for file in files])
    wanted = encoder.features(files)
    assert wanted.shape == (6, encoder.patches(files[0]).shape[-1])
    for images in (arrays, (arrays / 255).astype(np.float32), [Image.open(file) for file in files]):
        np.testing.assert_array_equal(encoder.features(images), wanted)
    for one in (arrays[2] / 255, str(files[2])):
        np.testing.assert_allclose(encoder.features(one), wanted[2:3], atol=1e-5)
    np.testing.assert_allclose(encoder.patches(files).mean((1, 2)), wanted, atol=1e-5)


@pytest.mark.slow
def test_neighbours_are_sorted_and_named(encoder, room):
    folder = room / "my_pictures"
    (found,) = encoder.neighbours(folder / "green/4.png", folder, count=30)
    assert len(found) == 23  # the picture itself is left out, however it is named
    assert "green/4.png" not in [near.name for near in found]
    (room / "link.png").symlink_to(folder / "green/4.png")
    assert encoder.neighbours([f"{room}/link.png"], folder, count=30) == [found]
    assert [near.similarity for near in found] == sorted((near.similarity for near in found), reverse=True)
    arrays = np.random.default_rng(0).integers(0, 256, [3, 20, 20, 3], np.uint8)
    near = encoder.neighbours(arrays[1:], arrays)
    assert [sorted(one.index for one in row) for row in near] == [[0, 2], [0, 1]]


@pytest.mark.slow
def test_a_grey_image_becomes_rgb(encoder):
    grey = Image.fromarray(np.full([20, 20], 7, np.uint8))
    same = np.full([20, 20, 3], 7, np.uint8)
    np.testing.assert_array_equal(encoder.features([grey, grey]), encoder.features([same, same]))


@pytest.mark.slow
def test_a_pil_image_is_turned_as_its_file_is(encoder, tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    pixels = np.random.default_rng(0).integers(0, 256, [20, 30, 3], np.uint8)
    Image.fromarray(pixels).save(tmp_path / "phone.png", exif=exif)
    turned = encoder.features(np.rot90(pixels, -1))
    np.testing.assert_array_equal(encoder.features(tmp_path / "phone.png"), turned)
    np.testing.assert_array_equal(encoder.features(Image.open(tmp_path / "phone.png")), turned)


@pytest.mark.slow
def test_files_of_more_than_8_bits_are_told(encoder, tmp_path, caplog):
    Image.fromarray(np.full([20, 20], 4096, np.uint16)).save(tmp_path / "x_ray.png")
    encoder.features(tmp_path / "x_ray.png")
    assert "1 pictures have more than 8 bits, and the model does not say how to see them" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("images", "message"),
    [
        ([], "there are none"),
        (np.zeros([0, 8, 8, 3]), "there are none"),
        (Image.fromarray(np.full([8, 8], 4096, np.uint16)), "picture 0: a PIL image of mode I;16"),
        (np.full([2, 8, 8, 3], 2.0), r"picture 0: float64 values of 2 to 2; must be uint8, or floats of 0 to 1"),
        (np.full([8, 8, 3], np.nan), "picture 0: float64 values of nan"),
        (np.zeros([8, 8, 3], np.int64), "picture 0: int64 values"),
        ([np.zeros([8, 8, 3], np.uint8), np.zeros([8, 8, 4])], r"picture 1: an array of shape \[8, 8, 4\]"),
        (["a.png", np.zeros([8, 8, 3])], "files beside arrays"),
        ("nowhere.png", "there is no nowhere.png"),
        (["nowhere.png"], "nowhere.png: there is no such file"),
    ],
)
def test_what_is_no_picture_is_named(encoder, images, message):
    with pytest.raises(cpc_tf.ConfigError, match=message):
        encoder.features(images)


def test_nothing_stays_behind():
    with as_flag(np.zeros([2, 8, 8, 3])) as flag:
        assert pictures.find(flag).names == ["000000.png", "000001.png"]
    with pytest.raises(cpc_tf.ConfigError):
        pictures.find(flag)
