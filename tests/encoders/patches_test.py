"""The grid of patches of images of any size."""

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.encoders.patches import patch_grid


@pytest.mark.parametrize(
    ("height", "width", "patch", "stride", "rows", "columns"),
    [(260, 260, 80, 36, 6, 6), (31, 23, 8, 4, 6, 4), (8, 9, 8, 4, 1, 1), (20, 20, 4, 6, 3, 3)],
)
def test_equals_slices(height, width, patch, stride, rows, columns):
    images = np.random.default_rng(0).uniform(size=[2, height, width, 3]).astype(np.float32)
    assert patch_grid(images[:0], patch, stride).shape == [0, rows, columns, patch, patch, 3]
    grid = tf.function(lambda x: patch_grid(x, patch, stride), [tf.TensorSpec([None, None, None, 3])])(images).numpy()
    assert grid.shape == (2, rows, columns, patch, patch, 3)
    for r in range(rows):
        for c in range(columns):
            y, x = r * stride, c * stride
            np.testing.assert_array_equal(grid[:, r, c], images[:, y : y + patch, x : x + patch])


def test_image_smaller_than_a_patch():
    with pytest.raises(tf.errors.InvalidArgumentError, match="smaller than a patch of 8 px"):
        patch_grid(tf.zeros([1, 32, 7, 3]), 8, 4)
