"""What an encoder sees of an image, against numpy and PIL: resizing, crops, mirroring, grids,
views.
"""

import collections
import functools

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from cpc_tf.augment.config import AugmentConfig
from cpc_tf.data import views
from cpc_tf.data.config import GeometryConfig
from cpc_tf.data.decode import decode
from cpc_tf.data.views import PatchGrid, SeveralCrops, WholeImage

RANDOM = np.random.default_rng(0)


def image(height, width=None):
    return RANDOM.integers(0, 256, [height, width or height, 3], dtype=np.uint8)


def test_resize_shrinks_to_the_mean_of_the_footprint():
    pixels = image(8, 12)
    expected = np.round(pixels.reshape(4, 2, 4, 3, 3).mean(axis=(1, 3)))
    np.testing.assert_allclose(views.resize(tf.constant(pixels), 4), expected, atol=1)
    np.testing.assert_array_equal(views.resize(tf.constant(pixels[:, :8]), 8), pixels[:, :8])


@pytest.mark.parametrize("shape", [(48, 48), (8, 48), (48, 8), (15, 48)])
def test_resize_does_not_alias(shape):
    """Neither where all sides shrink, nor where one shrinks while the other grows."""
    stripes = np.zeros([*shape, 3], np.uint8)
    np.moveaxis(stripes, shape.index(48), 0)[::3] = 255
    np.testing.assert_array_equal(views.resize(tf.constant(stripes), 16), np.full([16, 16, 3], 85))


@pytest.mark.parametrize("shape", [(4, 4), (4, 16), (16, 4), (4, 8), (7, 9)])
def test_resize_enlarges_a_ramp_to_a_ramp(shape):
    ramp = np.broadcast_to(np.linspace(0, 200, shape[1])[:, None], [*shape, 3]).astype(np.uint8)
    pixels = views.resize(tf.constant(ramp), 8)
    assert pixels.dtype == tf.uint8
    assert pixels.shape == (8, 8, 3)
    assert (np.diff(pixels.numpy().astype(int), axis=1) >= 0).all()
    assert np.ptp(pixels.numpy(), axis=0).max() == 0


