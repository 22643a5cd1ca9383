"""The classifier of appendix C, and the steps of its training in each phase."""

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.core.keras import keras
from cpc_tf.core.settings import replace
from cpc_tf.efficient.classifier import (
    FINE_TUNED,
    FROZEN,
    SUPERVISED,
    Classification,
    ResNetClassifier,
    build_classifier,
)
from cpc_tf.efficient.config import ClassifierConfig, EfficientConfig
from cpc_tf.efficient.phases import first_phase, load_encoder
from cpc_tf.encoders.layers import BatchNorm, LayerNorm, NoNorm
from cpc_tf.encoders.load import load_feature_maps
from cpc_tf.training.strategy import make_strategy
from cpc_tf.training.trainee import BatchPosition

pytestmark = pytest.mark.slow


def test_the_papers_classifier_has_the_papers_size():
    """Beside the 303 M of the encoder, which tests/encoders/networks/resnet_test.py counts: more
    than 500 M.
    """
    classifier = ResNetClassifier(1000, ClassifierConfig(head_blocks=11, head_width=4096))
    with tf.Graph().as_default():  # makes the variables without computing, or keeping, anything
        classifier(keras.backend.placeholder([1, 14, 14, 4096]))
    count = sum(np.prod(v.shape) for v in classifier.trainable_variables)
    # 11 blocks of 1x1 (4096 x 1024), 3x3 (1024 x 1024) and 1x1 (1024 x 4096), by hand.
    blocks = 11 * (2 * 4096 * 1024 + 9 * 1024 * 1024)
    assert blocks / 1e6 == pytest.approx(196, abs=0.5)
    rest = 4096 * 4096 + 4096 * 1000 + 1000  # the first block's shortcut, the logits
    assert count == pytest.approx(blocks + rest, rel=1e-3)
    assert count + 303e6 > 500e6


def test_logits_are_float32_and_one_place_is_enough():
    classifier = ResNetClassifier(
        5, ClassifierConfig(head_blocks=2, head_width=12), precision="bfloat16"
    )
    for size in (3, 1):
        logits = classifier(tf.random.stateless_normal([4, size, size, 8], [0, 0]))
        assert (logits.shape, logits.dtype) == ([4, 5], tf.float32)


@pytest.mark.parametrize(
    ("flags", "blocks", "norm"),
    [
        ({"encoder": "pixels"}, 0, NoNorm),  # the network's own norm is its last
        ({"encoder": "pixels", "head_blocks": 1, "norm": "layer"}, 1, LayerNorm),
        ({"encoder": "random", "head_blocks": 0}, 0, BatchNorm),
    ],
)
def test_head_and_norm_of_networks_that_begin_anew(flags, blocks, norm):
    config = replace(EfficientConfig(), backbone="tiny", head_width=8, image_size=16, **flags)
    encoder = load_encoder(config, make_strategy("single"))
    classifier = build_classifier(
        config, first_phase(config), encoder.map_shape(config.images.image_size), 3
    )
    assert len(classifier.blocks) == blocks
    assert type(classifier.norm) is norm
    assert encoder.encoder.config.norm == (
        "layer" if flags["encoder"] == "random" else flags.get("norm", "batch")
    )


def test_dropout_is_keyed_unbiased_and_off_in_tests():
    classifier = ResNetClassifier(1, ClassifierConfig(head_blocks=0, dropout=0.75), norm="none")
    x = tf.ones([2000, 1, 1, 64])
    plain = classifier(x).numpy()
    assert np.ptp(plain) < 1e-5
    one, same, other = (
        classifier(
            x, training=True, mask=classifier.dropout_mask(64, tf.constant(key, tf.int64), 2000)
        ).numpy()
        for key in ((1, 2), (1, 2), (1, 3))
    )
    np.testing.assert_array_equal(one, same)
    assert np.abs(one - other).max() > 1e-3
    assert one.mean() == pytest.approx(plain.mean(), abs=0.1)


