"""De Fauw's elastic deformation and colour histogram change: known answers, and a NumPy loop written from the notes."""

import numpy as np
import pytest

from cpc_tf import augment
from cpc_tf.augment import reference_steps
from cpc_tf.augment.config import AugmentConfig
from tests.augment import samples

ENGINES = ("reference", "native")


def _b_spline(points, position):
    """The value at `position`, counted in points, of a uniform cubic B-spline."""
    i = min(int(np.floor(position)), len(points) - 3)
    t = position - i
    weights = [(1 - t) ** 3 / 6, (3 * t**3 - 6 * t**2 + 4) / 6, (-3 * t**3 + 3 * t**2 + 3 * t + 1) / 6, t**3 / 6]
    return sum(w * points[i - 1 + k] for k, w in enumerate(weights))


def _mirror(index, n):
    index = abs(index) % (2 * (n - 1))
    return min(index, 2 * (n - 1) - index)


def _elastic(patch, displacement, shear):
    size = len(patch)
    spacing, centre = 33 / 80 * size, (size - 1) / 2
    points = np.empty([6, 6, 2])
    for i, j in np.ndindex(6, 6):
        point = (np.array([i, j]) - 2.5) * spacing + displacement[i, j]
        points[i, j] = np.array([[1, shear[0]], [shear[1], 1]]) @ point + centre
    out = np.empty(patch.shape)
    for row, column in np.ndindex(size, size):
        along = [_b_spline(points[:, j], (row - centre) / spacing + 2.5) for j in range(6)]
        y, x = _b_spline(along, (column - centre) / spacing + 2.5)
        top, left = int(np.floor(y)), int(np.floor(x))
        out[row, column] = sum(
            wy * wx * patch[_mirror(top + dy, size), _mirror(left + dx, size)].astype(float)
            for dy, wy in ((0, 1 - y + top), (1, y - top))
            for dx, wx in ((0, 1 - x + left), (1, x - left))
        )
    return out


def test_b_spline_does_not_interpolate():
    weights = reference_steps.cubic_b_spline(np.array([1.0]), 4)[0, :3]
    np.testing.assert_allclose(weights @ [1, 3, 2], 2.5)


def test_b_spline_keeps_lines():
    positions = 1 + np.array([0.5, 1.5, 2.5, 3.5])
    np.testing.assert_allclose(reference_steps.cubic_b_spline(positions, 7) @ np.arange(7), positions)


def test_mirror_does_not_repeat_the_edge():
    known = [1, 2, 3, 4, 3, 2, 1, 0, 1, 2, 3, 4, 3, 2, 1, 0, 1, 2, 3, 4]
    assert [_mirror(i, 5) for i in range(-7, 13)] == known


@pytest.mark.parametrize("engine", ENGINES)
def test_mirrored_border_of_a_shifted_patch(engine):
    ramp = np.tile(np.arange(9, dtype=np.uint8)[:, None, None] * 10, [1, 1, 9, 3])
    recipe = augment.idle(1, 9)
    shifted = np.zeros([1, 6, 6, 2], np.float32)
    shifted[..., 1] = 11
    recipe = recipe._replace(elastic=[True], displacement=shifted, shear=np.zeros([1, 2], np.float32))
    columns = np.transpose(ramp, [0, 2, 1, 3])
    want = [10 * _mirror(i + 11, 9) for i in range(9)]
    np.testing.assert_array_equal(augment.apply(columns, recipe, engine)[0, :, :, 0], np.tile(want, [9, 1]))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("size", [8, 15, 40])
def test_elastic_against_a_numpy_loop(size, engine):
    patches, rng = samples.patches(size)[4:8], np.random.default_rng(size)
    # Four times the usual strength, so that mirrored borders show.
    displacement = rng.normal(0, size / 4, [4, 6, 6, 2]).astype(np.float32)
    shear = rng.uniform(-0.1, 0.1, [4, 2]).astype(np.float32)
    recipe = augment.idle(4, size)._replace(elastic=[True] * 4, displacement=displacement, shear=shear)
    ours = augment.apply(patches, recipe, engine).numpy()
    theirs = [_elastic(*row) for row in zip(patches, displacement, shear)]
    np.testing.assert_allclose(ours, theirs, atol=0.51)


def test_warp_is_that_of_addons():
    """Where they can be imported; at places inside, on pixels, and outside on all sides."""
    addons = pytest.importorskip("tensorflow_addons", reason="no tensorflow-addons for TensorFlow after 2.15")
    rng = np.random.default_rng(0)
    images = rng.uniform(0, 255, [5, 9, 12, 3]).astype(np.float32)
    pixel = np.stack(np.meshgrid(np.arange(9), np.arange(12), indexing="ij"), axis=-1).astype(np.float32)
    position = pixel + rng.normal(0, 5, [5, 9, 12, 2]).astype(np.float32)
    position[0] = np.round(position[0])
    theirs = addons.image.dense_image_warp(images, pixel - position)
    np.testing.assert_allclose(reference_steps.warp(images, position), theirs, atol=1e-3)


def test_warp_by_hand():
    image = np.array([[0, 10, 20], [100, 110, 120]], np.float32)[None, :, :, None]
    position = np.array([[0, 0], [0.5, 1.25], [1, 2], [-3, 0.5], [9, 9]], np.float32)[None, None]
    wanted = [0, 62.5, 120, 5, 120]
    np.testing.assert_allclose(reference_steps.warp(image, position)[0, 0, :, 0], wanted)


@pytest.mark.parametrize("engine", ENGINES)
def test_no_displacement_no_change(engine):
    patches = samples.patches(33)
    n = len(patches)
    recipe = augment.idle(n, 33)._replace(elastic=[True] * n)
    recipe = recipe._replace(displacement=np.zeros([n, 6, 6, 2], np.float32), shear=np.zeros([n, 2], np.float32))
    np.testing.assert_array_equal(augment.apply(patches, recipe, engine), patches)


@pytest.mark.parametrize("engine", ENGINES)
def test_curves_against_a_numpy_loop(engine):
    levels = np.tile(np.arange(256, dtype=np.uint8).reshape(1, 16, 16, 1), [40, 1, 1, 3])
    curve = augment.draw(AugmentConfig(), 0, 0, 40, 16).curve.numpy()
    recipe = augment.idle(40, 16)._replace(histogram=[True] * 40, curve=curve)
    ours = augment.apply(levels, recipe, engine).numpy().reshape(40, 256, 3)
    for n, channel in np.ndindex(40, 3):
        points = curve[n, channel]
        extended = [2 * points[0] - points[1], *points, 2 * points[-1] - points[-2]]
        table = [np.clip(255 * _b_spline(extended, 1 + level / 255 * 4), 0, 255) for level in range(256)]
        np.testing.assert_allclose(ours[n, :, channel], table, atol=0.51)
        assert (np.diff(ours[n, :, channel].astype(int)) >= 0).all()


@pytest.mark.parametrize("engine", ENGINES)
def test_straight_curve_changes_nothing(engine):
    patches = samples.patches(16)
    n = len(patches)
    straight = np.tile(np.linspace(0, 1, 5, dtype=np.float32), [n, 3, 1])
    recipe = augment.idle(n, 16)._replace(histogram=[True] * n, curve=straight)
    np.testing.assert_array_equal(augment.apply(patches, recipe, engine), patches)
