import numpy as np
import tensorflow as tf

from cpc_tf.detect.boxes import anchor_grid
from cpc_tf.detect.boxes import ANCHOR_WEIGHTS, encode
from cpc_tf.detect.rpn import RegionProposalNetwork, inside, propose

ANCHORS = anchor_grid(4, 6, 8, [8, 16], [1])  # of an image of 32x48
SIZES = tf.constant([[32, 48], [20, 30]])


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


def test_padding_is_not_inside():
    whole, part = inside(tf.constant(ANCHORS), SIZES).numpy()
    assert whole.all()
    centres = (ANCHORS[:, :2] + ANCHORS[:, 2:]) / 2
    np.testing.assert_array_equal(part, (centres[:, 0] < 20) & (centres[:, 1] < 30))


def test_proposals():
    boxes = np.array([[3, 5, 17, 22], [2, 24, 30, 47]], np.float32)
    deltas = np.zeros([2, len(ANCHORS), 4], np.float32)
    objectness = np.full([2, len(ANCHORS)], -5, np.float32)
    places = [16, 40]
    for place, box, logit in zip(places, boxes, (1, 2)):
        deltas[:, place] = encode(tf.constant(box), tf.constant(ANCHORS[place]), ANCHOR_WEIGHTS)
        objectness[:, place] = logit
    arguments = [tf.constant(x) for x in (objectness, deltas, ANCHORS)]
    proposals, valid = propose(*arguments, SIZES, candidates=2, count=5, iou_threshold=0.7)
    np.testing.assert_allclose(proposals[0, :2], boxes[::-1], atol=1e-4)
    np.testing.assert_array_equal(valid[0], [True, True, False, False, False])
    assert not np.any(proposals[0, 2:])
    # In the smaller image the anchor of the better box lies in the padding; another one comes instead.
    np.testing.assert_allclose(proposals[1, 0], boxes[0], atol=1e-4)
    many, valid = propose(*arguments, SIZES, candidates=100, count=30, iou_threshold=0.7)
    assert valid[0].numpy().sum() > valid[1].numpy().sum() > 2
    assert np.all(many >= 0)
    assert np.all(many <= tf.cast(tf.tile(SIZES, [1, 2]), tf.float32)[:, None])
