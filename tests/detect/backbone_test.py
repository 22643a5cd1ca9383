"""The detector on an exported encoder."""

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.detect.backbone import HubBackbone
from cpc_tf.detect.faster_rcnn import FasterRCNN
from cpc_tf.encoders.config import EncoderConfig, make_encoder
from cpc_tf.encoders.networks import resnet
from cpc_tf.keras import keras
from cpc_tf.settings import ConfigError
from export.module import HubEncoder, save
from tests.detect.faster_rcnn_test import ORDINARY, TINY, training_step
from tests.export.conftest import GEOMETRY

IMAGES = tf.constant(np.random.default_rng(0).uniform(size=[2, 32, 48, 3]), tf.float32)


@pytest.fixture(scope="module")
def encoder():
    """With batch norm, for its statistics."""
    with pytest.MonkeyPatch.context() as patch:
        stacks = (resnet.Stack(1, 4, 8, stride=4),)
        tiny = resnet.Architecture(stacks, stem_kernel=3, stem_width=6, stem_pool=False)
        patch.setitem(resnet.ARCHITECTURES, "small", tiny)
        encoder = make_encoder(EncoderConfig(encoder="small", norm="batch"))
    encoder(IMAGES)
    return encoder


@pytest.fixture(scope="module")
def path(encoder, tmp_path_factory):
    directory = str(tmp_path_factory.mktemp("hub"))
    save(HubEncoder(encoder, GEOMETRY), directory)
    return directory


class Plain(tf.Module):
    """A module that knows no endpoints."""

    @tf.function(input_signature=[tf.TensorSpec([None, None, None, 3])])
    def __call__(self, images):
        return tf.nn.avg_pool2d(images, 4, 4, "VALID")


@pytest.mark.parametrize("endpoint", ["stack1", "feature_map"])
def test_endpoint(encoder, path, endpoint):
    np.testing.assert_allclose(HubBackbone(path, endpoint)(IMAGES), encoder.endpoints(IMAGES)[endpoint], atol=1e-4)


@pytest.mark.parametrize("update", [False, True])
def test_statistics_move_on_demand_and_gradients_reach_all_weights(encoder, path, update):
    backbone = HubBackbone(path, "feature_map", update_statistics=update)
    before = [v.numpy() for v in backbone.non_trainable_variables]
    with tf.GradientTape() as tape:
        value = tf.reduce_sum(tf.square(backbone(IMAGES, training=True)))
    gradients = tape.gradient(value, backbone.trainable_variables)
    assert len(gradients) == len(encoder.trainable_variables)
    assert all(np.any(gradient) for gradient in gradients)
    assert len(before) == len(encoder.variables) - len(gradients)
    moved = [np.any(old != new.numpy()) for old, new in zip(before, backbone.non_trainable_variables)]
    assert all(moved) if update else not any(moved)


def test_compiled_training_equals_uncompiled_and_reaches_every_variable(encoder, path):
    keras.utils.set_random_seed(1)
    model = FasterRCNN(HubBackbone(path), 3, TINY)
    assert (model.stride, model.channels) == (8, 8)
    losses, gradients = training_step(model)(*ORDINARY)
    compiled, compiled_gradients = training_step(model, jit=True)(*ORDINARY)
    for name in losses:
        np.testing.assert_allclose(compiled[name], losses[name], rtol=1e-4)
    assert len(model.encoder_variables) == len(encoder.trainable_variables)
    assert len(gradients) == len(model.encoder_variables) + len(model.detector_variables)
    for one, other in zip(gradients, compiled_gradients):
        assert np.any(one)
        np.testing.assert_allclose(other, one, rtol=1e-3, atol=1e-4 * np.max(np.abs(one)))


def test_detector_is_made_in_the_scope_of_a_strategy(path, two_replicas):
    with two_replicas.scope():
        model = FasterRCNN(HubBackbone(path), 3, TINY)
    assert model.stride == 8
    assert len(model.encoder_variables[0].values) == 2


def test_module_without_endpoints(tmp_path):
    tf.saved_model.save(Plain(), str(tmp_path))
    np.testing.assert_allclose(HubBackbone(str(tmp_path), "")(IMAGES), Plain()(IMAGES))
    with pytest.raises(ConfigError, match="--backbone_endpoint=stack3: the module does not take return_endpoints"):
        HubBackbone(str(tmp_path), "stack3")(IMAGES)


@pytest.mark.parametrize("endpoint", ["stack9", "features"])
def test_endpoint_that_is_not_there(path, endpoint):
    with pytest.raises(ConfigError, match=f"--backbone_endpoint={endpoint}: .* it has feature_map, stack1"):
        HubBackbone(path, endpoint)(IMAGES)


def test_module_that_is_not_there(tmp_path):
    with pytest.raises(ConfigError, match="--encoder=.*nowhere: cannot be loaded"):
        HubBackbone(str(tmp_path / "nowhere"))
