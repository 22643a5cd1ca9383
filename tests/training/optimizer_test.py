import math

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.training.optimizer import PolyakAverage, adam


def test_adam_equals_numpy():
    variable = tf.Variable([1.0, -2.0])
    optimizer = adam(0.1, beta1=0.8, epsilon=1e-8)
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


def test_replicas_average_their_own_copies_alike(two_replicas):
    """Without aggregation nothing is sent between them, and nothing is needed: the figures are those of one."""
    with two_replicas.scope():
        variable = tf.Variable([4.0, -1.0])
        average = PolyakAverage([variable], 0.5)
    alone = tf.Variable([4.0, -1.0])
    wanted = PolyakAverage([alone], 0.5)

    @tf.function
    def update(step):
        two_replicas.run(lambda: average.update([variable], step))

    for step in range(3):
        for v in (variable, alone):
            v.assign([float(step), 1.0 / (step + 3)])
        update(tf.constant(step, tf.int64))
        wanted.update([alone], tf.constant(step, tf.int64))
    assert average.averages[0].aggregation == tf.VariableAggregation.NONE
    for copy in average.averages[0].values:
        np.testing.assert_array_equal(copy, wanted.averages[0])
