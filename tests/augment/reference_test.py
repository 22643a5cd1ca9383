"""Operations in both engines: AutoAugment's primitives against PIL, steps against NumPy and other
libraries.
"""

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageEnhance, ImageOps

from cpc_tf import augment
from cpc_tf.augment import reference
from cpc_tf.augment.config import AugmentConfig
from cpc_tf.augment.operations import OPERATIONS, all_primitives
from tests.augment import samples

GREY = (128, 128, 128)


def _affine(image, *coefficients):
    return image.transform(image.size, Image.AFFINE, coefficients, fillcolor=GREY)


PIL = {
    "shear_x": lambda image, m: _affine(image, 1, m, 0, 0, 1, 0),
    "shear_y": lambda image, m: _affine(image, 1, 0, 0, m, 1, 0),
    "translate_x": lambda image, m: _affine(image, 1, 0, m, 0, 1, 0),
    "translate_y": lambda image, m: _affine(image, 1, 0, 0, 0, 1, m),
    "rotate": lambda image, m: image.rotate(m, fillcolor=GREY),
    "auto_contrast": lambda image, m: ImageOps.autocontrast(image),
    "invert": lambda image, m: ImageOps.invert(image),
    "equalize": lambda image, m: ImageOps.equalize(image),
    "solarize": lambda image, m: ImageOps.solarize(image, m),
    "posterize": lambda image, m: ImageOps.posterize(image, int(m)),
    "contrast": lambda image, m: ImageEnhance.Contrast(image).enhance(m),
    "color": lambda image, m: ImageEnhance.Color(image).enhance(m),
    "brightness": lambda image, m: ImageEnhance.Brightness(image).enhance(m),
    "sharpness": lambda image, m: ImageEnhance.Sharpness(image).enhance(m),
}


def _magnitudes(name, count, size):
    """The ends of the range, its middle, and random ones between."""
    ((low, high),) = AugmentConfig().policy.bounds(name, size)
    found = np.linspace(low, high - 0.5 * OPERATIONS[name].whole, count).astype(np.float32)
    return np.round(found) if name == "solarize" else found  # so that pixels are at the threshold


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("size", [8, 33])
@pytest.mark.parametrize("name", [primitive.name for primitive in all_primitives()])
def test_as_pil_does_it(name, size, engine):
    patches = samples.patches(size)
    n = len(patches)
    magnitude = _magnitudes(name, n, size)
    ours = augment.apply(patches, samples.recipe_of(name, magnitude, size), engine=engine).numpy()
    theirs = [
        np.asarray(PIL[name](Image.fromarray(x), float(m))) for x, m in zip(patches, magnitude)
    ]
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.slow
def test_each_in_tf_data():
    patches = samples.patches(9)
    magnitude = np.stack(
        [_magnitudes(primitive.name, len(patches), 9) for primitive in all_primitives()]
    )

    def transform(number, m):
        recipe = samples.recipe_of("invert", m, 9)._replace(op=tf.fill([len(patches), 1], number))
        return augment.apply(patches, recipe, engine="reference"), augment.apply(
            patches, recipe, engine="native"
        )

    numbers = np.int32([primitive.number for primitive in all_primitives()])
    dataset = tf.data.Dataset.from_tensor_slices((numbers, magnitude)).map(transform)
    for row, (primitive, (expected, native)) in enumerate(zip(all_primitives(), dataset)):
        np.testing.assert_array_equal(expected, primitive.function(patches, magnitude[row]))
        np.testing.assert_array_equal(native, expected)


RNG = np.random.default_rng(0)
engines = pytest.mark.parametrize("engine", ["reference", "native"])


def _noise(n, size):
    return RNG.integers(0, 256, (n, size, size, 3), dtype=np.uint8)


def _jittered(patch, margin, top, left):
    """A part of the patch in the middle of grey."""
    size = len(patch) - margin
    out = np.full_like(patch, 128)
    before = margin // 2
    out[before : before + size, before : before + size] = patch[
        top : top + size, left : left + size
    ]
    return out


@engines
@pytest.mark.parametrize("size", [8, 15])
def test_early_policies_pixel_by_pixel(size, engine):
    patches = _noise(50, size)
    for policy in ("colour_drop", "v1"):
        recipe = augment.draw(AugmentConfig(augment=policy), 0, 0, 50, size)
        out = augment.apply(patches, recipe, engine).numpy()
        for patch, got, offset, kept in zip(
            patches, out, recipe.jitter.numpy(), recipe.kept.numpy()
        ):
            want = _jittered(patch, *offset)
            if policy == "v1":
                want = np.repeat((want @ np.array([0.2989, 0.587, 0.114]))[..., None], 3, -1)
            else:
                want[..., [c for c in range(3) if c != kept]] = 128
            np.testing.assert_allclose(got, want, atol=0.51 if policy == "v1" else 0)


