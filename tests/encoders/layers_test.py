"""Layers of encoders: each gives the answer of TensorFlow's own, with our C++ operations and
without.
"""

import os
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.core import native
from cpc_tf.core.keras import keras
from cpc_tf.encoders import networks
from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.encoders.layers import (
    EPSILON,
    Conv,
    batch_statistics,
    convolve_by_rows,
    make_norm,
    max_pool,
    normalize,
    operations,
)
from cpc_tf.encoders.network import make_encoder
from tests import processes


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
    operations.cache_clear()
    yield
    operations.cache_clear()


@pytest.mark.usefixtures("_forget_operations")
def test_missing_compiler_falls_back_and_warns_once(monkeypatch, tmp_path, caplog):
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
@pytest.mark.parametrize(
    "options", [{"recompute": True}, {"block_order": "post", "norm": "channel"}], ids=str
)
def test_an_encoder_is_the_same(options, monkeypatch):
    # 64 channels before kernels with strides, which are computed by rows.
    stacks = (networks.Stack(1, 8, 64, 1), networks.Stack(1, 64, 32, 2))
    few_blocks = networks.Architecture(stacks, stem_kernel=3, stem_width=8, stem_pool=False)
    monkeypatch.setitem(networks.ARCHITECTURES, "small", few_blocks)
    # one of 150 draws has a ReLU at 0, whose gradient rounding decides
    keras.utils.set_random_seed(0)
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
    exact = _convolution(
        lambda *v: tf.nn.conv2d(*v, stride, padding), tf.cast(x, tf.float64), tf.cast(w, tf.float64)
    )
    for one, other in zip(got, exact):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * abs(other).max())


# as a product of matrices, and by oneDNN without the stride
@pytest.mark.parametrize("side", [5, 20])
def test_strided_1x1_convolution_equals_float64(side):
    random = np.random.default_rng(1)
    x, w = (
        tf.constant(random.normal(size=size), tf.float32)
        for size in ([1, side, side, 8], [1, 1, 8, 16])
    )
    got = _convolution(Conv(16, 1, strides=2, padding="same").convolution_op, x, w)
    exact = _convolution(
        lambda *v: tf.nn.conv2d(*v, 2, "SAME"), tf.cast(x, tf.float64), tf.cast(w, tf.float64)
    )
    for one, other in zip(got, exact):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5 * abs(other).max())


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
    """In values, gradients and static shapes; in bfloat16 it is Keras' in float32: Keras' own sums
    in bfloat16 on some CPUs."""

    def normal(shape, seed):
        return tf.cast(tf.cast(tf.random.stateless_normal(shape, seed), tf.bfloat16), tf.float32)

    x, results, shapes = normal([5, 4, 4, 64], [5, 6]), [], []
    ours, sizes = (
        by_rows or settings is PRODUCT,
        [None, None, None] if settings is PRODUCT else [5, 4, 4],
    )
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
    unknown = tf.function(
        lambda x: operations().cpc_im2col(x, **settings), [tf.TensorSpec(None, tf.float32)]
    )
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
        unknown(tf.ones(shape))


def test_no_images_and_no_channels():
    settings = {"kernel": [3, 3], "stride": 2, "padding": "SAME"}
    assert operations().cpc_im2col(tf.ones([0, 4, 4, 3]), **settings).shape == [0, 27]
    assert operations().cpc_im2col(tf.ones([2, 4, 4, 0]), **settings).shape == [8, 0]


# Pooling.


def _pooled(x):
    """(values, gradient) by `max_pool`, which is not told the sizes, and by TensorFlow's own
    operation.
    """
    ours = tf.function(
        max_pool, input_signature=[tf.TensorSpec([None, None, None, x.shape[3]], x.dtype)]
    )
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
    # of equal values the first gets the gradient
    for x in (
        different,
        tf.nn.relu(tf.round(different)),
    ):
        (y, gradient), (wanted_y, wanted_gradient) = _pooled(tf.cast(x, dtype))
        np.testing.assert_array_equal(y, wanted_y)
        # A pixel that several windows choose sums their gradients: in bfloat16 the order shows.
        tolerance = 1e-6 if dtype == tf.float32 else 2**-6
        np.testing.assert_allclose(gradient, wanted_gradient, rtol=tolerance, atol=tolerance)