RANDOM = np.random.default_rng(0)
BATCH = {
    "image": tf.constant(RANDOM.integers(0, 256, [4, 8, 8, 3], dtype=np.uint8)),
    "label": tf.constant([0, 1, 2, 0], tf.int64),
}
SGD = {
    "learning_rate": 0.1,
    "momentum": 0.0,
    "weight_decay": 0.0,
    "finetune_rate": 0.1,
    "encoder_rate": 0.01,
}


def make(phase, *, blocks=0, norm="none", strategy=None, cosine=False, drops=(), **settings):
    strategy = strategy or make_strategy("single")
    with strategy.scope():
        head = {"head_blocks": blocks, "head_width": 8, "dropout": 0.0}
        config = replace(
            EfficientConfig(), **{**SGD, **head, "xla": "off", "batch_size": 4, **settings}
        )
        encoder = load_feature_maps("random", "feature_map", 8, backbone="tiny")
        tf.random.set_seed(1)
        classifier = ResNetClassifier(3, config.classifier, norm)
        classifier.build([None, 1, 1, 128])
        return Classification(
            encoder, classifier, phase, config, 10, strategy, cosine=cosine, drops=drops
        )


def stepping(trainee):
    """What takes a step on a batch and returns its metrics."""
    update = tf.function(trainee.train_step, autograph=False)
    return lambda batch=BATCH: trainee.strategy.run(update, (batch,))


def rows(trainee):
    return BatchPosition(tf.constant(0), trainee.step)


def values(variables):
    return [variable.numpy() for variable in variables]


BOTH = ("classifier", "encoder")


@pytest.mark.parametrize(
    ("phase", "learn", "decay"),
    [(FROZEN, BOTH[:1], BOTH[:1]), (FINE_TUNED, BOTH, BOTH[:1]), (SUPERVISED, BOTH, BOTH)],
)
def test_which_parts_learn_and_whose_kernels_decay(phase, learn, decay):
    trainee = make(phase, weight_decay=0.5)
    parts = {name: getattr(trainee, name).trainable_variables for name in BOTH}
    assert {v.ref() for v in trainee.trained} == {v.ref() for name in learn for v in parts[name]}
    total, metrics = trainee.losses(rows(trainee), *trainee.inputs(BATCH))
    squares = sum(np.square(v).sum() for name in decay for v in parts[name] if v.shape.rank > 1)
    assert float(total - metrics["loss"]) == pytest.approx(0.5 * squares / 2, rel=1e-4)


@pytest.mark.parametrize("told", [True, False])
def test_frozen_phase_equals_sgd_with_rate_drops(told):
    """The rate drops when told, or at given steps."""
    trainee = make(FROZEN, weight_decay=0.5, drops=() if told else (2, 3))
    encoder, maps = (
        values(trainee.encoder.trainable_variables),
        trainee.encoder.encode(BATCH["image"]),
    )
    features, labels = maps.numpy().mean((1, 2)), BATCH["label"].numpy()
    encoded = {"latents": maps, "label": BATCH["label"]}
    kernel, bias = values(trainee.classifier.trainable_variables)
    step = stepping(trainee)
    for number, rate in enumerate((0.1, 0.1, 0.01, 0.001)):
        if told:
            trainee.drop_rates(max(0, number - 1))
        loss = float(step(BATCH if told else encoded)["loss"])
        powers = np.exp(features @ kernel + bias)
        odds = powers / powers.sum(1, keepdims=True)
        assert loss == pytest.approx(-np.log(odds[np.arange(4), labels]).mean(), abs=1e-5)
        error = (odds - np.eye(3)[labels]) / 4
        kernel, bias = (
            kernel - rate * (features.T @ error + 0.5 * kernel),
            bias - rate * error.sum(0),
        )
        for variable, wanted in zip(trainee.classifier.trainable_variables, (kernel, bias)):
            np.testing.assert_allclose(variable, wanted, atol=1e-5)
    for variable, before in zip(trainee.encoder.trainable_variables, encoder):
        np.testing.assert_array_equal(variable, before)

    logits, seen = trainee.logits([BATCH, {name: x[:2] for name, x in encoded.items()}])
    np.testing.assert_array_equal(seen, [*labels, *labels[:2]])
    np.testing.assert_allclose(
        logits, np.concatenate([features, features[:2]]) @ kernel + bias, atol=1e-5
    )