@pytest.mark.slow
def test_random_crop_is_a_part_of_the_image():
    pixels = np.arange(6 * 6 * 3, dtype=np.uint8).reshape(6, 6, 3)
    corners = collections.Counter()
    cut = tf.function(
        lambda counter: views.random_crop(pixels, 4, 7, counter), [tf.TensorSpec([], tf.int64)]
    )
    for counter in range(900):
        crop = cut(counter).numpy()
        top, left = divmod(crop[0, 0, 0] // 3, 6)
        np.testing.assert_array_equal(crop, pixels[top : top + 4, left : left + 4])
        corners[top, left] += 1
    assert len(corners) == 9
    assert min(corners.values()) > 60
    assert max(corners.values()) < 140
    np.testing.assert_array_equal(views.random_crop(pixels, 6, seed=7, counter=0), pixels)


@pytest.mark.parametrize(("side", "start"), [(6, 0), (5, 0), (4, 1), (3, 1), (1, 2)])
def test_centre_crop(side, start):
    pixels = image(6)
    expected = pixels[start : start + side, start : start + side]
    np.testing.assert_array_equal(views.centre_crop(tf.constant(pixels), side), expected)


def test_mirror_flips_half_of_the_images():
    pixels = image(3, 4)
    shown = [
        views.mirror(tf.constant(pixels), 1, counter).numpy().tobytes() for counter in range(100)
    ]
    assert 30 < shown.count(pixels[:, ::-1].tobytes()) < 70
    assert shown.count(pixels.tobytes()) == 100 - shown.count(pixels[:, ::-1].tobytes())


@pytest.mark.parametrize(
    ("side", "patch", "stride"), [(260, 80, 36), (64, 16, 8), (8, 4, 4), (7, 3, 2), (5, 5, 1)]
)
def test_grid_of_patches(side, patch, stride):
    pixels = image(side)
    grid = views.grid_of_patches(tf.constant(pixels), patch, stride)
    count = (side - patch) // stride + 1
    assert grid.shape == (count, count, patch, patch, 3)
    for row in range(count):
        for column in range(count):
            top, left = row * stride, column * stride
            np.testing.assert_array_equal(
                grid[row, column], pixels[top : top + patch, left : left + patch]
            )


def _coordinates(height, width):
    """An image whose red says the row and whose green says the column, from 0 to 200."""
    rows, columns = np.meshgrid(
        np.linspace(0, 200, height), np.linspace(0, 200, width), indexing="ij"
    )
    return np.stack([rows, columns, 0 * rows], -1).round().astype(np.uint8)


@pytest.mark.slow
def test_random_sized_crops_respect_area_and_aspect_bounds():
    pixels, height, width = _coordinates(120, 160), 120, 160
    crop = tf.function(
        lambda counter: views.random_sized_crop(tf.constant(pixels), 100, 0.25, 4 / 3, 5, counter)
    )
    areas, aspects = [], []
    for counter in range(150):
        found = crop(tf.constant(counter, tf.int64)).numpy()
        assert found.shape == (100, 100, 3)
        rows = (int(found[-1, :, 0].mean()) - int(found[0, :, 0].mean())) / 200 * height
        columns = (int(found[:, -1, 1].mean()) - int(found[:, 0, 1].mean())) / 200 * width
        areas.append(rows * columns / (height * width))
        aspects.append(columns / rows)
    assert 0.22 < min(areas) < 0.35
    assert max(areas) > 0.8
    assert 0.72 < min(aspects) < 0.9
    assert 1.1 < max(aspects) < 1.42


def test_a_crop_of_everything_is_the_resized_image():
    pixels = tf.constant(image(24))
    found = views.random_sized_crop(pixels, 8, 1.0, 1.0, 0, tf.constant(3, tf.int64))
    np.testing.assert_array_equal(found, views.resize(pixels, 8))


def test_crops_are_a_function_of_seed_and_counter():
    pixels = tf.constant(image(32))
    for crop, options in ((views.random_crop, []), (views.random_sized_crop, [0.1, 4 / 3])):
        keys = ((0, 0), (0, 0), (0, 1), (1, 0))
        first, same, *others = (
            crop(pixels, 8, *options, seed, tf.constant(counter, tf.int64)).numpy().tobytes()
            for seed, counter in keys
        )
        assert first == same
        assert len({first, *others}) == 3


def oracle(pixels, side, mode):
    """What `fit` does, by Pillow: sides that shrink by whole numbers become the means of their
    footprints.
    """
    height, width = pixels.shape[:2]
    shown = Image.fromarray(pixels)
    if mode == "squash":
        return np.asarray(shown.resize((side, side), Image.Resampling.BOX))
    factor = side / (min if mode == "crop" else max)(height, width)
    shown = shown.resize((round(width * factor), round(height * factor)), Image.Resampling.BOX)
    if mode == "crop":
        return np.asarray(shown)
    square = Image.new("RGB", (side, side), (128, 128, 128))
    square.paste(shown, ((side - shown.width) // 2, (side - shown.height) // 2))
    return np.asarray(square)


@pytest.mark.parametrize("mode", ["squash", "crop", "pad"])
@pytest.mark.parametrize("shape", [(64, 64), (64, 128), (128, 64), (32, 128)])
def test_how_an_image_becomes_a_square(mode, shape):
    pixels, side = image(*shape), 16 if mode == "squash" else 32
    found, expected = views.fit(tf.constant(pixels), side, mode).numpy(), oracle(pixels, side, mode)
    np.testing.assert_allclose(found.astype(int), expected, atol=1)


def test_padded_strip_keeps_at_least_one_column():
    found = views.fit(tf.constant(np.full([20, 1, 3], 7, np.uint8)), 10, "pad").numpy()
    assert (found == 7).all(axis=(0, 2)).sum() == 1
    assert (found == views.GREY).all(axis=(0, 2)).sum() == 9


def test_a_strip_is_cropped_to_its_middle():
    strip = np.repeat(np.arange(100, dtype=np.uint8)[:, None, None], 3, axis=2)  # 100 x 1 px
    found = views.fit(tf.constant(strip), 2, "crop").numpy()
    assert found.shape == (8, 2, 3)
    assert found[0, 0, 0] >= 48
    assert found[-1, 0, 0] <= 51


NONE = AugmentConfig(augment="none")
GEOMETRY = GeometryConfig(resize=12, image_size=8, patch_size=8, patch_stride=1, mirror=True)
PIXELS = np.random.default_rng(0).integers(0, 256, [20, 16, 3], dtype=np.uint8)
ENCODED = tf.io.encode_png(PIXELS)


def cut(view, counter=3, augmentation=NONE, seed=1, encoded=ENCODED):
    result = view.cut(
        functools.partial(decode, encoded),
        tf.constant(counter, tf.int64),
        GEOMETRY,
        augmentation,
        seed,
    )
    assert result.shape == view.shape(GEOMETRY)
    assert result.dtype == tf.uint8
    return result.numpy()


@pytest.mark.slow
def test_whole_image_equals_a_grid_of_one_patch():
    for augmentation in (NONE, AugmentConfig()):
        whole, grid = (cut(view, augmentation=augmentation) for view in (WholeImage(), PatchGrid()))
        np.testing.assert_array_equal(whole, grid[0, 0])


@pytest.mark.slow
def test_crops_are_those_of_their_keys():
    for index, crop in enumerate(cut(SeveralCrops(3, least_area=0.3))):
        wanted = views.random_sized_crop(tf.constant(PIXELS), 8, 0.3, 4 / 3, 1, 3, index)
        np.testing.assert_array_equal(crop, views.mirror(wanted, 1, 3, index))


@pytest.mark.slow
def test_each_crop_is_augmented_by_counter_and_seed():
    grey = np.full([12, 12, 3], 100, np.uint8)  # all crops of a grey image are alike
    view = SeveralCrops(2)
    first, same, *others = (
        cut(view, counter, AugmentConfig(), seed=seed, encoded=tf.io.encode_png(grey))
        for counter, seed in ((3, 1), (3, 1), (4, 1), (3, 2))
    )
    np.testing.assert_array_equal(first, same)
    assert (first[0] != first[1]).any()
    assert all((first != other).any() for other in others)
