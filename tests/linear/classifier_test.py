"""The linear classifiers: appendix B's, and CPC v1's with its optimizer."""

import numpy as np
import tensorflow as tf

from cpc_tf.core.settings import replace
from cpc_tf.linear.classifier import LinearClassifier, LinearTraining
from cpc_tf.linear.config import LinearConfig
from cpc_tf.training.strategy import make_strategy

DRAW = np.random.default_rng(0)


def test_classifier_is_the_papers():
    classifier = LinearClassifier(7)
    latents = DRAW.normal(2, 3, [4, 3, 3, 5]).astype(np.float32)
    logits = classifier(latents, training=True)
    # Batch norm without scale: an offset per feature; the 1x1 convolution: a matrix and a bias.
    assert sorted(tuple(v.shape) for v in classifier.trainable_variables) == [
        (1, 1, 5, 7),
        (5,),
        (7,),
    ]
    normal = (latents - latents.mean((0, 1, 2))) / np.sqrt(latents.var((0, 1, 2)) + 1e-3)
    wanted = (normal @ classifier.logits.kernel.numpy()[0, 0]).mean((1, 2))
    np.testing.assert_allclose(logits, wanted, atol=1e-4)


def trained(**settings):
    config = replace(LinearConfig(), batch_size=4, **settings)
    return LinearTraining(
        config, lambda patches: tf.cast(patches[..., 0, 0, :], tf.float32), (2, 2, 3), 3, SINGLE
    )


SINGLE = make_strategy("single")


def test_v1_classifier_equals_softmax_regression_with_sgd_momentum():
    """van den Oord et al. 2018: momentum 0.9, a tenth of the rate from given steps on."""
    trainee = trained(optimizer="sgd", learning_rate=0.1, drop_steps="2,3", latent_norm=False)
    latents, labels = DRAW.normal(1, 2, [4, 2, 2, 3]).astype(np.float32), np.array([0, 2, 1, 0])
    kernel, bias = (value.squeeze() for value in trainee.classifier.get_weights())
    velocities, mean = [0.0, 0.0], latents.mean((1, 2))
    for rate in (0.1, 0.1, 0.01, 0.001):
        trainee.train_step({"latents": tf.constant(latents), "label": tf.constant(labels)})
        scores = np.exp(mean @ kernel + bias)
        error = (scores / scores.sum(1, keepdims=True) - np.eye(3)[labels]) / 4
        velocities = [
            0.9 * v - rate * g for v, g in zip(velocities, (mean.T @ error, error.sum(0)))
        ]
        kernel, bias = kernel + velocities[0], bias + velocities[1]
    for found, wanted in zip(trainee.classifier.get_weights(), (kernel, bias)):
        np.testing.assert_allclose(found.squeeze(), wanted, rtol=1e-4, atol=1e-6)


def test_by_channel_test_equals_colour_dropping():
    trainee = trained(latent_norm=False)
    patches = DRAW.integers(0, 256, [4, 2, 2, 1, 1, 3], dtype=np.uint8)
    batches = tf.data.Dataset.from_tensors({"patches": patches, "label": np.arange(4) % 3})
    logits, labels, by_channel = trainee.test(batches, by_channel=True)
    kernel, bias = (value.squeeze() for value in trainee.classifier.get_weights())
    colours = patches.reshape(4, 4, 3).mean(1)
    np.testing.assert_allclose(logits, colours @ kernel + bias, rtol=1e-4)
    # The mean over what each channel alone gives, with 128 in place of the others.
    np.testing.assert_allclose(by_channel, (colours / 3 + 128 * 2 / 3) @ kernel + bias, rtol=1e-4)
    np.testing.assert_array_equal(labels, [0, 1, 2, 0])