@pytest.mark.slow
def test_xla_compiles_the_deterministic_gradient():
    # with it tf.nn.max_pool2d raises UnimplementedError here
    tf.config.experimental.enable_op_determinism()
    x = tf.random.stateless_normal([2, 9, 8, 3], [8, 9])

    @tf.function(jit_compile=True)
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.square(max_pool(x)))
        return tape.gradient(loss, x)

    np.testing.assert_allclose(gradient(x), gradient.python_function(x), rtol=1e-6)


SHAPES = [
    (3, 16, 8),
    (5, 1, 256),
    (2, 9, 33),
    (1, 1, 1),
    (130, 4, 5),
    (7, 6, 64),
    (70, 64, 16),
    (9, 12, 3),
    (0, 4, 8),
]


def _inputs(shape, mean=0.5, dtype=tf.float32, seed=0):
    """x, scale, offset and what comes from above."""
    random = np.random.default_rng(seed)
    x, upstream = random.normal(mean, 1, shape), random.normal(0, 1, shape)
    scale, offset = random.normal(1, 0.3, shape[-1]), random.normal(0, 0.3, shape[-1])
    return [
        tf.cast(x, dtype),
        *(tf.cast(v, tf.float32) for v in (scale, offset)),
        tf.cast(upstream, dtype),
    ]


def _run(inputs, relu, use_native):
    """[y, d_x, d_scale, d_offset]"""
    *sources, upstream = inputs
    with native.allowed(use_native), tf.GradientTape() as tape:
        tape.watch(sources)
        y = normalize(*sources, relu=relu)
    with native.allowed(use_native):
        return [y, *tape.gradient(y, sources, upstream)]


def _oracle(x, scale, offset, relu=False, axes=(1, 2)):
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    y = (x - mean) / np.sqrt(variance + EPSILON) * scale + offset
    return np.maximum(y, 0) if relu else y


def _close(got, wanted, tolerance):
    for one, other in zip(got, wanted):
        one, other = (np.asarray(tf.cast(v, tf.float64)) for v in (one, other))
        np.testing.assert_allclose(
            one, other, rtol=tolerance, atol=tolerance * max(1, abs(other).max(initial=0))
        )


@pytest.mark.parametrize("shape", SHAPES)
def test_native_is_plain(shape):
    for relu in (False, True):
        _close(_run(_inputs(shape), relu, True), _run(_inputs(shape), relu, False), 1e-5)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("shape", [(3, 16, 8), (40, 6, 64)])
def test_bfloat16_is_float32_rounded(shape, relu):
    inputs = _inputs(shape, dtype=tf.bfloat16)
    got, exact = (
        _run(inputs, relu, True),
        _run([tf.cast(v, tf.float32) for v in inputs], relu, True),
    )
    for one, other in zip(got[:2], exact[:2]):  # y and d_x
        np.testing.assert_array_equal(
            *(tf.cast(v, tf.float32) for v in (one, tf.cast(other, tf.bfloat16)))
        )
    _close(got[2:], exact[2:], 1e-6)


