"""ROIAlign against its definition, point by point, and its gradient against the adjoint."""

import math

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.detect.faster_rcnn import roi_align


def oracle(features, box, stride, size, points):
    """One box by the definition, point by point: features [H, W, C] -> [size, size, C]."""
    height, width, channels = features.shape

    def bilinear(y, x):
        if not (-1 <= y <= height and -1 <= x <= width):
            return np.zeros(channels)
        y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
        y0, x0 = min(math.floor(y), height - 2), min(math.floor(x), width - 2)
        fy, fx = y - y0, x - x0
        top = (1 - fx) * features[y0, x0] + fx * features[y0, x0 + 1]
        bottom = (1 - fx) * features[y0 + 1, x0] + fx * features[y0 + 1, x0 + 1]
        return (1 - fy) * top + fy * bottom

    y1, x1, y2, x2 = (v / stride - 0.5 for v in box)
    pooled = np.zeros([size, size, channels])
    if y2 <= y1 or x2 <= x1:
        return pooled
    for i, j in np.ndindex(size, size):
        for a, b in np.ndindex(points, points):
            y = y1 + (y2 - y1) / size * (i + (a + 0.5) / points)
            x = x1 + (x2 - x1) / size * (j + (b + 0.5) / points)
            pooled[i, j] += bilinear(y, x) / points**2
    return pooled


BOXES = tf.constant(
    [
        [[0, 0, 48, 80], [5.5, 3.2, 17, 61], [0, 30, 10, 31], [47, 79, 48, 80]],
        [[20, 20, 20.5, 20.5], [20, 40, 30, 40], [10, 50, 40, 20], [-60, -10, 30, 200]],
    ]
)
FEATURES = tf.constant(np.random.default_rng(0).normal(size=[2, 6, 10, 3]), tf.float32)  # stride 8


def test_known():
    image = tf.reshape(tf.range(25.0), [1, 5, 5, 1])
    pooled = roi_align(image, tf.constant([[[1.0, 1, 3, 3]]]), 1, 4, 2)
    wanted = np.array([4.5, 7, 9.5, 12])[:, None] + 0.5 * np.arange(4)
    np.testing.assert_allclose(pooled[0, 0, ..., 0], wanted, atol=1e-5)


@pytest.mark.parametrize(("size", "points", "chunk"), [(3, 2, 0), (4, 1, 3), (2, 3, 100)])
def test_equals_the_definition(size, points, chunk):
    pooled = roi_align(FEATURES, BOXES, 8, size, points, chunk)
    for i, k in np.ndindex(2, 4):
        wanted = oracle(FEATURES[i].numpy(), BOXES[i, k].numpy(), 8, size, points)
        np.testing.assert_allclose(pooled[i, k], wanted, atol=2e-5)


@pytest.mark.slow
def test_gradient_is_the_adjoint_and_compiles_for_any_batch():
    upstream, other = (
        tf.random.stateless_normal([2, 4, 3, 3, 3], [1, 2]),
        tf.random.stateless_normal([2, 6, 10, 3], [3, 4]),
    )

    @tf.function(jit_compile=True, input_signature=[tf.TensorSpec([None, 6, 10, 3]), tf.TensorSpec([None, 4, 4])])
    def pool(features, boxes):
        with tf.GradientTape() as tape:
            tape.watch([features, boxes])
            pooled = roi_align(features, boxes, 8, 3, 2, 3)
            value = tf.reduce_sum(pooled * upstream)
        gradient, none = tape.gradient(value, [features, boxes])
        assert none is None, "no gradient reaches the boxes"
        assert pooled.shape.as_list() == [None, 4, 3, 3, 3]
        return value, gradient

    _, gradient = pool(FEATURES, BOXES)
    value, _ = pool(other, BOXES)
    # ROIAlign is linear, so value = <upstream, A other> = <A' upstream, other> for any `other`.
    np.testing.assert_allclose(np.sum(gradient * other), value, rtol=1e-4)


def test_bfloat16_differs_only_by_its_rounding():
    exact = roi_align(FEATURES, BOXES, 8, 3)
    features = tf.cast(FEATURES, tf.bfloat16)
    with tf.GradientTape() as tape:
        tape.watch(features)
        rough = roi_align(features, BOXES, 8, 3, chunk=2)
        value = tf.reduce_sum(tf.cast(rough, tf.float32))
    assert rough.dtype == tape.gradient(value, features).dtype == tf.bfloat16
    np.testing.assert_allclose(tf.cast(rough, tf.float32), exact, atol=0.05)
