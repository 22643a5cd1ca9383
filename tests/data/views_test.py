"""What is cut from an image: shapes, and independent draws of each view."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.augment.config import AugmentConfig
from cpc_tf.data import views
from cpc_tf.data.config import GeometryConfig
from cpc_tf.data.decode import decode
from cpc_tf.data.views import PatchGrid, SeveralCrops, WholeImage

NONE = AugmentConfig(augment="none")
GEOMETRY = GeometryConfig(resize=12, image_size=8, patch_size=8, patch_stride=1, mirror=True)
PIXELS = np.random.default_rng(0).integers(0, 256, [20, 16, 3], dtype=np.uint8)
ENCODED = tf.io.encode_png(PIXELS)


def cut(view, counter=3, augmentation=NONE, seed=1, encoded=ENCODED):
    result = view.cut(functools.partial(decode, encoded), tf.constant(counter, tf.int64), GEOMETRY, augmentation, seed)
    assert result.shape == view.shape(GEOMETRY)
    assert result.dtype == tf.uint8
    return result.numpy()


@pytest.mark.slow
def test_a_whole_image_is_the_only_patch_of_the_grid():
    for augmentation in (NONE, AugmentConfig()):
        whole, grid = (cut(view, augmentation=augmentation) for view in (WholeImage(), PatchGrid()))
        np.testing.assert_array_equal(whole, grid[0, 0])


@pytest.mark.slow
def test_crops_are_those_of_their_keys():
    for index, crop in enumerate(cut(SeveralCrops(3, least_area=0.3))):
        wanted = views.random_sized_crop(tf.constant(PIXELS), 8, 0.3, 4 / 3, 1, 3, index)
        np.testing.assert_array_equal(crop, views.mirror(wanted, 1, 3, index))


@pytest.mark.slow
def test_each_crop_is_augmented_on_its_own_by_counter_and_by_seed():
    grey = np.full([12, 12, 3], 100, np.uint8)  # all crops of a grey image are alike
    view = SeveralCrops(2)
    first, same, *others = (
        cut(view, counter, AugmentConfig(), seed=seed, encoded=tf.io.encode_png(grey))
        for counter, seed in ((3, 1), (3, 1), (4, 1), (3, 2))
    )
    np.testing.assert_array_equal(first, same)
    assert (first[0] != first[1]).any()
    assert all((first != other).any() for other in others)
