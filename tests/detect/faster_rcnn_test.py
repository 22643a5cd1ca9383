"""The detector: losses, extremes, bfloat16. run_test.py shows that it learns."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.detect.faster_rcnn import FasterRCNN
from cpc_tf.detect.trainee import build_detector
from cpc_tf.keras import keras
from cpc_tf.settings import ConfigError, replace
from tests.detect.samples import DRAWS, ORDINARY, SIDE, SMALL, TINY, batch, training_step

PARTS = ["rpn_class", "rpn_box", "region_class", "region_box"]

pytestmark = pytest.mark.slow


class Backbone(keras.layers.Layer):
    """Stride 8, in two convolutions."""

    def __init__(self):
        super().__init__(name="backbone")
        self.convs = [
            keras.layers.Conv2D(12, 4, 4, activation="relu"),
            keras.layers.Conv2D(10, 3, 2, "same", activation="relu"),
        ]

    def call(self, images, training=False):
        return self.convs[1](self.convs[0](images))


def make(config=TINY, **kwargs):
    keras.utils.set_random_seed(1)
    return FasterRCNN(Backbone(), 3, config, **kwargs)


@pytest.fixture(scope="module")
def model():
    return make()


@pytest.fixture(scope="module")
def step(model):
    """Traced once for all tests."""
    return training_step(model)


GRID = [[y, x, y + 6, x + 6] for y in range(0, 60, 6) for x in range(0, 60, 6)]


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
    assert all(losses[name] > 0 and losses[name].dtype == tf.float32 for name in PARTS)
    assert all(np.any(gradient) for gradient in gradients), "every variable is reached"


def test_compiled_inference_equals_uncompiled():
    """Of a detector that is sure. Scores of an untrained one are so close that rounding decides their order."""
    model, draw = make(), np.random.default_rng(0)
    for variable in model.detector_variables:
        variable.assign(variable + draw.normal(0, 0.3, variable.shape))
    images = tf.constant(np.random.default_rng(0).uniform(size=[2, SIDE, 2 * SIDE, 3]), tf.float32)
    sizes = tf.constant([[SIDE, 2 * SIDE], [40, 50]])
    detections = model(images, sizes)
    compiled = tf.function(model, jit_compile=True, autograph=False)(images, sizes)
    assert [x.shape for x in detections] == [(2, 12, 4), (2, 12), (2, 12), (2,)]
    assert detections.count.numpy().tolist() == [12, 12]
    assert np.all(np.diff(detections.scores) < -1e-4), "no two scores that rounding could exchange"
    for one, other in zip(detections, compiled):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-3)
    assert np.all(detections.boxes[1] <= [40, 50, 40, 50])


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


def test_bfloat16_computes_losses_in_float32():
    exact = make()
    rough = make(precision="bfloat16")
    for theirs, ours in zip(exact.variables, rough.variables):
        ours.assign(theirs)
    assert rough.head.compute_dtype == rough.rpn.conv.compute_dtype == "bfloat16"
    wanted, losses = exact.training_losses(*ORDINARY, DRAWS), rough.training_losses(*ORDINARY, DRAWS)
    for name, loss in losses.items():
        assert loss.dtype == tf.float32
        assert loss.numpy() == pytest.approx(wanted[name].numpy(), rel=0.1)


def test_normalized_backbone():
    config = dataclasses.replace(TINY, backbone=dataclasses.replace(TINY.backbone, backbone_norm="layer"))
    model = make(config)
    losses = model.training_losses(*ORDINARY, DRAWS)
    model.norm.scale.assign(0 * model.norm.scale)
    assert model.training_losses(*ORDINARY, DRAWS)["loss"] != losses["loss"]
    assert len(model.detector_variables) == len(make().detector_variables) + 2


def test_the_encoders_own_stack_is_the_head():
    """Of a region that is the whole map, pooled cell by cell, it makes the encoder's own features."""
    head = {"region_head": "encoder", "region_pool": 8, "region_points": 1, "region_reduce": 6}
    config = replace(SMALL, encoder="random", backbone_endpoint="stack2", backbone_norm="layer", **head)
    model = build_detector(config, 3)
    images = tf.random.stateless_uniform([2, 32, 32, 3], [1, 2])
    wanted = model.backbone.encoder(images)  # [2, D]
    pooled = model.backbone(images)  # [2, 8, 8, C]
    logits, _ = model.head(pooled, tf.tile([[[0.0, 0, 32, 32]]], [2, 1, 1]), model.stride)
    np.testing.assert_allclose(logits[:, 0], model.head.classes(wanted), rtol=1e-4, atol=1e-6)
    assert len(model.head.trainable_variables) == 4  # the two last layers: the stack is the encoder's
    losses, gradients = training_step(model)(*ORDINARY)
    assert np.isfinite(losses["loss"])
    of = {id(v): gradient for v, gradient in zip(model.trainable_variables, gradients)}
    assert all(np.any(of[id(v)]) for v in model.backbone.encoder.stacks[-1][0].trainable_variables)


@pytest.mark.parametrize("endpoint", ["feature_map", "stack3"])
def test_a_head_of_nothing_is_refused(endpoint):
    config = replace(SMALL, region_head="encoder", backbone_endpoint=endpoint)
    with pytest.raises(
        ConfigError, match=f"nothing is known to follow --backbone_endpoint={endpoint} in --encoder=random"
    ):
        build_detector(config, 3)


@pytest.mark.parametrize("shape", [(60, 64), (64, 100)])
def test_canvas_must_fit_the_stride(model, shape):
    with pytest.raises(ValueError, match=f"{shape[0]}x{shape[1]} px: both must be multiples of the stride, 8"):
        model(tf.zeros([1, *shape, 3]), tf.constant([[60, 60]]))


def test_backbone_must_give_a_feature_map():
    with pytest.raises(ValueError, match="not a feature map"):
        FasterRCNN(lambda images, training: tf.reduce_mean(images, [1, 2]), 3, TINY)
