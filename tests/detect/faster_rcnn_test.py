"""The detector: its networks and ROIAlign against slow, plain answers, its losses and its
detections.
"""

import math

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.core.keras import keras
from cpc_tf.core.settings import replace
from cpc_tf.detect.boxes import anchor_grid
from cpc_tf.detect.config import HeadConfig
from cpc_tf.detect.faster_rcnn import RegionHead, RegionProposalNetwork, roi_align
from cpc_tf.detect.trainee import build_detector
from tests.detect.samples import (
    ORDINARY,
    SIDE,
    SMALL,
    batch,
    make_tiny,
    small_detector,
    training_step,
)

PARTS = ["rpn_class", "rpn_box", "region_class", "region_box"]


@pytest.fixture(scope="module")
def model():
    return small_detector()


@pytest.fixture(scope="module")
def step(model):
    """Traced once for all tests."""
    return training_step(model)


@pytest.mark.slow
def test_stride_and_channels_are_the_backbones(model):
    assert (model.stride, model.channels) == (8, 10)
    assert len(model.encoder_variables) == 4
    ours = {id(v) for v in model.encoder_variables + model.detector_variables}
    assert ours == {id(v) for v in model.trainable_variables}
    assert len(ours) == len(model.encoder_variables) + len(model.detector_variables)


@pytest.mark.slow
def test_losses(step):
    losses, gradients = step(*ORDINARY)
    assert set(losses) == {*PARTS, "loss"}
    assert losses["loss"].numpy() == pytest.approx(sum(losses[name].numpy() for name in PARTS))
    assert all(losses[name] > 0 for name in PARTS)
    assert all(np.any(gradient) for gradient in gradients), (
        "every variable is reached, those of the norm as well"
    )


GRID = [[y, x, y + 6, x + 6] for y in range(0, 60, 6) for x in range(0, 60, 6)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "image",
    [
        ([], []),
        ([[0, 0, SIDE, SIDE]], [1]),
        ([[0, 0, 9, 30], [50, 0, SIDE, 20], [40, 50, SIDE, SIDE]], [0, 1, 2]),
        (GRID, [i % 3 for i in range(100)]),
    ],
    ids=["no object", "as large as the image", "on the border", "100 objects"],
)
def test_extremes(step, image):
    losses, gradients = step(*batch(image, ([], [])))
    assert all(np.isfinite(loss) for loss in losses.values())
    assert all(np.all(np.isfinite(gradient)) for gradient in gradients)
    # Boxes are learned from where there are objects, and nowhere else.
    assert (losses["rpn_box"] > 0) == bool(image[0])
    assert (losses["region_box"] > 0) == bool(image[0])


@pytest.mark.slow
def test_compiled_inference_equals_uncompiled(model):
    """Of a detector that is sure. Scores of an untrained one are so close that rounding decides
    their order.
    """
    draw, weights = np.random.default_rng(1), model.get_weights()
    for variable in model.detector_variables:
        variable.assign(variable + draw.normal(0, 0.3, variable.shape))
    images = draw.random([2, SIDE, 2 * SIDE, 3]).astype(np.float32)
    sizes = tf.constant([[SIDE, 2 * SIDE], [40, 50]])
    detections = model(images, sizes)
    compiled = tf.function(model, jit_compile=True, autograph=False)(images, sizes)
    model.set_weights(weights)
    assert [x.shape for x in detections] == [(2, 12, 4), (2, 12), (2, 12), (2,)]
    assert detections.count.numpy().tolist() == [12, 12]
    assert np.all(np.diff(detections.scores) < -1e-4), "no two scores that rounding could exchange"
    for one, other in zip(detections, compiled):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-3)
    assert np.all(detections.boxes[1] <= [40, 50, 40, 50])


@pytest.mark.slow
def test_the_encoders_own_stack_is_the_head(monkeypatch):
    """Of a region that is the whole map, pooled cell by cell, it makes the encoder's own
    features.
    """
    make_tiny(monkeypatch)
    head = {"region_head": "encoder", "region_pool": 8, "region_reduce": 6, "region_points": 1}
    config = replace(
        SMALL, encoder="random", backbone_endpoint="stack1", backbone_norm="layer", **head
    )
    model = build_detector(config, 3)
    images = tf.random.stateless_uniform([2, 32, 32, 3], [1, 2])
    wanted = model.backbone.encoder(images)  # [2, D]
    pooled = model.backbone(images)  # [2, 8, 8, C]
    with tf.GradientTape() as tape:
        logits, _ = model.head(pooled, tf.tile([[[0.0, 0, 32, 32]]], [2, 1, 1]), model.stride)
    np.testing.assert_allclose(logits[:, 0], model.head.classes(wanted), rtol=1e-4, atol=1e-6)
    # the two last layers: the stack is the encoder's
    assert len(model.head.trainable_variables) == 4
    stack = model.backbone.encoder.stacks[-1][0]
    assert all(np.any(gradient) for gradient in tape.gradient(logits, stack.trainable_variables))


