"""AutoAugment's primitives against PIL, grey level for grey level, in both engines."""

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageEnhance, ImageOps

from cpc_tf import augment
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
    theirs = [np.asarray(PIL[name](Image.fromarray(x), float(m))) for x, m in zip(patches, magnitude)]
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.slow
def test_each_in_tf_data():
    patches = samples.patches(9)
    magnitude = np.stack([_magnitudes(primitive.name, len(patches), 9) for primitive in all_primitives()])

    def transform(number, m):
        recipe = samples.recipe_of("invert", m, 9)._replace(op=tf.fill([len(patches), 1], number))
        return augment.apply(patches, recipe, engine="reference"), augment.apply(patches, recipe, engine="native")

    numbers = np.int32([primitive.number for primitive in all_primitives()])
    dataset = tf.data.Dataset.from_tensor_slices((numbers, magnitude)).map(transform)
    for row, (primitive, (reference, native)) in enumerate(zip(all_primitives(), dataset)):
        np.testing.assert_array_equal(reference, primitive.function(patches, magnitude[row]))
        np.testing.assert_array_equal(native, reference)
