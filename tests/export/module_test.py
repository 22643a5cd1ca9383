"""The module's interface: what hub.KerasLayer needs, outputs of any size, gradients, batch norm."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_hub as hub

from cpc_tf.export.module import HubEncoder, save
from cpc_tf.keras import keras
from tests.export.conftest import GEOMETRY, IMAGES

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def loaded(ours):
    """The module, for tests that do not change it."""
    return hub.load(ours.path)


def test_endpoints_are_those_of_the_network_and_of_each_patch(ours, loaded):
    whole, patches = (entry(IMAGES, return_endpoints=True) for entry in (loaded, loaded.patched))
    assert set(whole) == set(patches) == set(ours.endpoints) == {"stack1", "stack2", "feature_map", "features"}
    for name, wanted in ours.endpoints.items():
        np.testing.assert_allclose(whole[name], wanted, atol=1e-4)
        assert patches[name].shape == [2, 7, 5, *ours.patch[name].shape[1:]]
        np.testing.assert_allclose(patches[name][1:, 3, 1], ours.patch[name], atol=1e-4)


def test_shapes_are_known_to_keras_and_to_signatures(loaded):
    images = keras.Input([None, None, 3])
    assert hub.KerasLayer(loaded)(images).shape.as_list() == [None, 16]
    assert hub.KerasLayer(loaded.patched)(images).shape.as_list() == [None, None, None, 16]
    served = loaded.signatures["serving_default"](images=tf.constant(IMAGES))
    assert {name: x.shape.as_list() for name, x in served.items()} == {
        "features": [2, 16],
        "feature_map": [2, 8, 6, 16],
    }
    assert loaded.signatures["patched"](images=tf.constant(IMAGES))["latents"].shape == [2, 7, 5, 16]


def test_pixels_outside_their_range_are_refused_and_bytes_have_a_signature(ours, loaded, tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, [2, 9, 9, 3], np.uint8)
    wanted = loaded(tf.constant(pixels / 255, tf.float32))
    served = loaded.signatures["uint8"](images=tf.constant(pixels))
    np.testing.assert_allclose(served["features"], wanted, atol=1e-6)
    for wrong in (pixels.astype(np.float32), (pixels / 127.5 - 1).astype(np.float32), np.full([1, 9, 9, 3], np.nan)):
        for entry in (loaded, loaded.patched):
            with pytest.raises(tf.errors.InvalidArgumentError, match="must be floats in"):
                entry(tf.constant(wrong, tf.float32), training=True)
    module = HubEncoder(ours.encoder, GEOMETRY)
    module.check_pixels(False)
    save(module, str(tmp_path))
    wide = tf.constant(pixels, tf.float32)
    np.testing.assert_allclose(hub.load(str(tmp_path))(wide), loaded.unchecked(wide)["features"], atol=1e-4)


@pytest.mark.parametrize("shape", [(3, 1, 5), (2, 16, 101)])
def test_any_size_but_patches_of_images_smaller_than_one(loaded, shape):
    features = loaded(tf.zeros([*shape, 3]))
    assert features.shape == [shape[0], 16]
    assert np.all(np.isfinite(features))
    with pytest.raises(tf.errors.InvalidArgumentError, match="smaller than a patch of 8 px"):
        loaded.patched(tf.zeros([1, 7, 40, 3]))


def test_fine_tuning_moves_statistics_and_weights_which_keras_can_save(ours, tmp_path):
    """By way of the patches; verify_test.py trains on whole images."""
    loaded = hub.load(ours.path)
    layer = hub.KerasLayer(loaded.patched, trainable=True)
    model = keras.Sequential([layer, keras.layers.Lambda(lambda x: tf.reshape(x, [tf.shape(x)[0], -1])[:, :8])])
    before = [v.numpy() for v in loaded.variables]
    model.compile(keras.optimizers.SGD(0.1), "mse")
    model.fit(IMAGES, np.ones([2, 8]), verbose=0)
    assert all(np.any(old != new.numpy()) for old, new in zip(before, loaded.variables))
    wanted = model(IMAGES).numpy()
    model.save_weights(str(tmp_path / "tuned.weights.h5"))
    for variable in model.variables:
        variable.assign(variable * 0.5)
    model.load_weights(str(tmp_path / "tuned.weights.h5"))
    np.testing.assert_array_equal(model(IMAGES), wanted)


def test_frozen_layer_changes_nothing(loaded):
    layer = hub.KerasLayer(loaded)
    before = [v.numpy() for v in layer.resolved_object.variables]
    layer(IMAGES, training=True)
    assert layer.trainable_weights == []
    assert all(np.array_equal(old, new.numpy()) for old, new in zip(before, layer.resolved_object.variables))
