"""The classifier of appendix C, and one step of its training in each phase."""

import numpy as np
import pytest
import tensorflow as tf

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
from cpc_tf.encoders.load import load_feature_maps
from cpc_tf.encoders.norm import BatchNorm, Identity, LayerNorm
from cpc_tf.keras import keras
from cpc_tf.settings import replace
from cpc_tf.training.strategy import make_strategy
from cpc_tf.training.trainee import Rows

pytestmark = pytest.mark.slow

LITTLE = ClassifierConfig(head_blocks=2, head_width=12, dropout=0.5)


def kept(classifier, rows, width, key=(1, 2)):
    return classifier.dropout(width, tf.constant(key, tf.int64), rows)


def maps(count=4, size=3, width=8, seed=0):
    return tf.random.stateless_normal([count, size, size, width], [seed, 0])


def test_the_papers_classifier_has_the_papers_size():
    """Beside the 303 M of the encoder, which tests/encoders/networks/resnet_test.py counts: more than 500 M."""
    classifier = ResNetClassifier(1000, ClassifierConfig())
    with tf.Graph().as_default():  # makes the variables without computing, or keeping, anything
        classifier(keras.backend.placeholder([1, 14, 14, 4096]))
    count = sum(np.prod(v.shape) for v in classifier.trainable_variables)
    # 11 blocks of 1x1 (4096 x 1024), 3x3 (1024 x 1024) and 1x1 (1024 x 4096), by hand.
    blocks = 11 * (2 * 4096 * 1024 + 9 * 1024 * 1024)
    assert blocks / 1e6 == pytest.approx(196, abs=0.5)
    rest = 4096 * 4096 + 4096 * 1000 + 1000  # the first block's shortcut, the logits
    assert count == pytest.approx(blocks + rest, rel=1e-3)
    assert count + 303e6 > 500e6


def test_shapes_and_dtypes():
    for precision in ("float32", "bfloat16"):
        logits = ResNetClassifier(5, LITTLE, precision=precision)(maps())
        assert logits.shape == [4, 5]
        assert logits.dtype == tf.float32


def test_one_place_is_enough():
    classifier = ResNetClassifier(5, LITTLE)
    assert classifier(maps(size=1), training=True, kept=kept(classifier, 4, 12)).shape == [4, 5]


def test_without_blocks_and_norm_it_is_a_linear_layer_on_the_mean():
    classifier = ResNetClassifier(5, ClassifierConfig(head_blocks=0), norm="none")
    x = maps()
    wanted = tf.reduce_mean(x, [1, 2]) @ classifier.logits.kernel if classifier(x) is not None else None
    np.testing.assert_allclose(classifier(x), wanted, atol=1e-6)
    assert len(classifier.trainable_variables) == 2


@pytest.mark.parametrize(
    ("flags", "blocks", "norm"),
    [
        ({"encoder": "pixels"}, 0, Identity),  # the network's own norm is its last
        ({"encoder": "pixels", "head_blocks": 1}, 1, BatchNorm),
        ({"encoder": "pixels", "head_blocks": 1, "norm": "layer"}, 1, LayerNorm),
        ({"encoder": "random", "head_blocks": 0}, 0, BatchNorm),
        ({"encoder": "random", "head_blocks": 1, "norm": "none"}, 1, Identity),
    ],
)
def test_head_and_norm_of_networks_that_begin_anew(flags, blocks, norm):
    config = replace(EfficientConfig(), backbone="tiny", head_width=8, image_size=16, **flags)
    encoder = load_encoder(config, make_strategy("single"))
    classifier = build_classifier(config, first_phase(config), encoder.map_shape(config.images.image_size), 3)
    assert len(classifier.blocks) == blocks
    assert type(classifier.norm) is norm
    pretrained = flags["encoder"] == "random" and "norm" not in flags
    assert encoder.encoder.config.norm == ("layer" if pretrained else flags.get("norm", "batch"))


def test_the_paper_has_eleven_blocks():
    assert ClassifierConfig(encoder="hub").blocks == 11
    assert ClassifierConfig(encoder="pixels").blocks == 0


def test_dropout_is_a_function_of_its_key_and_off_in_tests():
    classifier = ResNetClassifier(5, LITTLE)
    x = maps(16)
    test = classifier(x)
    np.testing.assert_array_equal(test, classifier(x))
    same = [classifier(x, training=True, kept=kept(classifier, 16, 12)) for _ in range(2)]
    other = classifier(x, training=True, kept=kept(classifier, 16, 12, key=(1, 3)))
    np.testing.assert_array_equal(*same)
    assert np.abs(same[0] - other).max() > 1e-3


