import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.efficient.classifier import ResNetClassifier
from cpc_tf.efficient.config import ClassifierConfig
from cpc_tf.encoders.config import EncoderConfig, make_encoder
from cpc_tf.keras import keras

LITTLE = ClassifierConfig(head_blocks=2, head_width=12, head_bottleneck=4, dropout=0.5)
NOISE = tf.constant([1, 2], tf.int64)


def maps(count=4, size=3, width=8, seed=0):
    return tf.random.stateless_normal([count, size, size, width], [seed, 0])


def build(shapes_of, spec):
    """Makes the variables without computing, or keeping, anything."""
    with tf.Graph().as_default():
        shapes_of(keras.backend.placeholder(spec))


def test_the_papers_classifier_and_stack_have_the_papers_size():
    classifier, encoder = ResNetClassifier(1000, ClassifierConfig()), make_encoder(EncoderConfig(encoder="resnet161"))
    build(classifier, [1, 14, 14, 4096])
    build(encoder, [1, 224, 224, 3])
    of = {
        name: sum(np.prod(v.shape) for v in model.trainable_variables)
        for name, model in (("head", classifier), ("encoder", encoder))
    }
    # 11 blocks of 1x1 (4096 x 1024), 3x3 (1024 x 1024) and 1x1 (1024 x 4096), by hand.
    blocks = 11 * (2 * 4096 * 1024 + 9 * 1024 * 1024)
    assert blocks / 1e6 == pytest.approx(196, abs=0.5)
    rest = 4096 * 4096 + 4096 * 1000 + 1000  # the first block's shortcut, the logits
    assert of["head"] == pytest.approx(blocks + rest, rel=1e-3)
    assert of["head"] + of["encoder"] > 500e6


def test_shapes_and_dtypes():
    for precision in ("float32", "bfloat16"):
        logits = ResNetClassifier(5, LITTLE, precision=precision)(maps())
        assert logits.shape == [4, 5]
        assert logits.dtype == tf.float32


def test_one_place_is_enough():
    assert ResNetClassifier(5, LITTLE)(maps(size=1), training=True, noise=NOISE).shape == [4, 5]


def test_without_blocks_and_norm_it_is_a_linear_layer_on_the_mean():
    classifier = ResNetClassifier(5, ClassifierConfig(head_blocks=0), norm="none")
    x = maps()
    wanted = tf.reduce_mean(x, [1, 2]) @ classifier.logits.kernel if classifier(x) is not None else None
    np.testing.assert_allclose(classifier(x), wanted, atol=1e-6)
    assert len(classifier.trainable_variables) == 2


def test_dropout_is_a_function_of_its_noise_and_off_in_tests():
    classifier = ResNetClassifier(5, LITTLE)
    x = maps(16)
    test = classifier(x)
    np.testing.assert_array_equal(test, classifier(x))
    same = [classifier(x, training=True, noise=NOISE) for _ in range(2)]
    other = classifier(x, training=True, noise=NOISE + 1)
    np.testing.assert_array_equal(*same)
    assert np.abs(same[0] - other).max() > 1e-3


def test_dropout_keeps_the_mean():
    classifier = ResNetClassifier(1, ClassifierConfig(head_blocks=0, dropout=0.75), norm="none")
    x = tf.ones([2000, 1, 1, 64])
    plain = classifier(x)[0, 0]
    dropped = classifier(x, training=True, noise=NOISE)
    assert float(tf.reduce_mean(dropped)) == pytest.approx(float(plain), abs=0.1)
