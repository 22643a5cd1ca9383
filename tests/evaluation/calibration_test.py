"""Temperature and calibration error, against what the paper's formulas give when they are written out."""

import numpy as np
import pytest

from cpc_tf.evaluation.calibration import expected_calibration_error, fitted_temperature, measured, probabilities


def drawn(temperature, count=20_000, classes=4):
    """Logits that are too large by a factor, and labels drawn from what they should say."""
    random = np.random.default_rng(0)
    logits = random.normal(0, 2, [count, classes])
    right = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    labels = (right.cumsum(1) < random.uniform(size=[count, 1])).sum(1)
    return (temperature * logits).astype(np.float32), labels


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_the_temperature_is_found_and_mends_the_error(temperature):
    logits, labels = drawn(temperature)
    found = fitted_temperature(logits, labels)
    assert found == pytest.approx(temperature, rel=0.03)

    def loss(t):
        return -np.log(probabilities(logits, t)[np.arange(len(labels)), labels]).mean()

    assert loss(found) <= min(loss(found * 1.001), loss(found / 1.001))
    errors = measured(logits, labels, 100, found)
    assert errors["tested"] == len(labels)
    assert errors["ece"] < 0.015
    assert errors["ece_before"] > 0.05 or temperature == 1
    assert (errors["temperature"], errors["held_out"], errors["fitted"]) == (found, 100, True)


def test_nothing_is_fitted_where_all_is_right():
    logits = np.eye(3, dtype=np.float32)
    assert fitted_temperature(logits, np.arange(3)) is None
    errors = measured(logits, np.arange(3), 3)
    assert (errors["temperature"], errors["fitted"]) == (1.0, False)
    assert errors["ece"] == errors["ece_before"] > 0


def test_it_stays_finite():
    large = np.array([[1e4, 0.0], [1e4, 0.0]], np.float32)
    assert fitted_temperature(large, np.array([0, 1])) == pytest.approx(20, rel=1e-3)
    assert np.isfinite(probabilities(large)).all()


def test_the_error_is_the_papers():
    random = np.random.default_rng(1)
    shares = random.dirichlet([0.3] * 5, 400)
    shares[:3] = [[1, 0, 0, 0, 0], [0.2] * 5, [0.8, 0.2, 0, 0, 0]]  # the last is an edge of a bin
    labels = random.integers(0, 5, 400)
    total = 0.0
    for i in range(15):
        inside = [n for n in range(400) if i / 15 < shares[n].max() <= (i + 1) / 15]
        if inside:
            accuracy = np.mean([shares[n].argmax() == labels[n] for n in inside])
            total += len(inside) / 400 * abs(accuracy - np.mean([shares[n].max() for n in inside]))
    assert expected_calibration_error(shares, labels) == pytest.approx(total, rel=1e-9)