def test_dropout_keeps_the_mean():
    classifier = ResNetClassifier(1, ClassifierConfig(head_blocks=0, dropout=0.75), norm="none")
    x = tf.ones([2000, 1, 1, 64])
    plain = classifier(x)[0, 0]
    dropped = classifier(x, training=True, kept=kept(classifier, 2000, 64))
    assert float(tf.reduce_mean(dropped)) == pytest.approx(float(plain), abs=0.1)


RANDOM = np.random.default_rng(0)
BATCH = {
    "image": tf.constant(RANDOM.integers(0, 256, [4, 8, 8, 3], dtype=np.uint8)),
    "label": tf.constant([0, 1, 2, 0], tf.int64),
}
SGD = {"learning_rate": 0.1, "momentum": 0.0, "weight_decay": 0.0, "finetune_rate": 0.1, "encoder_rate": 0.01}


def make(phase, *, blocks=0, norm="none", strategy=None, cosine=False, drop_step=0, **settings):
    strategy = strategy or make_strategy("single")
    with strategy.scope():
        head = {"head_blocks": blocks, "head_width": 8, "dropout": 0.0}
        config = replace(EfficientConfig(), **{**SGD, **head, "xla": "off", "batch_size": 4, **settings})
        encoder = load_feature_maps("random", "feature_map", 8, backbone="tiny")
        tf.random.set_seed(1)
        classifier = ResNetClassifier(3, config.classifier, norm)
        classifier.build([None, 1, 1, 128])
        return Classification(encoder, classifier, phase, config, 10, strategy, cosine=cosine, drop_step=drop_step)


def step(trainee, batch=BATCH):
    return trainee.strategy.run(tf.function(trainee.train_step, autograph=False), (batch,))


def values(variables):
    return [variable.numpy() for variable in variables]


def changed(before, after):
    return [not np.array_equal(one, other) for one, other in zip(before, after)]


@pytest.mark.parametrize(("phase", "moves"), [(FROZEN, False), (FINE_TUNED, True), (SUPERVISED, True)])
def test_which_parts_learn(phase, moves):
    trainee = make(phase)
    before = values(trainee.encoder.trainable_variables), values(trainee.classifier.trainable_variables)
    step(trainee)
    assert all(changed(before[1], values(trainee.classifier.trainable_variables)))
    assert set(changed(before[0], values(trainee.encoder.trainable_variables))) == {moves}
    assert int(trainee.step) == 1


def test_a_step_of_the_classifier_by_hand():
    trainee = make(FROZEN)
    kernel, bias = values(trainee.classifier.trainable_variables)
    features = trainee.encoder.encode(BATCH["image"]).numpy().mean((1, 2))
    metrics = step(trainee)
    logits = features @ kernel + bias
    odds = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    labels = BATCH["label"].numpy()
    assert float(metrics["loss"]) == pytest.approx(-np.log(odds[np.arange(4), labels]).mean(), abs=1e-5)
    gradient = features.T @ (odds - np.eye(3)[labels]) / 4
    np.testing.assert_allclose(trainee.classifier.trainable_variables[0], kernel - 0.1 * gradient, atol=1e-5)


@pytest.mark.parametrize(("phase", "part"), [(FROZEN, "classifier"), (FINE_TUNED, "classifier"), (SUPERVISED, "all")])
def test_weight_decay_is_of_the_kernels_that_sgd_trains(phase, part):
    runs, starts = {}, {}
    for decay in (0.0, 0.5):
        trainee = make(phase, weight_decay=decay)
        starts = {kind: values(getattr(trainee, kind).trainable_variables) for kind in ("classifier", "encoder")}
        step(trainee)
        runs[decay] = trainee
    rate = 0.1
    for kind, start in starts.items():
        ends = [values(getattr(runs[decay], kind).trainable_variables) for decay in (0.0, 0.5)]
        for before, without, with_decay in zip(start, *ends):
            decayed = before.ndim > 1 and (kind == "classifier" or part == "all")
            wanted = -rate * 0.5 * before if decayed else 0 * before
            np.testing.assert_allclose(with_decay - without, wanted, atol=1e-5)


def test_fine_tuning_moves_the_encoder_as_adam_does():
    trainee = make(FINE_TUNED)
    before = values(trainee.encoder.trainable_variables)
    step(trainee)
    moved = [np.abs(a - b).max() for a, b in zip(before, values(trainee.encoder.trainable_variables))]
    # Adam's first step is its rate, whatever the gradient.
    np.testing.assert_allclose(moved, 0.01, rtol=0.02)