def test_fine_tuning_follows_adam_with_cosine_decay():
    trainee, largest = make(FINE_TUNED, cosine=True, encoder_adam="keras"), []
    step = stepping(trainee)
    for _ in range(11):
        before = values(trainee.encoder.trainable_variables)
        step()
        now = values(trainee.encoder.trainable_variables)
        largest.append([np.abs(after - start).max() for after, start in zip(now, before)])
    # Adam's first step is its rate, whatever the gradient.
    np.testing.assert_allclose(largest[0], 0.01, rtol=0.02)
    assert max(largest[9]) < 0.1 * 0.01
    assert max(largest[10]) == 0  # the horizon of 10 steps is reached


def test_paper_adam_equals_adam_with_clipping_and_averaging():
    trainee = make(FINE_TUNED, encoder_adam="paper")
    step, classifier = stepping(trainee), values(trainee.classifier.trainable_variables)
    weights = values(trainee.encoder.trainable_variables)
    averages, first, second = list(weights), [0 * w for w in weights], [0 * w for w in weights]
    for number in range(2):
        gradients, _ = trainee.gradients(rows(trainee), *trainee.inputs(BATCH))
        gradients = [gradient.numpy() for gradient in gradients]
        # The classifier has an optimizer of its own, SGD, and its gradients are not clipped.
        classifier = [value - 0.1 * gradient for value, gradient in zip(classifier, gradients)]
        gradients = gradients[-len(weights) :]
        norm = np.sqrt(sum((gradient.astype(np.float64) ** 2).sum() for gradient in gradients))
        assert norm > 0.01, "too small to be clipped"
        step()
        decay = min(0.9999, (1 + number) / (10 + number))
        for i, gradient in enumerate(gradients):
            gradient = gradient * 0.01 / norm
            first[i], second[i] = (
                0.8 * first[i] + 0.2 * gradient,
                0.999 * second[i] + 0.001 * gradient**2,
            )
            # The rate as at the end of Kingma and Ba's section 2.
            rate = 0.01 * np.sqrt(1 - 0.999 ** (number + 1)) / (1 - 0.8 ** (number + 1))
            weights[i] = weights[i] - rate * first[i] / (np.sqrt(second[i]) + 1e-8)
            averages[i] = averages[i] + (1 - decay) * (weights[i] - averages[i])
    for found, wanted in zip(values(trainee.classifier.trainable_variables), classifier):
        np.testing.assert_allclose(found, wanted, atol=1e-5)
    for found, wanted in zip(values(trainee.encoder.trainable_variables), weights):
        np.testing.assert_allclose(found, wanted, atol=2e-4)
    for found, wanted in zip(trainee.average.averages, averages):
        np.testing.assert_allclose(found, wanted, atol=2e-4)
    # The averages are what is tested, and the training goes on with the weights.
    logits, _ = trainee.logits([BATCH])
    np.testing.assert_array_equal(
        values(trainee.encoder.trainable_variables)[0], trainee.trained[-len(weights)]
    )
    for variable, average in zip(trainee.encoder.trainable_variables, trainee.average.averages):
        variable.assign(average)
    np.testing.assert_allclose(
        trainee.classifier(trainee.encoder.encode(BATCH["image"])), logits, atol=1e-5
    )


def test_xla_batch_norm_blocks_step_by_the_gradient():
    # Without dropout: its random numbers are others under XLA.
    trainee = make(SUPERVISED, blocks=1, norm="batch", xla="on")
    before = values(trainee.trained)
    gradients, metrics = trainee.gradients(rows(trainee), *trainee.inputs(BATCH))
    assert float(stepping(trainee)()["loss"]) == pytest.approx(float(metrics["loss"]), rel=1e-3)
    for variable, value, gradient in zip(trainee.trained, before, gradients):
        np.testing.assert_allclose(variable, value - 0.1 * gradient.numpy(), atol=1e-3)
