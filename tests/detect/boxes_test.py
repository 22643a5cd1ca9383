"""Boxes and anchors against known answers."""

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.detect import boxes as bx
from tests.detect.samples import random_boxes

UNIT = tf.constant([[0.0, 0, 1, 1]])
BOX, ANCHOR, EMPTY = (tf.constant(box, tf.float32) for box in ([2, 4, 14, 20], [0, 0, 10, 20], [3, 3, 3, 9]))


def test_iou_known():
    others = [[0, 0, 1, 1], [0, 0, 0.5, 1], [0, 0, 1, 0.5], [0, 0, 0.5, 0.5], [0.5, 0.5, 1, 1], [0.5, 0.5, 1.5, 1.5]]
    wanted = [[1, 0.5, 0.5, 0.25, 0.25, 0.25 / 1.75]]
    np.testing.assert_allclose(bx.iou(UNIT, tf.constant(others)), wanted, rtol=1e-6)


def test_iou_of_nothing_is_0():
    others = tf.constant([[0, 0, 0, 0], [0.5, 0, 0.5, 1], [1, 1, 0, 0], [5, 5, 6, 6]], tf.float32)
    assert not np.any(bx.iou(UNIT, others))
    np.testing.assert_array_equal(bx.area(others), [0, 0, 0, 1])
    np.testing.assert_array_equal(np.diag(bx.iou(others, others)), [0, 0, 0, 1])


def test_coding_known():
    deltas = bx.encode(BOX, ANCHOR)
    np.testing.assert_allclose(deltas, [3, 1, 0.911608, -1.115718], atol=1e-6)
    np.testing.assert_allclose(bx.encode(BOX, ANCHOR, bx.ANCHOR_WEIGHTS), deltas / [10, 10, 5, 5], atol=1e-6)


@pytest.mark.parametrize("weights", [bx.ANCHOR_WEIGHTS, bx.REGION_WEIGHTS])
def test_coding_round_trip(weights):
    boxes, anchors = random_boxes(50), random_boxes(50, seed=1)
    deltas = bx.encode(tf.constant(boxes), tf.constant(anchors), weights)
    np.testing.assert_allclose(bx.decode(deltas, tf.constant(anchors), weights), boxes, atol=1e-3)


def test_coding_without_area_is_0():
    assert not np.any(bx.encode(BOX, EMPTY))
    assert not np.any(bx.encode(EMPTY, BOX))
    with tf.GradientTape() as tape:
        tape.watch(EMPTY)
        deltas = bx.encode(BOX, EMPTY)
    assert np.all(np.isfinite(tape.gradient(deltas, EMPTY)))
    decoded = bx.decode(tf.constant([1.0, 1, 1, 1]), EMPTY)
    assert np.all(np.isfinite(decoded))
    assert bx.area(decoded) == 0


def test_decoding_is_bounded():
    box = bx.decode(tf.constant([0.0, 0, 1e6, -1e6]), tf.constant([0.0, 0, 16, 16]), bx.ANCHOR_WEIGHTS)
    np.testing.assert_allclose(box, [8 - 500, 8, 8 + 500, 8])


def test_clip_to_each_image():
    boxes = tf.constant([[[-5.0, -5, 50, 60], [10, 10, 20, 20]]] * 2)
    wanted = [[[0, 0, 40, 30], [10, 10, 20, 20]], [[0, 0, 15, 60], [10, 10, 15, 20]]]
    np.testing.assert_array_equal(bx.clip(boxes, tf.constant([[40, 30], [15, 100]])), wanted)


def test_anchors_known():
    anchors = bx.anchor_grid(1, 2, 4, [32, 64], [0.25, 1, 4])
    first = [[-6, -30, 10, 34], [-14, -14, 18, 18], [-30, -6, 34, 10]]
    second = [[-14, -62, 18, 66], [-30, -30, 34, 34], [-62, -14, 66, 18]]
    np.testing.assert_allclose(anchors[:6], first + second, atol=1e-5)
    np.testing.assert_allclose(anchors[-1], [-62, -10, 66, 22], atol=1e-5)