def test_the_papers_adam_is_adam_by_hand_clipped_and_averaged():
    trainee = make(FINE_TUNED, encoder_adam="paper")
    weights = values(trainee.encoder.trainable_variables)
    averages, first, second = list(weights), [0 * w for w in weights], [0 * w for w in weights]
    for number in range(3):
        gradients, _ = trainee.gradients(Rows(tf.constant(0), trainee.step), *trainee.inputs(BATCH))
        gradients = [gradient.numpy() for gradient in gradients[-len(weights) :]]
        norm = np.sqrt(sum((gradient.astype(np.float64) ** 2).sum() for gradient in gradients))
        assert norm > 0.01, "too small to be clipped"
        step(trainee)
        decay = min(0.9999, (1 + number) / (10 + number))
        for i, gradient in enumerate(gradients):
            gradient = gradient * 0.01 / norm
            first[i], second[i] = 0.8 * first[i] + 0.2 * gradient, 0.999 * second[i] + 0.001 * gradient**2
            # The rate as at the end of Kingma and Ba's section 2.
            rate = 0.01 * np.sqrt(1 - 0.999 ** (number + 1)) / (1 - 0.8 ** (number + 1))
            weights[i] = weights[i] - rate * first[i] / (np.sqrt(second[i]) + 1e-8)
            averages[i] = averages[i] + (1 - decay) * (weights[i] - averages[i])
    for found, wanted in zip(values(trainee.encoder.trainable_variables), weights):
        np.testing.assert_allclose(found, wanted, atol=2e-4)
    for found, wanted in zip(trainee.average.averages, averages):
        np.testing.assert_allclose(found, wanted, atol=2e-4)
    # The averages are what is tested, and the training goes on with the weights.
    logits, _ = trainee.logits([BATCH])
    np.testing.assert_array_equal(values(trainee.encoder.trainable_variables)[0], trainee.trained[-len(weights)])
    for variable, average in zip(trainee.encoder.trainable_variables, trainee.average.averages):
        variable.assign(average)
    np.testing.assert_allclose(trainee.classifier(trainee.encoder.encode(BATCH["image"])), logits, atol=1e-5)


def test_features_in_place_of_images_give_the_same_step():
    images, features = make(FROZEN), make(FROZEN)
    maps = features.encoder.encode(BATCH["image"])
    losses = step(images)["loss"], step(features, {"latents": maps, "label": BATCH["label"]})["loss"]
    assert float(losses[0]) == pytest.approx(float(losses[1]), abs=1e-5)


def test_blocks_with_batch_norm_compiled_by_xla_are_the_same():
    # Without dropout: its random numbers are others under XLA.
    runs = [make(FINE_TUNED, blocks=1, norm="batch", xla=xla) for xla in ("off", "on")]
    losses = [[float(step(run)["loss"]) for _ in range(2)] for run in runs]
    np.testing.assert_allclose(*losses, rtol=1e-3)


def test_logits_of_batches():
    trainee = make(FROZEN)
    maps = trainee.encoder.encode(BATCH["image"])
    logits, labels = trainee.logits([BATCH, {"latents": maps[:2], "label": BATCH["label"][:2]}])
    assert logits.shape == (6, 3)
    np.testing.assert_array_equal(labels, [0, 1, 2, 0, 0, 1])
    np.testing.assert_allclose(logits[4:], logits[:2], atol=1e-5)


def test_rates_drop_at_a_given_step_and_when_told_alike():
    """Both ways to a tenth of the rate from step 2 on, each step of SGD by hand from the gradient."""
    ends = []
    for told in (False, True):
        trainee = make(FROZEN, drop_step=0 if told else 2)
        update = tf.function(trainee.train_step, autograph=False)
        for number, rate in enumerate((0.1, 0.1, 0.01, 0.01)):
            if told and number == 2:
                trainee.drop_rates(True)
            gradients, _ = trainee.gradients(Rows(tf.constant(0), trainee.step), *trainee.inputs(BATCH))
            wanted = [v.numpy() - rate * g.numpy() for v, g in zip(trainee.trained, gradients)]
            trainee.strategy.run(update, (BATCH,))
            for variable, value in zip(trainee.trained, wanted):
                np.testing.assert_allclose(variable, value, atol=1e-6)
        ends.append(values(trainee.trained))
    for one, other in zip(*ends):
        np.testing.assert_allclose(one, other, atol=1e-7)


def test_a_cosine_ends_fine_tuning_gently():
    moved = {}
    for schedule in ("constant", "cosine"):
        trainee = make(FINE_TUNED, cosine=schedule == "cosine")
        weights = [*trainee.encoder.trainable_variables, *trainee.classifier.trainable_variables]
        moved[schedule], update = [], tf.function(trainee.train_step, autograph=False)
        for _ in range(11):
            before = values(weights)
            trainee.strategy.run(update, (BATCH,))
            moved[schedule].append(max(np.abs(now - old).max() for now, old in zip(values(weights), before)))
    assert moved["cosine"][0] == pytest.approx(moved["constant"][0])
    assert moved["cosine"][9] < 0.1 * moved["constant"][9]
    assert moved["cosine"][10] == 0  # the horizon of 10 steps is reached
