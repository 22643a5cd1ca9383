"""The methods of label propagation against their papers' formulas in NumPy, on a linear classifier of pictures."""

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.efficient.propagation import pseudo_labels, uda, vat
from cpc_tf.efficient.propagation.base import Unlabelled
from cpc_tf.efficient.propagation.config import PropagationConfig

RANDOM = np.random.default_rng(0)
COUNT, SIDE, CLASSES = 5, 2, 3
PICTURES = RANDOM.random([COUNT, SIDE, SIDE, 3])
NOISE = RANDOM.normal(size=PICTURES.shape)
KERNEL = RANDOM.normal(size=[SIDE * SIDE * 3, CLASSES])
CONFIG = PropagationConfig()


def odds(logits):
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def kl(p, q):
    return sum(one * (np.log(one) - np.log(other)) for one, other in zip(p, q))


def gradient(function, x, step=1e-5):
    """By differences, in float64."""
    found = np.zeros_like(x)
    for place in np.ndindex(*x.shape):
        moved = np.zeros_like(x)
        moved[place] = step
        found[place] = (function(x + moved) - function(x - moved)) / (2 * step)
    return found


def pictures(kernel, views=PICTURES, progress=1.0, noise=NOISE):
    def logits(images):
        return tf.reshape(images, [len(images), -1]) @ kernel

    return Unlabelled(tf.constant(views, tf.float32), logits, lambda: tf.constant(noise, tf.float32), progress)


def found(method, config=CONFIG, **given):
    """(loss, metrics, gradient with respect to the kernel)."""
    kernel = tf.constant(KERNEL, tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(kernel)
        loss, metrics = method.loss(pictures(kernel, **given), config)
    assert set(metrics) == set(method.METRICS)
    return float(loss), {name: float(value) for name, value in metrics.items()}, tape.gradient(loss, kernel).numpy()


def predictions(kernel, x=PICTURES):
    return odds(x.reshape(len(x), -1) @ kernel)


@pytest.mark.parametrize(("progress", "weight"), [(0.0, 0), (0.1, 0), (0.35, 1.5), (0.6, 3), (1.0, 3)])
def test_pseudo_labels(progress, weight):
    """Lee 2013, equations 15 and 16: T1 = 100, T2 = 600 of 1000 and a final weight of 3."""
    guessed = predictions(KERNEL).argmax(1)  # stay the same while the kernel is moved

    def wanted(kernel):
        return -weight * np.mean([np.log(p[label]) for p, label in zip(predictions(kernel), guessed)])

    loss, metrics, slope = found(pseudo_labels, progress=progress)
    assert metrics["pseudo_weight"] == pytest.approx(weight, abs=1e-6)
    assert loss == pytest.approx(wanted(KERNEL), rel=1e-5)
    np.testing.assert_allclose(slope, gradient(wanted, KERNEL), atol=1e-5)


def unit(x):
    return np.stack([each / np.sqrt((each**2).mean()) for each in x])


def disturbances():
    """Miyato et al. 2018, algorithm 1 with K = 1: the direction in which KL rises from the probe, by calculus.

    For logits W'x the gradient of KL(p || q(x + r)) with respect to r is W (q - p).
    """
    p, q = predictions(KERNEL), predictions(KERNEL, PICTURES + 0.01 * unit(NOISE))
    return 0.035 * unit(((q - p) @ KERNEL.T).reshape(PICTURES.shape))


def test_the_disturbance_of_vat():
    given = pictures(tf.constant(KERNEL, tf.float32))
    ours = vat.adversarial(given, given.logits(given.views), CONFIG).numpy()
    np.testing.assert_allclose(ours, disturbances(), atol=2e-4)
    np.testing.assert_allclose(np.sqrt((ours**2).mean((1, 2, 3))), 0.035, rtol=1e-5)


def test_vat_and_entropy():
    """Prediction and disturbance are constants of the divergence; the entropy is the mean of the pictures'."""
    p, moved = predictions(KERNEL), PICTURES + disturbances()

    def change(kernel):
        return np.mean([kl(*pair) for pair in zip(p, predictions(kernel, moved))])

    def entropy(kernel):
        return np.mean([-sum(x * np.log(x) for x in each) for each in predictions(kernel)])

    loss, metrics, slope = found(vat)
    assert metrics["divergence"] == pytest.approx(change(KERNEL), rel=5e-3)
    assert metrics["entropy"] == pytest.approx(entropy(KERNEL), rel=1e-5)
    assert loss == pytest.approx(change(KERNEL) + entropy(KERNEL), rel=1e-3)
    np.testing.assert_allclose(slope, gradient(change, KERNEL) + gradient(entropy, KERNEL), atol=1e-3)


def test_a_picture_that_predicts_the_same_everywhere_is_not_disturbed():
    given = pictures(tf.zeros([SIDE * SIDE * 3, CLASSES]))
    np.testing.assert_array_equal(vat.adversarial(given, given.logits(given.views), CONFIG), 0)


def test_uda():
    """Xie et al. 2019, section 2: sharpened by 0.4, only of predictions above 0.5, no gradient through the target."""
    given, augmented = PICTURES * np.array([0.01, 1, 1, 0.1, 1])[:, None, None, None], RANDOM.random(PICTURES.shape)
    plain = given.reshape(COUNT, -1) @ KERNEL
    sure = odds(plain).max(1) > 0.5
    assert 0 < sum(sure) < COUNT, "the mask shows nothing"

    def wanted(kernel):
        pairs = zip(odds(plain / 0.4), predictions(kernel, augmented), sure)
        return sum(kl(p, q) for p, q, learned in pairs if learned) / COUNT

    loss, metrics, slope = found(uda, views=np.stack([given, augmented], 1))
    assert metrics["confident"] == pytest.approx(sure.mean())
    assert loss == pytest.approx(wanted(KERNEL), rel=1e-4)
    np.testing.assert_allclose(slope, gradient(wanted, KERNEL), atol=1e-4)


@pytest.mark.parametrize(
    ("method", "weights"), [(pseudo_labels, ["pseudo_weight"]), (vat, ["vat_weight", "entropy_weight"])]
)
def test_weights_are_factors(method, weights, monkeypatch):
    loss, *_ = found(method)
    for weight in weights:
        monkeypatch.setattr(PropagationConfig, weight, 2 * getattr(CONFIG, weight))
    assert found(method)[0] == pytest.approx(2 * loss)
