import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.encoders.conv import max_pool


def _both(x):
    """(values, gradient) by `max_pool` and by TensorFlow's own operation."""
    weights = tf.random.stateless_normal(tf.nn.max_pool2d(x, 3, 2, "SAME").shape, [3, 4])
    for pool in (max_pool, lambda x: tf.nn.max_pool2d(x, 3, 2, "SAME")):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = pool(x)
            loss = tf.reduce_sum(tf.cast(y, tf.float32) * weights)
        yield y, tape.gradient(loss, x)


@pytest.mark.parametrize(("height", "width"), [(8, 8), (7, 9), (6, 5), (2, 1), (1, 1), (40, 40)])
@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
def test_values_and_gradients_are_those_of_tensorflow(height, width, dtype):
    x = tf.cast(tf.random.stateless_normal([2, height, width, 3], [1, height]), dtype)
    (y, gradient), (wanted_y, wanted_gradient) = _both(x)
    np.testing.assert_array_equal(y, wanted_y)
    # A pixel that several windows choose sums their gradients: in bfloat16 the order shows.
    tolerance = 1e-6 if dtype == tf.float32 else 2**-6
    gradient, wanted_gradient = tf.cast(gradient, tf.float32), tf.cast(wanted_gradient, tf.float32)
    np.testing.assert_allclose(gradient, wanted_gradient, rtol=tolerance, atol=tolerance)


def test_of_equal_values_the_first_gets_the_gradient():
    """After a ReLU many are zero."""
    x = tf.nn.relu(tf.round(tf.random.stateless_normal([4, 10, 10, 2], [5, 6])))
    (_, gradient), (_, wanted) = _both(x)
    np.testing.assert_allclose(gradient, wanted, atol=1e-6)


def test_sizes_may_be_unknown():
    traced = tf.function(max_pool).get_concrete_function(tf.TensorSpec([None, None, None, 2]))
    for size in (5, 6):
        x = tf.random.stateless_normal([1, size, size + 1, 2], [7, size])
        np.testing.assert_array_equal(traced(x), tf.nn.max_pool2d(x, 3, 2, "SAME"))


def test_xla_compiles_the_deterministic_gradient():
    tf.config.experimental.enable_op_determinism()  # with it tf.nn.max_pool2d raises UnimplementedError here
    x = tf.random.stateless_normal([2, 9, 8, 3], [8, 9])

    @tf.function(jit_compile=True)
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.square(max_pool(x)))
        return tape.gradient(loss, x)

    np.testing.assert_allclose(gradient(x), gradient.python_function(x), rtol=1e-6)
