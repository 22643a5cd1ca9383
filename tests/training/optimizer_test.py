import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.training.optimizer import Schedule, adam, warm_up


@pytest.mark.parametrize(
    ("schedule", "wanted"),
    [
        (warm_up(4e-4, "constant", 0, 100), {0: 4e-4, 50: 4e-4, 10**6: 4e-4}),
        (warm_up(1.0, "constant", 10, 100), {0: 0.1, 4: 0.5, 9: 1.0, 10: 1.0}),
        (warm_up(1.0, "cosine", 10, 100), {0: 0.1, 10: 1.0, 55: 0.5, 100: 0.0, 200: 0.0}),
        (
            Schedule(2.0, warmup_steps=4, drops=(10, 20.5)),
            {0: 0.5, 3: 2.0, 9: 2.0, 10: 0.2, 20: 0.2, 21: 0.02},
        ),
    ],
    ids=["constant", "warm-up", "cosine", "drops"],
)
def test_rates(schedule, wanted):
    rates = [float(schedule(tf.constant(step, tf.int64))) for step in wanted]
    assert rates == pytest.approx([*wanted.values()], abs=1e-6)


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
