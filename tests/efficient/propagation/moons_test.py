"""A known answer: two moons of which six points have labels. The methods find the moons, the labels alone do not."""

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.efficient.propagation import METHODS
from cpc_tf.efficient.propagation.base import Unlabelled
from cpc_tf.efficient.propagation.config import PropagationConfig
from cpc_tf.settings import replace

pytestmark = pytest.mark.slow
STEPS = 600
LABELLED = 3  # of a moon: its ends and its middle


def moons(count, seed):
    """Points as pictures of one pixel, float32 [2 * count, 1, 1, 3], and their moons."""
    angle = np.tile(np.linspace(0, np.pi, count), 2)
    moon = np.repeat([0, 1], count)
    x, y = np.where(moon, 1 - np.cos(angle), np.cos(angle)), np.where(moon, 0.4 - np.sin(angle), np.sin(angle))
    points = np.stack([x, y, 0 * x], 1) + np.random.default_rng(seed).normal(scale=0.07, size=[2 * count, 3])
    return tf.constant(points[:, None, None], tf.float32), moon


def accuracy(method, **settings):
    """Of a network with one hidden layer on other points."""
    points, _ = moons(100, 0)
    labelled, labels = moons(LABELLED, 1)
    tested, truth = moons(200, 2)
    config = replace(PropagationConfig(), **settings)
    random = tf.random.Generator.from_seed(3)
    sizes = ([3, 64], [64], [64, 2], [2])
    weights = [tf.Variable(random.normal(size, stddev=1.0 if size == [3, 64] else 0.1)) for size in sizes]
    # Adam by hand, which is all that tells the two versions of Keras apart.
    moments = [[tf.Variable(tf.zeros(size)) for size in sizes] for _ in range(2)]

    def logits(x):
        return tf.nn.relu(x[:, 0, 0] @ weights[0] + weights[1]) @ weights[2] + weights[3]

    @tf.function
    def step(number):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits(labelled)))
            if method:
                noise = random.normal(points.shape)
                views = points if method != "uda" else tf.stack([points, points + 0.15 * noise], 1)
                pictures = Unlabelled(views, logits, lambda: noise, number / STEPS)
                loss += METHODS[method].loss(pictures, config)[0]
        for v, g, m, s in zip(weights, tape.gradient(loss, weights), *moments):
            m.assign(0.9 * m + 0.1 * g)
            s.assign(0.99 * s + 0.01 * g * g)
            v.assign_sub(0.01 * m / (tf.sqrt(s) + 1e-6))

    for number in range(STEPS):
        step(tf.constant(number, tf.float32))
    return np.mean(np.argmax(logits(tested), 1) == truth)


@pytest.fixture(scope="module")
def plain():
    return accuracy("")


@pytest.mark.parametrize(
    ("method", "settings"),
    [("pseudo_labels", {}), ("vat", {"vat_radius": 0.15}), ("uda", {})],
)
def test_the_moons_are_found(method, settings, plain):
    found = accuracy(method, **settings)
    print(method, plain, found)
    assert found > plain + 0.08
    assert found > 0.95
