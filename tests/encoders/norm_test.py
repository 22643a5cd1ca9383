"""Layer norm, plain and native: numpy's and TensorFlow's answers, whatever the threads; the other kinds of norms."""

import os

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf import native
from cpc_tf.encoders.norm import EPSILON, make_norm, normalize
from cpc_tf.encoders.operations import operations
from cpc_tf.keras import keras
from tests import processes

SHAPES = [(3, 16, 8), (5, 1, 256), (2, 9, 33), (1, 1, 1), (130, 4, 5), (7, 6, 64), (70, 64, 16), (9, 12, 3), (0, 4, 8)]


def _inputs(shape, mean=0.5, dtype=tf.float32, seed=0):
    """x, scale, offset and what comes from above."""
    random = np.random.default_rng(seed)
    x, upstream = random.normal(mean, 1, shape), random.normal(0, 1, shape)
    scale, offset = random.normal(1, 0.3, shape[-1]), random.normal(0, 0.3, shape[-1])
    return [tf.cast(x, dtype), *(tf.cast(v, tf.float32) for v in (scale, offset)), tf.cast(upstream, dtype)]


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
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * max(1, abs(other).max(initial=0)))


@pytest.mark.parametrize("shape", SHAPES)
def test_native_is_plain(shape):
    for relu in (False, True):
        _close(_run(_inputs(shape), relu, True), _run(_inputs(shape), relu, False), 1e-5)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("shape", [(3, 16, 8), (40, 6, 64)])
def test_bfloat16_is_float32_rounded(shape, relu):
    inputs = _inputs(shape, dtype=tf.bfloat16)
    got, exact = _run(inputs, relu, True), _run([tf.cast(v, tf.float32) for v in inputs], relu, True)
    for one, other in zip(got[:2], exact[:2]):  # y and d_x
        np.testing.assert_array_equal(*(tf.cast(v, tf.float32) for v in (one, tf.cast(other, tf.bfloat16))))
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
    # A mean in float32 is half a unit in the last place off, as x is: 3e-5 at 1000, here in 256 terms of a sum.
    np.testing.assert_allclose(y, _oracle(x, scale, offset, False), atol=5e-5)
    np.testing.assert_allclose(d_scale, (_oracle(x, 1, 0, False) * upstream).sum((0, 1)), atol=2e-3)


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
def test_nan_and_infinity_stay_visible_and_in_their_example(dtype):
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
    for a, b in zip(np.load(tmp_path / "other.npz").values(), _run(_inputs((3001, 16, 24)), True, True)):
        np.testing.assert_array_equal(a, b)


def test_an_example_does_not_depend_on_the_others():
    inputs = _inputs((131, 3, 20))
    together = _run(inputs, True, True)
    x, scale, offset, upstream = inputs
    for n in (0, 64, 130):
        alone = _run([x[n : n + 1], scale, offset, upstream[n : n + 1]], True, True)
        np.testing.assert_array_equal([v[0] for v in alone[:2]], [v[n] for v in together[:2]])


GOOD = {name: np.ones(shape, np.float32) for name, shape in (
    ("x", [3, 4, 5]), ("scale", [5]), ("offset", [5]), ("mean", [3]), ("inverse", [3]), ("upstream", [3, 4, 5]),
)}  # fmt: skip
HOSTILE = [
    ("x", [4, 5]), ("x", [3, 4, 5, 1]), ("x", [3, 0, 5]), ("x", [3, 4, 0]), ("scale", [4]), ("scale", [5, 1]),
    ("offset", [6]), ("mean", [2]), ("inverse", [3, 1, 1]), ("upstream", [3, 5, 4]), ("upstream", [60]),
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
    function = tf.function(lambda *x: operations().cpc_norm_relu_grad(*x, relu=True), input_signature=unknown)
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


def test_batch_norm_is_that_of_keras_and_none_changes_nothing():
    x = tf.random.stateless_normal([2, 3, 3, 4], [0, 0], mean=2.0)
    ours = make_norm("batch", "float32", "norm")
    theirs = keras.layers.BatchNormalization(momentum=0.9, epsilon=EPSILON)
    for training in (True, False):
        np.testing.assert_allclose(ours(x, training=training), theirs(x, training=training), rtol=1e-6)
    np.testing.assert_array_equal(make_norm("none", "float32", "norm")(x), x)