ANCHORS = anchor_grid(4, 6, 8, [8, 16], [1])  # of an image of 32x48
FEATURES = tf.constant(np.random.default_rng(0).normal(size=[2, 6, 8, 10]), tf.float32)
BOXES = tf.constant(
    [
        [[0.0, 0, 48, 64], [4, 4, 20, 30], [0, 0, 0, 0]],
        [[30, 2, 47, 33], [9, 9, 10, 10], [5, 0, 40, 9]],
    ]
)
TINY = {
    "region_pool": 4,
    "region_blocks": 2,
    "region_width": 8,
    "region_bottleneck": 4,
    "region_reduce": 0,
}


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
def test_every_kind_of_region_head(dtype, changes):
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
    # Far from the corner bfloat16 knows only every second pixel: the two boxes would become the
    # same.
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
    np.testing.assert_allclose(
        deltas[0], 15.0 * near[:, None] + 400.0 * second[:, None] + 100.0 * np.arange(4)
    )


def test_bfloat16_inside_float32_outside():
    rpn = RegionProposalNetwork(width=5, anchors=2, dtype="mixed_bfloat16")
    assert [x.dtype for x in rpn(tf.ones([1, 4, 6, 3]))] == [tf.float32, tf.float32]
    assert rpn.conv.compute_dtype == "bfloat16"
    assert {v.dtype for v in rpn.trainable_variables} == {tf.float32}


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


ROI_BOXES = tf.constant(
    [
        [[0, 0, 48, 80], [5.5, 3.2, 17, 61], [0, 30, 10, 31], [47, 79, 48, 80]],
        [[20, 20, 20.5, 20.5], [20, 40, 30, 40], [10, 50, 40, 20], [-60, -10, 30, 200]],
    ]
)
# stride 8
ROI_FEATURES = tf.constant(np.random.default_rng(0).normal(size=[2, 6, 10, 3]), tf.float32)


def test_roi_align_of_a_ramp():
    image = tf.reshape(tf.range(25.0), [1, 5, 5, 1])
    pooled = roi_align(image, tf.constant([[[1.0, 1, 3, 3]]]), 1, 4, 2)
    wanted = np.array([4.5, 7, 9.5, 12])[:, None] + 0.5 * np.arange(4)
    np.testing.assert_allclose(pooled[0, 0, ..., 0], wanted, atol=1e-5)


@pytest.mark.parametrize(("size", "points", "chunk"), [(3, 2, 0), (4, 1, 3), (2, 3, 100)])
def test_roi_align_equals_its_definition(size, points, chunk):
    pooled = roi_align(ROI_FEATURES, ROI_BOXES, 8, size, points, chunk)
    for i, k in np.ndindex(2, 4):
        wanted = oracle(ROI_FEATURES[i].numpy(), ROI_BOXES[i, k].numpy(), 8, size, points)
        np.testing.assert_allclose(pooled[i, k], wanted, atol=2e-5)


@pytest.mark.slow
def test_roi_align_gradient_is_adjoint_for_any_batch():
    upstream, other = (
        tf.random.stateless_normal([2, 4, 3, 3, 3], [1, 2]),
        tf.random.stateless_normal([2, 6, 10, 3], [3, 4]),
    )

    @tf.function(
        jit_compile=True,
        input_signature=[tf.TensorSpec([None, 6, 10, 3]), tf.TensorSpec([None, 4, 4])],
    )
    def pool(features, boxes):
        with tf.GradientTape() as tape:
            tape.watch([features, boxes])
            pooled = roi_align(features, boxes, 8, 3, 2, 3)
            value = tf.reduce_sum(pooled * upstream)
        gradient, none = tape.gradient(value, [features, boxes])
        assert none is None, "no gradient reaches the boxes"
        assert pooled.shape.as_list() == [None, 4, 3, 3, 3]
        return value, gradient

    _, gradient = pool(ROI_FEATURES, ROI_BOXES)
    value, _ = pool(other, ROI_BOXES)
    # ROIAlign is linear, so value = <upstream, A other> = <A' upstream, other> for any `other`.
    np.testing.assert_allclose(np.sum(gradient * other), value, rtol=1e-4)


def test_roi_align_in_bfloat16_differs_by_rounding_only():
    exact = roi_align(ROI_FEATURES, ROI_BOXES, 8, 3)
    features = tf.cast(ROI_FEATURES, tf.bfloat16)
    with tf.GradientTape() as tape:
        tape.watch(features)
        rough = roi_align(features, ROI_BOXES, 8, 3, chunk=2)
        value = tf.reduce_sum(tf.cast(rough, tf.float32))
    assert rough.dtype == tape.gradient(value, features).dtype == tf.bfloat16
    np.testing.assert_allclose(tf.cast(rough, tf.float32), exact, atol=0.05)
