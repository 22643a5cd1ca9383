"""The detector on an exported encoder."""

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.detect.faster_rcnn import FasterRCNN
from cpc_tf.encoders.config import EncoderConfig, make_encoder
from cpc_tf.encoders.load import load_feature_maps
from cpc_tf.encoders.networks import resnet
from cpc_tf.export.module import HubEncoder, save
from cpc_tf.keras import keras
from tests.detect.samples import ORDINARY, TINY, training_step
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


def backbone(path):
    return load_feature_maps(path, "feature_map", 128, backbone="", vectors=False, update_statistics=False)


def test_compiled_training_equals_uncompiled_and_reaches_every_variable(encoder, path):
    keras.utils.set_random_seed(1)
    model = FasterRCNN(backbone(path), 3, TINY)
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
        model = FasterRCNN(backbone(path), 3, TINY)
    assert model.stride == 8
    assert len(model.encoder_variables[0].values) == 2
