"""The module's interface: what hub.KerasLayer needs, outputs of any size, gradients, batch norm."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_hub as hub

from cpc_tf.encoders.config import EncoderConfig, make_encoder
from cpc_tf.export.module import HubEncoder, save
from cpc_tf.keras import keras
from tests.export.conftest import GEOMETRY, IMAGES

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def encoder():
    """With batch norm: what minds `training`."""
    encoder = make_encoder(EncoderConfig(encoder="small", norm="batch", output_stack=2))
    encoder(IMAGES)
    return encoder


@pytest.fixture(scope="module")
def path(encoder, tmp_path_factory):
    directory = str(tmp_path_factory.mktemp("module"))
    save(HubEncoder(encoder, GEOMETRY), directory)
    return directory


@pytest.fixture(scope="module")
def loaded(path):
    """The module, loaded once for the tests that do not change it."""
    return hub.load(path)


def test_lists_are_saved(encoder, loaded):
    for entry in (loaded, loaded.patched):
        assert len(entry.variables) == len(encoder.variables)
        assert [v.shape for v in entry.trainable_variables] == [v.shape for v in encoder.trainable_variables]
        assert len(entry.regularization_losses) == 0
    assert loaded.variables[0] is loaded.patched.variables[0]


def test_endpoints(encoder, loaded):
    endpoints = loaded(IMAGES, return_endpoints=True)
    wanted = encoder.endpoints(tf.constant(IMAGES))
    assert set(endpoints) == {"stack1", "stack2", "feature_map", "features"}
    for name in wanted:
        np.testing.assert_allclose(endpoints[name], wanted[name], atol=1e-4)


def test_patched_endpoints_are_those_of_each_patch(encoder, loaded):
    endpoints = loaded.patched(IMAGES, return_endpoints=True)
    patch = tf.constant(IMAGES[1:, 12:28, 4:20])  # row 3, column 1
    for name, wanted in encoder.endpoints(patch).items():
        assert endpoints[name].shape == [2, 5, 3, *wanted.shape[1:]]
        np.testing.assert_allclose(endpoints[name][1:, 3, 1], wanted, atol=1e-4)


def test_shapes_are_known_to_keras(loaded):
    images = keras.Input([None, None, 3])
    assert hub.KerasLayer(loaded)(images).shape.as_list() == [None, 16]
    assert hub.KerasLayer(loaded.patched)(images).shape.as_list() == [None, None, None, 16]


def test_signatures(loaded):
    served = loaded.signatures["serving_default"](images=tf.constant(IMAGES))
    assert {name: x.shape.as_list() for name, x in served.items()} == {
        "features": [2, 16],
        "feature_map": [2, 8, 6, 16],
    }
    assert loaded.signatures["patched"](images=tf.constant(IMAGES))["latents"].shape == [2, 5, 3, 16]


@pytest.mark.parametrize("shape", [(0, 32, 32), (1, 33, 47), (3, 1, 5), (2, 16, 100)])
def test_any_size(loaded, shape):
    features = loaded(tf.zeros([*shape, 3]))
    assert features.shape == [shape[0], 16]
    assert np.all(np.isfinite(features))


def test_image_smaller_than_a_patch(loaded):
    with pytest.raises(tf.errors.InvalidArgumentError, match="smaller than a patch of 16 px"):
        loaded.patched(tf.zeros([1, 15, 40, 3]))


@pytest.mark.parametrize("entry", ["whole", "patched"])
def test_fine_tuning_moves_statistics_and_weights_of_both(path, entry):
    loaded = hub.load(path)
    layer = hub.KerasLayer(loaded if entry == "whole" else loaded.patched, trainable=True)
    model = keras.Sequential([layer, keras.layers.Lambda(lambda x: tf.reshape(x, [tf.shape(x)[0], -1])[:, :8])])
    before = [v.numpy() for v in loaded.variables]
    model.compile(keras.optimizers.SGD(0.1), "mse")
    model.fit(IMAGES, np.ones([2, 8]), verbose=0)
    assert all(np.any(old != new.numpy()) for old, new in zip(before, loaded.variables))


def test_frozen_layer_changes_nothing(loaded):
    layer = hub.KerasLayer(loaded)
    before = [v.numpy() for v in layer.resolved_object.variables]
    layer(IMAGES, training=True)
    assert layer.trainable_weights == []
    assert all(np.array_equal(old, new.numpy()) for old, new in zip(before, layer.resolved_object.variables))


def test_weights_can_be_saved_by_keras(loaded, tmp_path):
    model = keras.Sequential([keras.Input([None, None, 3]), hub.KerasLayer(loaded)])
    wanted = model(IMAGES).numpy()
    model.save_weights(str(tmp_path / "weights.h5"))
    for variable in model.variables:
        variable.assign(variable * 0.5)
    model.load_weights(str(tmp_path / "weights.h5"))
    np.testing.assert_array_equal(model(IMAGES), wanted)