@pytest.mark.parametrize("use_native", [False, True])
@pytest.mark.parametrize("relu", [False, True])
def test_gradients_are_finite_differences(relu, use_native):
    inputs = _inputs((2, 3, 5))
    *sources, upstream = (v.numpy().astype(np.float64) for v in inputs)
    for number, got in enumerate(_run(inputs, relu, use_native)[1:]):
        wanted = np.zeros_like(sources[number])
        for index in np.ndindex(wanted.shape):
            values = []
            for step in (1e-6, -1e-6):
                moved = [v.copy() for v in sources]
                moved[number][index] += step
                values.append((_oracle(*moved, relu) * upstream).sum())
            wanted[index] = (values[0] - values[1]) / 2e-6
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("use_native", [False, True])
def test_a_mean_far_from_zero_costs_no_precision(use_native):
    inputs = _inputs((4, 64, 32), mean=1000)
    x, scale, offset, upstream = (v.numpy().astype(np.float64) for v in inputs)
    y, _, d_scale, _ = _run(inputs, False, use_native)
    # A mean in float32 is half a unit in the last place off, as x is: 3e-5 at 1000, here in 256
    # terms of a sum.
    np.testing.assert_allclose(y, _oracle(x, scale, offset, False), atol=5e-5)
    np.testing.assert_allclose(d_scale, (_oracle(x, 1, 0, False) * upstream).sum((0, 1)), atol=2e-3)


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
def test_nan_and_infinity_stay_in_their_example(dtype):
    x, *others = _inputs((4, 4, 8), dtype=dtype)
    healthy = _run([x, *others], True, True)
    bad = x.numpy()
    bad[1, 2, 3], bad[2, 0, 0] = np.nan, np.inf
    y, d_x, d_scale, _ = _run([tf.constant(bad), *others], True, True)
    for got, wanted in ((y, healthy[0]), (d_x, healthy[1])):
        finite = np.isfinite(got.numpy().astype(np.float32)).all((1, 2))
        np.testing.assert_array_equal(finite, [True, False, False, True])
        np.testing.assert_array_equal(got.numpy()[[0, 3]], wanted.numpy()[[0, 3]])
    assert not np.isfinite(d_scale).any()


@pytest.mark.slow
def test_threads_change_no_bit(tmp_path):
    """This process has one for each core; the other has another number."""
    threads = 5 if len(os.sched_getaffinity(0)) == 1 else 1
    other = processes.run("tests.encoders.norm_threads", threads, tmp_path / "other.npz")
    assert other.returncode == 0, other.stderr
    for a, b in zip(
        np.load(tmp_path / "other.npz").values(), _run(_inputs((3001, 16, 24)), True, True)
    ):
        np.testing.assert_array_equal(a, b)


def test_an_example_does_not_depend_on_the_others():
    inputs = _inputs((131, 3, 20))
    together = _run(inputs, True, True)
    x, scale, offset, upstream = inputs
    for n in (0, 64, 130):
        alone = _run([x[n : n + 1], scale, offset, upstream[n : n + 1]], True, True)
        np.testing.assert_array_equal([v[0] for v in alone[:2]], [v[n] for v in together[:2]])


GOOD = {name: np.ones(shape, np.float32) for name, shape in (
    ("x", [3, 4, 5]), ("scale", [5]), ("offset", [5]), ("mean", [3]), ("inverse", [3]),
    ("upstream", [3, 4, 5]),
)}  # fmt: skip
HOSTILE = [
    ("x", [4, 5]), ("x", [3, 4, 5, 1]), ("x", [3, 0, 5]), ("x", [3, 4, 0]),
    ("scale", [4]), ("scale", [5, 1]),
    ("offset", [6]), ("mean", [2]), ("inverse", [3, 1, 1]),
    ("upstream", [3, 5, 4]), ("upstream", [60]),
]  # fmt: skip


def _refused(forward=True, backward=True, epsilon=EPSILON, match="", **changed):
    """The operations refuse these inputs, which replace good ones."""
    inputs = {name: tf.convert_to_tensor(value) for name, value in {**GOOD, **changed}.items()}
    if backward:
        with pytest.raises(tf.errors.InvalidArgumentError, match=match):
            operations().cpc_norm_relu_grad(**inputs, relu=True)
    if forward:
        first = {name: inputs[name] for name in ("x", "scale", "offset")}
        with pytest.raises(tf.errors.InvalidArgumentError, match=match):
            operations().cpc_norm_relu(**first, relu=True, epsilon=epsilon)