def _b_spline(points, position):
    """The value at `position`, counted in points, of a uniform cubic B-spline."""
    i = min(int(np.floor(position)), len(points) - 3)
    t = position - i
    weights = [
        (1 - t) ** 3 / 6,
        (3 * t**3 - 6 * t**2 + 4) / 6,
        (-3 * t**3 + 3 * t**2 + 3 * t + 1) / 6,
        t**3 / 6,
    ]
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


@engines
@pytest.mark.parametrize(("size", "strength"), [(8, 0.25), (25, 0.25), (33, 0)])
def test_elastic_against_a_numpy_loop(size, strength, engine):
    patches, rng = samples.patches(size)[4:8], np.random.default_rng(size)
    # Four times the usual strength, so that mirrored borders show; or none, which changes nothing.
    displacement = rng.normal(0, strength * size, [4, 6, 6, 2]).astype(np.float32)
    shear = (strength * rng.uniform(-0.4, 0.4, [4, 2])).astype(np.float32)
    recipe = augment.idle(4, size)._replace(
        elastic=[True] * 4, displacement=displacement, shear=shear
    )
    ours = augment.apply(patches, recipe, engine).numpy()
    theirs = [_elastic(*row) for row in zip(patches, displacement, shear)] if strength else patches
    np.testing.assert_allclose(ours, theirs, atol=0.51 if strength else 0)


@pytest.mark.slow
def test_warp_is_that_of_addons():
    """Where they can be imported; at places inside, on pixels, and outside on all sides."""
    addons = pytest.importorskip(
        "tensorflow_addons", reason="no tensorflow-addons for TensorFlow after 2.15"
    )
    rng = np.random.default_rng(0)
    images = rng.uniform(0, 255, [5, 9, 12, 3]).astype(np.float32)
    pixel = np.stack(np.meshgrid(np.arange(9), np.arange(12), indexing="ij"), axis=-1).astype(
        np.float32
    )
    position = pixel + rng.normal(0, 5, [5, 9, 12, 2]).astype(np.float32)
    position[0] = np.round(position[0])
    theirs = addons.image.dense_image_warp(images, pixel - position)
    np.testing.assert_allclose(reference.warp(images, position), theirs, atol=1e-3)


@engines
def test_curves_against_a_numpy_loop(engine):
    levels = np.tile(np.arange(256, dtype=np.uint8).reshape(1, 16, 16, 1), [40, 1, 1, 3])
    curve = augment.draw(AugmentConfig(), 0, 0, 40, 16).curve.numpy()
    curve[0] = np.linspace(0, 1, 5)  # straight: changes nothing
    recipe = augment.idle(40, 16)._replace(histogram=[True] * 40, curve=curve)
    ours = augment.apply(levels, recipe, engine).numpy().reshape(40, 256, 3)
    np.testing.assert_array_equal(ours[0, :, 0], np.arange(256))
    for n, channel in np.ndindex(40, 3):
        points = curve[n, channel]
        extended = [2 * points[0] - points[1], *points, 2 * points[-1] - points[-2]]
        table = [
            np.clip(255 * _b_spline(extended, 1 + level / 255 * 4), 0, 255) for level in range(256)
        ]
        np.testing.assert_allclose(ours[n, :, channel], table, atol=0.51)
        assert (np.diff(ours[n, :, channel].astype(int)) >= 0).all()


def _with_tf_image(image, order, brightness, saturation, hue, contrast):
    """slim's distort_color on [0, 1]; the brightness shift is in grey levels."""
    ops = {
        "B": lambda x: tf.image.adjust_brightness(x, brightness / 255),
        "S": lambda x: tf.image.adjust_saturation(x, saturation),
        "H": lambda x: tf.image.adjust_hue(x, hue),
        "C": lambda x: tf.image.adjust_contrast(x, contrast),
    }
    image = tf.constant(image, tf.float32) / 255
    for op in order:
        image = ops[op](image)
    return tf.clip_by_value(image, 0, 1) * 255


@pytest.mark.parametrize("order", range(4))
def test_each_order_of_colour_is_slims(order):
    n = 32
    patches = _noise(n, 12).astype(np.float32)
    # Dark and light patches too: there the steps leave the range, and only the end is clipped.
    patches[8:16] *= 0.1
    patches[16:24] = 255 - 0.1 * patches[16:24]
    numbers = RNG.uniform([-32, 0.5, -0.2, 0.5], [32, 1.5, 0.2, 1.5], (n, 4)).astype(np.float32)
    # no change; a third of a turn rotates the channels
    numbers[:2] = [
        [0, 1, 0, 1],
        [0, 1, 1 / 3, 1],
    ]
    ours = reference.distort(patches, np.full(n, order, np.int32), numbers).numpy()
    theirs = [
        _with_tf_image(x, reference.COLOR_ORDERS[order], *row) for x, row in zip(patches, numbers)
    ]
    np.testing.assert_allclose(ours, theirs, atol=0.02)
    np.testing.assert_allclose(ours[0], patches[0], atol=1e-3)
    np.testing.assert_allclose(ours[1], np.roll(patches[1], 1, axis=-1), atol=1e-3)
