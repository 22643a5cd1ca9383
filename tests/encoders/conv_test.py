"""Convolutions and pooling beside TensorFlow's own and float64's gradients; invalid arguments are refused."""

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf import native
from cpc_tf.encoders.conv import Conv, convolve_by_rows, max_pool
from cpc_tf.encoders.operations import operations
from cpc_tf.keras import keras

CASES = [  # images, kernel, stride, padding
    ((2, 5, 5, 3), (3, 3), 1, "SAME"),
    ((2, 6, 4, 3), (3, 3), 2, "SAME"),
    ((3, 7, 5, 2), (7, 5), 2, "SAME"),
    ((1, 2, 2, 4), (3, 3), 1, "SAME"),
    ((2, 4, 6, 5), (1, 1), 2, "SAME"),
    ((2, 5, 5, 4), (1, 3), 1, "SAME"),
    ((2, 6, 5, 4), (2, 1), 1, "VALID"),
    ((2, 7, 9, 1), (3, 2), 3, "VALID"),
    ((70, 1, 1, 2), (5, 5), 1, "SAME"),
]


def _convolution(convolve, x, kernel):
    """The convolution and its gradients by sources."""
    with tf.GradientTape() as tape:
        tape.watch([x, kernel])
        y = convolve(x, kernel)
        upstream = tf.cast(tf.random.stateless_normal(y.shape, [3, 4]), y.dtype)
    return [tf.cast(v, tf.float64).numpy() for v in (y, *tape.gradient(y, [x, kernel], upstream))]


@pytest.mark.parametrize(("dtype", "tolerance"), [(tf.float32, 1e-5), (tf.bfloat16, 2e-2)])
@pytest.mark.parametrize(("shape", "kernel", "stride", "padding"), CASES)
def test_by_rows_is_float64s_convolution(shape, kernel, stride, padding, dtype, tolerance):
    random = np.random.default_rng(1)
    x, w = (tf.cast(random.normal(size=size), dtype) for size in (shape, (*kernel, shape[-1], 6)))
    got = _convolution(lambda *v: convolve_by_rows(*v, stride, padding), x, w)
    exact = _convolution(lambda *v: tf.nn.conv2d(*v, stride, padding), tf.cast(x, tf.float64), tf.cast(w, tf.float64))
    for one, other in zip(got, exact):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * abs(other).max())


# Settings of a layer, and whether our operation computes its gradient.
PRODUCT = {"kernel_size": 1}  # a matrix product, of images of any size
LAYERS = [
    (PRODUCT, False),
    ({"kernel_size": 3, "strides": 2}, True),
    ({"kernel_size": 1, "strides": 2}, True),
    ({"kernel_size": (1, 3)}, True),
    ({"kernel_size": 3, "padding": "valid"}, True),
    ({"kernel_size": 3, "groups": 2}, False),
    ({"kernel_size": 3, "dilation_rate": 2}, False),
    ({"kernel_size": 3, "strides": (2, 1)}, False),
]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize(("settings", "by_rows"), LAYERS, ids=str)
def test_the_layer_is_keras(settings, by_rows, dtype):
    """In values, gradients and static shapes; in bfloat16 it is Keras' in float32: Keras' own sums in bfloat16 on
    some CPUs."""

    def normal(shape, seed):
        return tf.cast(tf.cast(tf.random.stateless_normal(shape, seed), tf.bfloat16), tf.float32)

    x, results, shapes = normal([5, 4, 4, 64], [5, 6]), [], []
    ours, sizes = by_rows or settings is PRODUCT, [None, None, None] if settings is PRODUCT else [5, 4, 4]
    for kind in (keras.layers.Conv2D, Conv):
        precision = "float32" if ours and kind is not Conv else dtype
        layer = kind(6, **{"padding": "same", **settings}, dtype=precision)
        layer.build(x.shape)
        layer.set_weights([normal(w.shape, [7, 8]) for w in layer.weights])

        @tf.function(input_signature=[tf.TensorSpec([*sizes, 64])])
        def run(x, layer=layer):
            with native.allowed():
                y = tf.cast(layer(x), tf.float32)
                return [y, *tf.gradients(tf.reduce_sum(y**2), [x, *layer.trainable_weights])]

        results.append(run(x))
        shapes.append(run.get_concrete_function().outputs[0].shape.as_list())
        used = {op.type for op in run.get_concrete_function().graph.get_operations()}
        assert ("CpcIm2col" in used) == (kind is Conv and by_rows)
    assert shapes[0] == shapes[1]
    for one, other in zip(*results):
        scale = np.abs(one).max()
        np.testing.assert_allclose(one, other, atol=(1e-5 if dtype == "float32" else 2e-2) * scale)


