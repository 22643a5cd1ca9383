"""What is cut from an image: shapes, and independent draws of each view."""

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.augment.config import AugmentConfig
from cpc_tf.data.config import GeometryConfig
from cpc_tf.data.views import geometry as geo
from cpc_tf.data.views.views import PatchGrid, SeveralCrops, WholeImage
from cpc_tf.settings import ConfigError

NONE = AugmentConfig(augment="none")
GEOMETRY = GeometryConfig(resize=12, image_size=8, patch_size=8, patch_stride=1, mirror=True)
PIXELS = np.random.default_rng(0).integers(0, 256, [20, 16, 3], dtype=np.uint8)
ENCODED = tf.io.encode_png(PIXELS)


def cut(view, counter=3, augmentation=NONE, geometry=GEOMETRY, seed=1):
    result = view.cut(ENCODED, tf.constant(counter, tf.int64), geometry, augmentation, seed)
    assert result.shape == view.shape(geometry)
    assert result.dtype == tf.uint8
    return result.numpy()


@pytest.mark.slow
def test_a_whole_image_is_the_only_patch_of_the_grid():
    np.testing.assert_array_equal(cut(WholeImage()), cut(PatchGrid())[0, 0])
    full = AugmentConfig()
    np.testing.assert_array_equal(cut(WholeImage(), augmentation=full), cut(PatchGrid(), augmentation=full)[0, 0])


@pytest.mark.slow
def test_crops_are_those_of_their_keys():
    for index, crop in enumerate(cut(SeveralCrops(3, least_area=0.3))):
        wanted = geo.random_sized_crop(tf.constant(PIXELS), 8, 0.3, 4 / 3, 1, 3, index)
        np.testing.assert_array_equal(crop, geo.mirror(wanted, 1, 3, index))


@pytest.mark.slow
@pytest.mark.parametrize("augmentation", [NONE, AugmentConfig()])
def test_crops_differ_from_each_other_by_counter_and_by_seed(augmentation):
    crops = cut(SeveralCrops(2), augmentation=augmentation)
    assert (crops[0] != crops[1]).any()
    np.testing.assert_array_equal(crops, cut(SeveralCrops(2), augmentation=augmentation))
    for other in (cut(SeveralCrops(2), counter=4), cut(SeveralCrops(2), seed=2)):
        assert (crops != other).any()


@pytest.mark.slow
def test_each_crop_is_augmented_on_its_own():
    grey = np.full([12, 12, 3], 100, np.uint8)
    view = SeveralCrops(2)
    crops = view.cut(tf.io.encode_png(grey), tf.constant(0, tf.int64), GEOMETRY, AugmentConfig(), 1).numpy()
    assert (crops[0] != crops[1]).any()  # all crops of a grey image are alike


@pytest.mark.parametrize("view", [WholeImage(), SeveralCrops(2)])
def test_whole_images_have_a_geometry_of_one_patch(view):
    view.check(GEOMETRY)
    with pytest.raises(ConfigError, match="--patch_size=4: .*use --patch_size=8"):
        view.check(GeometryConfig(resize=12, image_size=8, patch_size=4, patch_stride=2))
