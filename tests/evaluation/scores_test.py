"""Scores and calibration of single-label and multi-label classifiers, against scikit-learn and
papers' formulas.
"""

import numpy as np
import pytest
from sklearn import metrics

from cpc_tf.evaluation.label_kinds import MULTI_LABEL
from cpc_tf.evaluation.neighbours import nearest_neighbour_accuracy
from cpc_tf.evaluation.scores import (
    calibration,
    expected_calibration_error,
    fitted_temperature,
    multi_label_score,
    probabilities,
    score,
)

LABELS = np.array([0, 1, 2, 0])


def test_top_k_counts_ranks_with_first_of_ties():
    logits = np.eye(7)[[0, 1, 3, 4]] + np.linspace(0.6, 0, 7)  # ranks of the labels: 0, 0, 3, 1
    assert score(logits, LABELS)["top1"] == 0.5
    assert score(logits, LABELS)["top5"] == 1.0
    assert score(-logits, LABELS)["top5"] == 0.25  # ranks 6, 6, 3, 5
    assert score(np.zeros([4, 3]), LABELS)["top1"] == np.mean(LABELS == 0)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_wrong(bad):
    everything = score(np.full([4, 6], bad), LABELS)
    assert (everything["top1"], everything["top5"]) == (0.0, 0.0)
    logits = np.eye(6)[LABELS]
    logits[1] = bad
    one = score(logits, LABELS)
    assert (one["top1"], one["top5"]) == (0.75, 0.75)
    assert not np.isfinite(one["loss"])


def test_neighbours_of_nan_features_are_unknown():
    features = np.repeat(np.eye(3), 4, axis=0) + np.linspace(0, 0.1, 12)[:, None]
    labels = np.repeat([0, 1, 2], 4)
    assert nearest_neighbour_accuracy(features, labels, 3) == 1.0
    features[5] = np.nan
    assert nearest_neighbour_accuracy(features, labels, 3) is None


@pytest.mark.parametrize("levels", [2, 1000])  # few levels: many ties
def test_scores_are_those_of_scikit_learn(levels):
    random = np.random.default_rng(levels)
    labels = (random.random([60, 7]) < 0.3).astype(np.float32)
    logits = (10 * random.integers(0, levels, [60, 7]) / levels - 4).astype(np.float32)
    found, shares = multi_label_score(logits, labels), 1 / (1 + np.exp(-logits.astype(np.float64)))
    assert found["map"] == pytest.approx(
        metrics.average_precision_score(labels, logits, average="macro"), abs=1e-12
    )
    assert found["micro_f1"] == pytest.approx(
        metrics.f1_score(labels, shares > 0.5, average="micro"), abs=1e-12
    )
    cross_entropy = -np.mean(labels * np.log(shares) + (1 - labels) * np.log1p(-shares))
    assert found["loss"] == pytest.approx(cross_entropy)
    assert MULTI_LABEL.metrics(logits, labels)["loss"].numpy() == pytest.approx(
        found["loss"], rel=1e-5
    )


def test_classes_without_positives_are_left_out_and_counted():
    labels = np.array([[1, 0, 0], [0, 0, 1], [0, 0, 1.0]])
    logits = np.array([[3, 9, -1], [-1, 9, 1], [-2, 9, -3.0]])
    found = multi_label_score(logits, labels)
    assert found["map"] == pytest.approx((1 + (1 / 1 + 2 / 3) / 2) / 2)
    assert found["classes_left_out"] == 1
    assert found["map_chance"] == pytest.approx((1 / 3 + 2 / 3) / 2)
    assert multi_label_score(logits, np.zeros([3, 3]))["map"] == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_no_number_ranks_last(bad):
    logits = np.array([[5.0, 1], [bad, 0], [-5, -1]])
    labels = np.array([[0.0, 1], [1, 0], [0, 0]])
    found = multi_label_score(logits, labels)
    assert found["map"] == pytest.approx((1 / 3 + 1) / 2)
    assert not np.isfinite(found["loss"])


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
    errors = calibration(logits, labels, 100, found)
    assert errors["tested"] == len(labels)
    assert errors["ece"] < 0.015
    assert errors["ece_before"] > 0.05 or temperature == 1
    assert (errors["temperature"], errors["held_out"], errors["fitted"]) == (found, 100, True)


def test_the_temperature_of_multi_label_pictures_is_found():
    random = np.random.default_rng(0)
    logits = random.normal(0, 2, [2000, 10])
    labels = (random.random(logits.shape) < 1 / (1 + np.exp(-logits / 3))).astype(np.float32)
    assert fitted_temperature(*MULTI_LABEL.choices(logits, labels)) == pytest.approx(3, rel=0.05)


@pytest.mark.parametrize("count", [3, 24, 200])
def test_a_classifier_without_an_error_is_not_certain(count):
    """Laplace's rule of succession: after 24 of 24 the next is right with a probability of 25 of
    26.
    """
    logits = np.eye(3, dtype=np.float32)[np.arange(count) % 3]
    temperature = fitted_temperature(logits, np.arange(count) % 3)
    assert probabilities(logits, temperature).max(1).mean() == pytest.approx(
        (count + 1) / (count + 2), abs=1e-6
    )


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
