"""Several encoders as one: the features of each, of images that each sees as if it were alone."""

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from cpc_tf.core.settings import ConfigError
from cpc_tf.encoders.features import Encoder
from cpc_tf.encoders.side_by_side import open_encoder
from tests import modules


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """A module for 16 px beside pixels of 40 px, and the two."""
    path = tmp_path_factory.mktemp("modules") / "module"
    modules.write_module(path)
    return open_encoder(f"{path},pixels", image_size=40), Encoder(path), Encoder("pixels", 0, 40)


def test_features_are_those_of_each(both, tmp_path):
    together, *each = both
    noise = np.random.default_rng(0).integers(0, 256, [3, 90, 120, 3], np.uint8)
    paths = []
    for number, pixels in enumerate(noise):  # JPEGs are decoded at another size for each
        paths.append(str(tmp_path / f"{number}.jpg"))
        Image.fromarray(pixels).save(paths[-1])
    wanted = np.concatenate([encoder.features(paths) for encoder in each], 1)
    np.testing.assert_allclose(together.features(paths), wanted, atol=1e-6)


def test_a_canvas_holds_the_image_of_each(both):
    together, *each = both
    image = tf.constant(np.random.default_rng(1).integers(0, 256, [50, 70, 3], np.uint8))
    canvas = together.prepare(image)
    assert canvas.shape == [56, 56, 3]
    wanted = [encoder.encode(encoder.prepare(image)[None]) for encoder in each]
    np.testing.assert_allclose(together.encode(canvas[None]), tf.concat(wanted, 1), atol=1e-6)


def test_larger_features_do_not_decide_what_is_near(both):
    together, module, pixels = both
    images = np.random.default_rng(2).uniform(size=[12, 20, 20, 3])
    scales = []
    for features in np.split(together.comparable(*2 * [together.features(images)]), [128], 1):
        scales.append(features.var(0).sum())
    assert scales == pytest.approx([1, 1], rel=1e-3)
    assert len(together.neighbours(images[:1], images)[0]) == 5


def test_one_encoder_refuses_several(both):
    with pytest.raises(ConfigError, match="names several encoders"):
        Encoder(both[0].path)
