"""Where the encoder's native operations are used, and that they change no answer."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf import native
from cpc_tf.encoders import operations
from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.encoders.network import make_encoder
from cpc_tf.encoders.networks import architectures
from cpc_tf.encoders.norm import normalize
from cpc_tf.keras import keras


def _operations(function, *arguments):
    concrete = tf.function(function, autograph=False).get_concrete_function(*arguments)
    assert concrete.output_shapes.as_list() == arguments[0].shape.as_list()
    return _operations_of(concrete)


def _operations_of(concrete):
    """Types of all operations of a graph and of the functions that it calls."""
    graph = concrete.graph.as_graph_def()
    nodes = [*graph.node, *(node for f in graph.library.function for node in f.node_def)]
    return {node.op for node in nodes}


IMAGES = tf.TensorSpec([None, 4, 8])


def _normalized(x):
    return normalize(x, tf.ones([8]), tf.zeros([8]), relu=True)


def test_only_where_it_is_allowed():
    assert "CpcNormRelu" not in _operations(_normalized, IMAGES)
    with native.allowed():
        assert "CpcNormRelu" in _operations(_normalized, IMAGES)
        with native.allowed(False):
            assert "CpcNormRelu" not in _operations(_normalized, IMAGES)
    assert not native.is_allowed()


@pytest.fixture
def _forget_operations():
    operations.operations.cache_clear()
    yield
    operations.operations.cache_clear()


@pytest.mark.usefixtures("_forget_operations")
def test_without_a_compiler_it_is_plain_and_says_so_once(monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("CPC_TF_CACHE", str(tmp_path))
    monkeypatch.setenv("CXX", "/no/such/compiler")
    x = tf.random.stateless_normal([3, 4, 8], [1, 2])
    plain = _normalized(x)
    with native.allowed():
        for _ in range(2):
            assert "CpcNormRelu" not in _operations(_normalized, IMAGES)
            np.testing.assert_array_equal(_normalized(x), plain)
    assert len(caplog.messages) == 1


def _step(encoder, images):
    features = encoder(images, training=True)
    loss = tf.reduce_sum(tf.square(features) * tf.linspace(-1.0, 1.0, features.shape[-1]))
    return [features, *tf.gradients(loss, encoder.trainable_variables)]


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"recompute": True}, {"block_order": "post", "norm": "channel"}], ids=str)
def test_an_encoder_is_the_same(options, monkeypatch):
    # 64 channels before kernels with strides, which are computed by rows.
    stacks = (architectures.Stack(1, 8, 64, 1), architectures.Stack(1, 64, 32, 2))
    few_blocks = architectures.Architecture(stacks, stem_kernel=3, stem_width=8, stem_pool=False)
    monkeypatch.setitem(architectures.ARCHITECTURES, "small", few_blocks)
    keras.utils.set_random_seed(0)  # one of 150 draws has a ReLU at 0, whose gradient rounding decides
    encoder = make_encoder(EncoderConfig(encoder="small", **options))
    images = tf.random.stateless_uniform([6, 16, 16, 3], [1, 2])
    encoder(images)
    results = []
    for value in (False, True):
        with native.allowed(value):
            step = tf.function(lambda: _step(encoder, images), autograph=False)
            results.append(step())
        used = _operations_of(step.get_concrete_function())
        assert [name in used for name in ("CpcNormReluGrad", "CpcIm2col")] == [value, value]
    for plain, ours in zip(*results):
        assert np.linalg.norm(plain - ours) <= 1e-5 * np.linalg.norm(plain)


@pytest.mark.slow
def test_an_exported_module_has_none(ours):
    assert b"Cpc" not in pathlib.Path(ours[0], "saved_model.pb").read_bytes()
