"""The detector: losses, extremes, inference. run_test.py shows that it learns, tests/training/contract_test.py that its
step compiles, and has the same answer in parts and on replicas."""

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.detect.config import HeadConfig
from cpc_tf.detect.trainee import build_detector
from cpc_tf.settings import replace
from tests.detect.samples import ORDINARY, SIDE, SMALL, batch, make_tiny, small_detector, training_step

PARTS = ["rpn_class", "rpn_box", "region_class", "region_box"]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model():
    return small_detector()


@pytest.fixture(scope="module")
def step(model):
    """Traced once for all tests."""
    return training_step(model)


def test_stride_and_channels_are_the_backbones(model):
    assert (model.stride, model.channels) == (8, 10)
    assert len(model.encoder_variables) == 4
    ours = {id(v) for v in model.encoder_variables + model.detector_variables}
    assert ours == {id(v) for v in model.trainable_variables}
    assert len(ours) == len(model.encoder_variables) + len(model.detector_variables)


def test_losses(step):
    losses, gradients = step(*ORDINARY)
    assert set(losses) == {*PARTS, "loss"}
    assert losses["loss"].numpy() == pytest.approx(sum(losses[name].numpy() for name in PARTS))
    assert all(losses[name] > 0 for name in PARTS)
    assert all(np.any(gradient) for gradient in gradients), "every variable is reached, those of the norm as well"


GRID = [[y, x, y + 6, x + 6] for y in range(0, 60, 6) for x in range(0, 60, 6)]


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


def test_compiled_inference_equals_uncompiled(model):
    """Of a detector that is sure. Scores of an untrained one are so close that rounding decides their order."""
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


def test_the_encoders_own_stack_is_the_head(monkeypatch):
    """Of a region that is the whole map, pooled cell by cell, it makes the encoder's own features."""
    make_tiny(monkeypatch)
    monkeypatch.setattr(HeadConfig, "region_points", 1)
    head = {"region_head": "encoder", "region_pool": 8, "region_reduce": 6}
    config = replace(SMALL, encoder="random", backbone_endpoint="stack1", backbone_norm="layer", **head)
    model = build_detector(config, 3)
    images = tf.random.stateless_uniform([2, 32, 32, 3], [1, 2])
    wanted = model.backbone.encoder(images)  # [2, D]
    pooled = model.backbone(images)  # [2, 8, 8, C]
    with tf.GradientTape() as tape:
        logits, _ = model.head(pooled, tf.tile([[[0.0, 0, 32, 32]]], [2, 1, 1]), model.stride)
    np.testing.assert_allclose(logits[:, 0], model.head.classes(wanted), rtol=1e-4, atol=1e-6)
    assert len(model.head.trainable_variables) == 4  # the two last layers: the stack is the encoder's
    stack = model.backbone.encoder.stacks[-1][0]
    assert all(np.any(gradient) for gradient in tape.gradient(logits, stack.trainable_variables))
