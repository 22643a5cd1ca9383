"""Boxes and anchors against known answers."""

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.detect import boxes as bx
from tests.detect.samples import random_boxes

UNIT = [[0.0, 0, 1, 1]]


def test_iou_known():
    others = [[0, 0, 1, 1], [0, 0, 0.5, 1], [0, 0, 1, 0.5], [0, 0, 0.5, 0.5], [0.5, 0.5, 1, 1], [0.5, 0.5, 1.5, 1.5]]
    wanted = [[1, 0.5, 0.5, 0.25, 0.25, 0.25 / 1.75]]
    np.testing.assert_allclose(bx.iou(tf.constant(UNIT), tf.constant(others)), wanted, rtol=1e-6)


@pytest.mark.parametrize("degenerate", [[0, 0, 0, 0], [0.5, 0, 0.5, 1], [1, 1, 0, 0], [5, 5, 6, 6]])
def test_iou_of_nothing_is_0(degenerate):
    other = tf.constant([degenerate], tf.float32)
    assert bx.iou(tf.constant(UNIT), other).numpy() == 0
    proper = degenerate == [5, 5, 6, 6]
    assert bx.area(other).numpy() == proper
    assert bx.iou(other, other).numpy() == proper


def test_coding_known():
    anchor, box = tf.constant([0.0, 0, 10, 20]), tf.constant([2.0, 4, 14, 20])
    deltas = bx.encode(box, anchor, (10.0, 10.0, 5.0, 5.0))
    np.testing.assert_allclose(deltas, [3, 1, 0.911608, -1.115718], atol=1e-6)
    np.testing.assert_allclose(bx.encode(box, anchor), deltas)
    np.testing.assert_allclose(bx.encode(box, anchor, bx.ANCHOR_WEIGHTS), deltas / [10, 10, 5, 5], atol=1e-6)


@pytest.mark.parametrize("weights", [bx.ANCHOR_WEIGHTS, bx.REGION_WEIGHTS])
def test_coding_round_trip(weights):
    boxes, anchors = random_boxes(50), random_boxes(50, seed=1)
    deltas = bx.encode(tf.constant(boxes), tf.constant(anchors), weights)
    np.testing.assert_allclose(bx.decode(deltas, tf.constant(anchors), weights), boxes, atol=1e-3)


def test_coding_without_area_is_0():
    box, empty = tf.constant([2.0, 4, 14, 20]), tf.constant([3.0, 3, 3, 9])
    assert not np.any(bx.encode(box, empty))
    assert not np.any(bx.encode(empty, box))
    with tf.GradientTape() as tape:
        tape.watch(empty)
        deltas = bx.encode(box, empty)
    assert np.all(np.isfinite(tape.gradient(deltas, empty)))
    decoded = bx.decode(tf.constant([1.0, 1, 1, 1]), empty)
    assert np.all(np.isfinite(decoded))
    assert bx.area(decoded) == 0


def test_decoding_is_bounded():
    anchor = tf.constant([0.0, 0, 16, 16])
    box = bx.decode(tf.constant([0.0, 0, 1e6, -1e6]), anchor, bx.ANCHOR_WEIGHTS)
    np.testing.assert_allclose(box, [8 - 500, 8, 8 + 500, 8])


def test_clip_to_each_image():
    boxes = tf.constant([[[-5.0, -5, 50, 60], [10, 10, 20, 20]]] * 2)
    clipped = bx.clip(boxes, tf.constant([[40, 30], [15, 100]]))
    wanted = [[[0, 0, 40, 30], [10, 10, 20, 20]], [[0, 0, 15, 60], [10, 10, 15, 20]]]
    np.testing.assert_array_equal(clipped, wanted)


def test_anchors_known():
    anchors = bx.anchor_grid(1, 2, 4, [32, 64], [0.25, 1, 4])[:, [1, 0, 3, 2]]
    wanted = [
        [-30, -6, 34, 10],
        [-14, -14, 18, 18],
        [-6, -30, 10, 34],
        [-62, -14, 66, 18],
        [-30, -30, 34, 34],
        [-14, -62, 18, 66],
    ]
    np.testing.assert_allclose(anchors[:6], wanted, atol=1e-5)
    np.testing.assert_allclose(anchors[-1], [-10, -62, 22, 66], atol=1e-5)


def test_each_cell_has_all_anchors_at_its_centre():
    sizes, ratios = [8, 16, 24, 32], [0.5, 1, 3]
    anchors = bx.anchor_grid(3, 5, 16, sizes, ratios)
    assert anchors.shape == (3 * 5 * 12, 4)
    assert anchors.dtype == np.float32
    cells = anchors.reshape(3, 5, 12, 4)
    centres = (cells[..., :2] + cells[..., 2:]) / 2
    np.testing.assert_allclose(centres[2, 4], [[40, 72]] * 12, atol=1e-5)
    height, width = np.moveaxis(cells[..., 2:] - cells[..., :2], -1, 0)
    np.testing.assert_allclose((height * width)[1, 1], np.repeat(np.square(sizes), 3), rtol=1e-5)
    np.testing.assert_allclose((height / width)[0, 3], ratios * 4, rtol=1e-5)
