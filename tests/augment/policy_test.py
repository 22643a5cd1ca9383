"""The early policies, pixel by pixel, and what every policy promises."""

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf import augment
from cpc_tf.augment.config import AugmentConfig

RNG = np.random.default_rng(0)
POLICIES = ("v1", "colour_drop", "full")


def _patches(n, size):
    return RNG.integers(0, 256, (n, size, size, 3), dtype=np.uint8)


def _jittered(patch, margin, top, left):
    """A part of the patch in the middle of grey."""
    size = len(patch) - margin
    out = np.full_like(patch, 128)
    before = margin // 2
    out[before : before + size, before : before + size] = patch[top : top + size, left : left + size]
    return out


@pytest.mark.parametrize("size", [8, 15, 16, 40, 64])
def test_colour_drop_is_jitter_and_one_channel(size):
    patches = _patches(50, size)
    recipe = augment.draw(AugmentConfig(augment="colour_drop"), 0, 0, 50, size)
    out = augment.apply(patches, recipe, engine="reference").numpy()
    for patch, got, offset, kept in zip(patches, out, recipe.jitter.numpy(), recipe.kept.numpy()):
        want = _jittered(patch, *offset)
        want[..., [c for c in range(3) if c != kept]] = 128
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("size", [9, 64])
def test_v1_is_jitter_and_grey(size):
    patches = _patches(50, size)
    recipe = augment.draw(AugmentConfig(augment="v1"), 0, 0, 50, size)
    out = augment.apply(patches, recipe, engine="reference").numpy()
    for patch, got, offset in zip(patches, out, recipe.jitter.numpy()):
        luma = _jittered(patch, *offset) @ np.array([0.2989, 0.587, 0.114])
        np.testing.assert_allclose(got, np.repeat(luma[..., None], 3, -1), atol=0.51)


@pytest.mark.parametrize("policy", POLICIES)
def test_in_tf_data_as_in_eager(policy):
    patches, config = _patches(9, 16), AugmentConfig(augment=policy)

    def augmented(i):
        return augment.apply(patches, augment.draw(config, 1, i, 9, 16), engine="reference")

    for i, got in enumerate(tf.data.Dataset.range(3).map(augmented, num_parallel_calls=2)):
        assert got.dtype == tf.uint8
        assert got.shape == (9, 16, 16, 3)
        np.testing.assert_allclose(got.numpy().astype(int), augmented(i).numpy().astype(int), atol=1)
