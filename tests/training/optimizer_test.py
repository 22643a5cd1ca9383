import dataclasses
import math

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.training.config import OptimizerConfig
from cpc_tf.training.optimizer import LearningRate, PolyakAverage, make_optimizer

PAPER = OptimizerConfig()


def _rates(steps, train_steps=100, **settings):
    schedule = LearningRate(dataclasses.replace(PAPER, **settings), train_steps)
    return [float(schedule(tf.constant(step, tf.int64))) for step in steps]


def test_constant_rate_is_the_papers():
    assert _rates([0, 50, 10**6]) == pytest.approx([4e-4] * 3)


def test_warm_up_is_linear_and_ends_at_the_rate():
    assert _rates([0, 4, 9, 10], warmup_steps=10, learning_rate=1.0) == pytest.approx([0.1, 0.5, 1.0, 1.0])


def test_cosine_goes_to_zero_at_the_end():
    rates = _rates([0, 10, 55, 100, 200], schedule="cosine", warmup_steps=10, learning_rate=1.0)
    assert rates == pytest.approx([0.1, 1.0, 0.5, 0.0, 0.0], abs=1e-6)


def test_adam_equals_numpy():
    config = dataclasses.replace(PAPER, learning_rate=0.1)
    variable = tf.Variable([1.0, -2.0])
    optimizer = make_optimizer(config, 10)
    value, m, v = np.array([1.0, -2.0]), 0.0, 0.0
    for step in range(1, 6):
        gradient = np.array([0.3, -0.01]) * step
        optimizer.apply_gradients([(tf.constant(gradient, tf.float32), variable)])
        m, v = 0.8 * m + 0.2 * gradient, 0.999 * v + 0.001 * gradient**2
        value = value - 0.1 * (m / (1 - 0.8**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
    np.testing.assert_allclose(variable, value, rtol=1e-4)


@pytest.mark.parametrize("decay", [0.9999, 0.5])
def test_polyak_average_ramps_up(decay):
    variable = tf.Variable([4.0])
    average = PolyakAverage([variable], decay)
    wanted = 4.0
    for step in range(6):
        variable.assign([float(step)])
        average.update([variable], tf.constant(step, tf.int64))
        d = min(decay, (1 + step) / (10 + step))
        wanted = d * wanted + (1 - d) * step
    assert float(average.averages[0][0]) == pytest.approx(wanted, rel=1e-6)
    assert not math.isclose(wanted, 5.0)