NONSENSE = [  # shape of the images, and settings
    ([5, 5, 3], {}),
    ([], {}),
    ([2, 5, 5, 3, 1], {}),
    ([2, 1, 5, 3], {"padding": "VALID"}),  # two rows fewer than the kernel
    ([2, 5, 5, 3], {"kernel": [3]}),
    ([2, 5, 5, 3], {"kernel": [0, 3]}),
    ([2, 5, 5, 3], {"kernel": [2**40, 2**40]}),
    ([2, 5, 5, 3], {"stride": 0}),
    ([2, 5, 5, 3], {"stride": -2}),
]


@pytest.mark.parametrize(("shape", "settings"), NONSENSE, ids=str)
def test_nonsense_is_an_invalid_argument(shape, settings):
    settings = {"kernel": [3, 3], "stride": 1, "padding": "SAME", **settings}
    with pytest.raises(tf.errors.InvalidArgumentError):
        operations().cpc_im2col(tf.ones(shape), **settings)
    unknown = tf.function(lambda x: operations().cpc_im2col(x, **settings), [tf.TensorSpec(None, tf.float32)])
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
        unknown(tf.ones(shape))


def test_no_images_and_no_channels():
    settings = {"kernel": [3, 3], "stride": 2, "padding": "SAME"}
    assert operations().cpc_im2col(tf.ones([0, 4, 4, 3]), **settings).shape == [0, 27]
    assert operations().cpc_im2col(tf.ones([2, 4, 4, 0]), **settings).shape == [8, 0]


# Pooling.


def _pooled(x):
    """(values, gradient) by `max_pool`, which is not told the sizes, and by TensorFlow's own operation."""
    ours = tf.function(max_pool, input_signature=[tf.TensorSpec([None, None, None, x.shape[3]], x.dtype)])
    weights = tf.random.stateless_normal(tf.nn.max_pool2d(x, 3, 2, "SAME").shape, [3, 4])
    for pool in (ours, lambda x: tf.nn.max_pool2d(x, 3, 2, "SAME")):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = pool(x)
            loss = tf.reduce_sum(tf.cast(y, tf.float32) * weights)
        yield y, tf.cast(tape.gradient(loss, x), tf.float32)


@pytest.mark.parametrize(("height", "width"), [(8, 8), (7, 9), (6, 5), (2, 1), (1, 1)])
@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
def test_pooling_values_and_gradients_are_those_of_tensorflow(height, width, dtype):
    different = tf.random.stateless_normal([2, height, width, 3], [1, height])
    for x in (different, tf.nn.relu(tf.round(different))):  # of equal values the first gets the gradient
        (y, gradient), (wanted_y, wanted_gradient) = _pooled(tf.cast(x, dtype))
        np.testing.assert_array_equal(y, wanted_y)
        # A pixel that several windows choose sums their gradients: in bfloat16 the order shows.
        tolerance = 1e-6 if dtype == tf.float32 else 2**-6
        np.testing.assert_allclose(gradient, wanted_gradient, rtol=tolerance, atol=tolerance)


@pytest.mark.slow
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
