import json

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.encoders.load import encode_grid, load_encoder, module_geometry, pixel_grid
from cpc_tf.settings import ConfigError


def _third_party(path, maps):
    """A TF-Hub module of images as others would write it: Keras layers, vectors or maps."""
    layers = [tf.keras.layers.Conv2D(5, 3, 2)] + ([] if maps else [tf.keras.layers.GlobalAveragePooling2D()])
    model = tf.keras.Sequential(layers)
    model.build([None, None, None, 3])
    tf.saved_model.save(model, str(path))
    return model


@pytest.mark.parametrize("maps", [False, True])
def test_a_third_partys_module_gives_vectors(tmp_path, maps):
    model = _third_party(tmp_path / "module", maps)
    images = tf.random.stateless_uniform([2, 9, 9, 3], [0, 0])
    features = load_encoder(str(tmp_path / "module"))(images)
    wanted = tf.reduce_mean(model(images), [1, 2]) if maps else model(images)
    np.testing.assert_allclose(features, wanted, atol=1e-6)


def test_each_patch_is_encoded_on_its_own():
    patches = tf.cast(tf.random.stateless_uniform([2, 3, 4, 5, 5, 3], [0, 0], maxval=256), tf.uint8)
    latents = encode_grid(lambda images: tf.reduce_mean(images, [1, 2]), patches)
    assert latents.shape == [2, 3, 4, 3]
    np.testing.assert_allclose(latents, tf.reduce_mean(tf.cast(patches, tf.float32) / 255, [3, 4]), atol=1e-6)


def test_pixels_are_all_patches_shrunk():
    patches = tf.cast(tf.random.stateless_uniform([2, 3, 3, 16, 16, 3], [0, 0], maxval=256), tf.uint8)
    latents = pixel_grid(patches)
    assert latents.shape == [2, 1, 1, 9 * 8 * 8 * 3]
    flat = tf.reshape(latents, [2, 3, 3, 8, 8, 3])
    np.testing.assert_allclose(
        tf.reduce_mean(flat, [3, 4]), tf.reduce_mean(tf.cast(patches, tf.float32), [3, 4]) / 255, atol=0.02
    )


def test_the_untrained_twin_is_the_same_for_a_seed_and_has_the_modules_shape(tmp_path):
    card = {"encoder": {"encoder": "small", "output_stack": 2}, "geometry": {"resize": 64, "image_size": 64}}
    (tmp_path / "encoder.json").write_text(json.dumps(card))
    images = tf.random.stateless_uniform([2, 16, 16, 3], [0, 0])
    first, again, other = (load_encoder(f"random:{tmp_path}", seed)(images) for seed in (1, 1, 2))
    assert first.shape == [2, 128]
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0.01


def test_geometry_comes_from_the_module(tmp_path):
    geometry = {"resize": 72, "image_size": 64, "patch_size": 16, "patch_stride": 8, "mirror": True}
    (tmp_path / "encoder.json").write_text(json.dumps({"encoder": {}, "geometry": geometry}))
    for name in (str(tmp_path), f"random:{tmp_path}"):
        assert module_geometry(name).grid == 7


@pytest.mark.parametrize(
    ("name", "said"), [("", "--encoder= is empty"), ("/nowhere", "--encoder=/nowhere: cannot be loaded")]
)
def test_a_missing_module_is_one_line(name, said):
    with pytest.raises(ConfigError, match=said) as error:
        load_encoder(name)
    assert "\n" not in str(error.value)


def test_a_module_without_its_json_says_what_to_do(tmp_path):
    with pytest.raises(ConfigError, match="--geometry_from=flags"):
        module_geometry(str(tmp_path))
    with pytest.raises(ConfigError, match="--encoder=.*/typo: there is no such directory"):
        module_geometry(f"{tmp_path}/typo")
