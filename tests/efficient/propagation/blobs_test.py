"""A known answer: two clouds of pictures of which one each has a label. The methods find the clouds, labels do not."""

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.efficient.propagation import METHODS
from cpc_tf.efficient.propagation.base import Unlabelled
from cpc_tf.efficient.propagation.config import PropagationConfig
from cpc_tf.settings import replace

pytestmark = pytest.mark.slow
SHAPE = [4, 4, 3]
STEPS, RATE = 300, 0.05


def clouds(random, count):
    """Pictures float32 [count, 4, 4, 3] of noise around two points 5 standard deviations apart, and their clouds."""
    cloud = np.arange(count) % 2
    pictures = random.normal(size=[count, *SHAPE])
    pictures[:, 0, 0, 0] += 2.5 * (2 * cloud - 1)
    return tf.constant(pictures, tf.float32), cloud


def accuracy(method):
    """Of a linear classifier on other pictures."""
    random = np.random.default_rng(3)
    (labelled, labels), (others, _), (tested, truth) = (clouds(random, count) for count in (2, 400, 1000))
    config = replace(PropagationConfig(), vat_radius=0.3)
    kernel, bias = tf.Variable(tf.zeros([48, 2])), tf.Variable(tf.zeros([2]))

    def logits(pictures):
        return tf.reshape(pictures, [-1, 48]) @ kernel + bias

    @tf.function
    def step(number, noise):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits(labelled)))
            if method:
                views = tf.stack([others, others + noise], 1) if method == "uda" else others
                given = Unlabelled(views, logits, lambda: noise, number / STEPS)
                loss += METHODS[method].loss(given, config)[0]
        for variable, gradient in zip((kernel, bias), tape.gradient(loss, (kernel, bias))):
            variable.assign_sub(RATE * gradient)

    for number in range(STEPS):
        step(tf.constant(number, tf.float32), tf.constant(random.normal(size=others.shape), tf.float32))
    return np.mean(np.argmax(logits(tested), 1) == truth)


def test_labels_alone_do_not_find_the_clouds():
    assert accuracy("") < 0.85


@pytest.mark.parametrize("method", METHODS)
def test_the_clouds_are_found(method):
    """Knowing both points would give 99.4 %."""
    assert accuracy(method) > 0.97