def test_wrong_shapes_dtypes_and_epsilons_are_invalid_arguments():
    for name, shape in HOSTILE:
        _refused(**{name: np.ones(shape, np.float32)}, forward=name in ("x", "scale", "offset"))
    for name, value in GOOD.items():
        for dtype in (tf.float64, tf.float16, tf.int32, tf.bfloat16):
            taken = name not in ("x", "scale", "offset") or (name, dtype) == ("x", tf.bfloat16)
            _refused(**{name: tf.cast(value, dtype)}, forward=not taken)
    for epsilon in (0.0, -1.0, float("nan")):
        _refused(epsilon=epsilon, match="epsilon", backward=False)


def test_wrong_shapes_are_refused_in_graphs():
    """When it is made if shapes are known, when it runs if not."""
    inputs = {**GOOD, "scale": np.ones([4], np.float32)}
    known = tf.function(lambda: operations().cpc_norm_relu_grad(**inputs, relu=True))
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
        known()
    unknown = [tf.TensorSpec(None, tf.float32)] * len(inputs)
    function = tf.function(
        lambda *x: operations().cpc_norm_relu_grad(*x, relu=True), input_signature=unknown
    )
    with pytest.raises(tf.errors.InvalidArgumentError):
        function(*inputs.values())


# The layers.


@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 2e-5), ("mixed_bfloat16", 0.1)])
@pytest.mark.parametrize(("kind", "axes"), [("layer", (1, 2, 3)), ("channel", (3,))])
def test_layer_norms_are_numpys(kind, axes, precision, tolerance):
    """With parameters and statistics in float32, and finite gradients where nothing varies."""
    layer, random = make_norm(kind, precision, "norm"), np.random.default_rng(0)
    layer.build([None, None, None, 6])
    layer.scale.assign(random.normal(1, 0.3, 6))
    layer.offset.assign(random.normal(0, 0.3, 6))
    x = random.normal(2, 3, [4, 16, 16, 6]).astype(np.float32)
    wanted = _oracle(x.astype(np.float64), layer.scale.numpy(), layer.offset.numpy(), axes=axes)
    assert layer.scale.dtype == tf.float32
    assert layer(x).dtype == layer.compute_dtype
    np.testing.assert_allclose(tf.cast(layer(x), tf.float32), wanted, atol=tolerance)
    constant = tf.fill([2, 3, 3, 6], 7.0)
    with tf.GradientTape() as tape:
        tape.watch(constant)
        y = layer(constant)
    assert np.isfinite(tape.gradient(y, constant)).all()
    np.testing.assert_allclose(tf.cast(y[0, 0, 0], tf.float32), layer.offset, atol=1e-2)


def test_batch_statistics_of_groups_are_numpys():
    layer, x = (
        make_norm("batch", "float32", "norm"),
        np.random.default_rng(0).normal(2, 3, [6, 2, 2, 5]),
    )
    with batch_statistics(groups=3):
        y = layer(x.astype(np.float32), training=True)
    groups = x.reshape(3, 8, 5)  # two images each, one after the other
    normal = (groups - groups.mean(1, keepdims=True)) / np.sqrt(
        groups.var(1, keepdims=True) + EPSILON
    )
    np.testing.assert_allclose(y, normal.reshape(x.shape), atol=1e-5)
    np.testing.assert_allclose(layer.moving_mean, 0.1 * groups.mean((0, 1)), rtol=1e-5)
    np.testing.assert_allclose(
        layer.moving_variance, 0.9 + 0.1 * groups.var(1, ddof=1).mean(0), rtol=1e-5
    )


def test_batch_norm_equals_keras_and_none_is_identity():
    x = tf.random.stateless_normal([2, 3, 3, 4], [0, 0], mean=2.0)
    ours = make_norm("batch", "float32", "norm")
    theirs = keras.layers.BatchNormalization(momentum=0.9, epsilon=EPSILON)
    for training in (True, False):
        np.testing.assert_allclose(
            ours(x, training=training), theirs(x, training=training), rtol=1e-6
        )
    np.testing.assert_array_equal(make_norm("none", "float32", "norm")(x), x)
