"""The region proposal network and the region head: order of outputs, dtypes, every kind of head."""

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.detect.boxes import anchor_grid
from cpc_tf.detect.config import HeadConfig
from cpc_tf.detect.faster_rcnn import RegionHead, RegionProposalNetwork
from cpc_tf.keras import keras

ANCHORS = anchor_grid(4, 6, 8, [8, 16], [1])  # of an image of 32x48
FEATURES = tf.constant(np.random.default_rng(0).normal(size=[2, 6, 8, 10]), tf.float32)
BOXES = tf.constant(
    [[[0.0, 0, 48, 64], [4, 4, 20, 30], [0, 0, 0, 0]], [[30, 2, 47, 33], [9, 9, 10, 10], [5, 0, 40, 9]]]
)
TINY = {"region_pool": 4, "region_blocks": 2, "region_width": 8, "region_bottleneck": 4, "region_reduce": 0}


def make(dtype="float32", **changes):
    head = RegionHead(3, 10, HeadConfig(**{**TINY, **changes}), dtype)
    head(FEATURES, BOXES, 8)
    return head


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "changes"),
    [
        ("mixed_bfloat16", {}),
        ("mixed_bfloat16", {"region_norm": "batch"}),
        ("float32", {"region_norm": "channel", "region_stride": 1, "region_reduce": 5}),
        ("float32", {"region_norm": "none", "region_blocks": 0}),
        ("mixed_bfloat16", {"region_head": "mlp"}),
    ],
)
def test_every_kind(dtype, changes):
    head = make(dtype, **changes)
    with tf.GradientTape() as tape:
        tape.watch(FEATURES)
        logits, deltas = head(FEATURES, BOXES, 8, training=True)
        value = tf.reduce_sum(tf.square(logits)) + tf.reduce_sum(tf.square(deltas))
    assert logits.shape == (2, 3, 4)
    assert deltas.shape == (2, 3, 3, 4)
    assert logits.dtype == deltas.dtype == tf.float32
    gradients = tape.gradient(value, [FEATURES, *head.trainable_variables])
    assert all(np.all(np.isfinite(g)) for g in gradients)
    assert np.any(gradients[0])
    assert (head.reduce is not None) == ("region_reduce" in changes)


@pytest.mark.slow
def test_regions_do_not_see_each_other():
    head = make()
    for one, other in zip(head(FEATURES, BOXES, 8), head(FEATURES, BOXES[:, 1:2], 8)):
        np.testing.assert_allclose(one[:, 1], other[:, 0], atol=1e-5)


@pytest.mark.slow
def test_boxes_stay_float32():
    keras.utils.set_random_seed(0)  # some draws make the outputs alike
    # Far from the corner bfloat16 knows only every second pixel: the two boxes would become the same.
    features = tf.constant(np.random.default_rng(0).normal(size=[1, 64, 64, 10]), tf.float32)
    boxes = tf.constant([[[500.0, 500, 504, 504], [501, 501, 505, 505]]])
    one, other = make("mixed_bfloat16")(features, boxes, 8)[0][0]
    assert np.any(np.abs(one - other) > 1e-3)


def test_outputs_stand_in_the_order_of_the_anchors():
    rpn = RegionProposalNetwork(width=5, anchors=2)
    features = np.zeros([1, 4, 6, 3], np.float32)
    features[0, 2, 3] = 1
    rpn(features)
    for layer in (rpn.conv, rpn.objectness, rpn.deltas):
        layer.kernel.assign(tf.ones_like(layer.kernel))
    rpn.objectness.bias.assign([0, 100])
    rpn.deltas.bias.assign(tf.range(8.0) * 100)
    objectness, deltas = rpn(features)
    assert objectness.shape == (1, len(ANCHORS))
    assert deltas.shape == (1, len(ANCHORS), 4)
    # The 3x3 convolution sees the cell from its neighbours: the 9 cells around (2, 3).
    centres = (ANCHORS[:, :2] + ANCHORS[:, 2:]) / 2
    near = np.all(np.abs(centres - [20, 28]) <= 8, 1)
    second = np.arange(len(ANCHORS)) % 2
    np.testing.assert_allclose(objectness[0], 15.0 * near + 100.0 * second)
    np.testing.assert_allclose(deltas[0], 15.0 * near[:, None] + 400.0 * second[:, None] + 100.0 * np.arange(4))


def test_bfloat16_inside_float32_outside():
    rpn = RegionProposalNetwork(width=5, anchors=2, dtype="mixed_bfloat16")
    assert [x.dtype for x in rpn(tf.ones([1, 4, 6, 3]))] == [tf.float32, tf.float32]
    assert rpn.conv.compute_dtype == "bfloat16"
    assert {v.dtype for v in rpn.trainable_variables} == {tf.float32}
