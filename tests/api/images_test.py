"""Features of pictures in Python are those of their files, and tell which are near each other."""

import numpy as np
import pytest
from PIL import Image

import cpc_tf
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
