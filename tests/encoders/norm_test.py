import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.encoders.norm import EPSILON, LayerNorm, make_norm
from cpc_tf.keras import keras


def _oracle(x, scale, offset, axes):
    x = x.astype(np.float64)
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + EPSILON) * scale + offset


def _plain(x, scale, offset, axes):
    """The same with TensorFlow's own ops and gradients."""
    mean, variance = tf.nn.moments(x, axes, keepdims=True)
    return (x - mean) * tf.math.rsqrt(variance + EPSILON) * scale + offset


@pytest.mark.parametrize(("over_space", "axes"), [(True, (1, 2, 3)), (False, (3,))])
class TestLayerNorm:
    def _layer(self, over_space, channels):
        layer = LayerNorm(over_space)
        layer.build([None, None, None, channels])
        random = np.random.default_rng(0)
        layer.scale.assign(random.normal(1, 0.3, channels))
        layer.offset.assign(random.normal(0, 0.3, channels))
        return layer

    def test_equals_numpy(self, over_space, axes):
        layer = self._layer(over_space, 6)
        x = np.random.default_rng(1).normal(2, 3, [4, 5, 3, 6]).astype(np.float32)
        wanted = _oracle(x, layer.scale.numpy(), layer.offset.numpy(), axes)
        np.testing.assert_allclose(layer(x), wanted, atol=2e-5)

    def test_gradient_equals_tensorflows(self, over_space, axes):
        layer = self._layer(over_space, 6)
        random = np.random.default_rng(1)
        x = tf.constant(random.normal(0.5, 2, [4, 5, 3, 6]), tf.float32)
        weights = tf.constant(random.normal(0, 1, [4, 5, 3, 6]), tf.float32)
        sources = [x, layer.scale, layer.offset]

        def gradients(function):
            with tf.GradientTape() as tape:
                tape.watch(x)
                value = tf.reduce_sum(tf.square(function()) * weights)
            return tape.gradient(value, sources)

        ours = gradients(lambda: layer(x))
        theirs = gradients(lambda: _plain(x, layer.scale, layer.offset, list(axes)))
        for our, their in zip(ours, theirs):
            np.testing.assert_allclose(our, their, rtol=2e-4, atol=2e-4)

    def test_same_weights_serve_any_size_even_an_empty_batch(self, over_space, axes):
        layer = self._layer(over_space, 6)
        run = tf.function(layer, input_signature=[tf.TensorSpec([None, None, None, 6])])
        assert run(tf.ones([2, 9, 4, 6])).shape == [2, 9, 4, 6]
        assert run(tf.ones([0, 5, 5, 6])).shape == [0, 5, 5, 6]

    def test_constant_input_gives_the_offset_and_finite_gradients(self, over_space, axes):
        layer = self._layer(over_space, 6)
        x = tf.fill([2, 3, 3, 6], 7.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x)
        assert np.isfinite(tape.gradient(y, x)).all()
        np.testing.assert_allclose(y[0, 0, 0], layer.offset, atol=1e-2)


def test_statistics_are_float32_for_bfloat16_input():
    layer = make_norm("layer", "mixed_bfloat16", "norm")
    x = np.random.default_rng(0).normal(0, 1, [2, 16, 16, 8]).astype(np.float32)
    y = layer(x)
    assert y.dtype == tf.bfloat16
    assert layer.scale.dtype == tf.float32
    np.testing.assert_allclose(tf.cast(y, tf.float32), _oracle(x, 1, 0, (1, 2, 3)), atol=0.05)


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("layer", LayerNorm),
        ("channel", LayerNorm),
        ("batch", keras.layers.BatchNormalization),
        ("none", keras.layers.Layer),
    ],
)
def test_make_norm_knows_each_kind(kind, wanted):
    layer = make_norm(kind, "float32", "norm")
    assert isinstance(layer, wanted)
    assert layer(tf.ones([2, 3, 3, 4]), training=True).shape == [2, 3, 3, 4]


def test_no_norm_changes_nothing():
    x = tf.random.stateless_normal([2, 3, 3, 4], [0, 0])
    np.testing.assert_array_equal(make_norm("none", "float32", "norm")(x), x)


def test_unknown_norm_is_refused():
    with pytest.raises(ValueError, match="norm=group"):
        make_norm("group", "float32", "norm")
