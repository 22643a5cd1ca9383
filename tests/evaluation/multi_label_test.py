"""Multi-label scores against scikit-learn."""

import numpy as np
import pytest
from sklearn import metrics

from cpc_tf.evaluation import class_counts
from cpc_tf.evaluation.calibration import fitted_temperature
from cpc_tf.evaluation.label_kinds import MULTI_LABEL, SINGLE_LABEL, of_result
from cpc_tf.evaluation.scores import multi_label_score as score


@pytest.mark.parametrize("levels", [2, 1000])  # few levels: many ties
def test_scores_are_those_of_scikit_learn(levels):
    random = np.random.default_rng(levels)
    labels = (random.random([60, 7]) < 0.3).astype(np.float32)
    logits = (10 * random.integers(0, levels, [60, 7]) / levels - 4).astype(np.float32)
    found, shares = score(logits, labels), 1 / (1 + np.exp(-logits.astype(np.float64)))
    assert found["map"] == pytest.approx(metrics.average_precision_score(labels, logits, average="macro"), abs=1e-12)
    assert found["micro_f1"] == pytest.approx(metrics.f1_score(labels, shares > 0.5, average="micro"), abs=1e-12)
    cross_entropy = -np.mean(labels * np.log(shares) + (1 - labels) * np.log1p(-shares))
    assert found["loss"] == pytest.approx(cross_entropy)
    assert MULTI_LABEL.metrics(logits, labels)["loss"].numpy() == pytest.approx(found["loss"], rel=1e-5)


def test_classes_without_positives_are_left_out_and_counted():
    labels = np.array([[1, 0, 0], [0, 0, 1], [0, 0, 1.0]])
    logits = np.array([[3, 9, -1], [-1, 9, 1], [-2, 9, -3.0]])
    found = score(logits, labels)
    assert found["map"] == pytest.approx((1 + (1 / 1 + 2 / 3) / 2) / 2)
    assert found["classes_left_out"] == 1
    assert found["map_chance"] == pytest.approx((1 / 3 + 2 / 3) / 2)
    assert score(logits, np.zeros([3, 3]))["map"] == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_no_number_ranks_last(bad):
    logits = np.array([[5.0, 1], [bad, 0], [-5, -1]])
    labels = np.array([[0.0, 1], [1, 0], [0, 0]])
    found = score(logits, labels)
    assert found["map"] == pytest.approx((1 / 3 + 1) / 2)
    assert not np.isfinite(found["loss"])


def test_predictions_as_text():
    logits = np.array([[1.0, -1, 2], [-1, -1, -1]])
    labels, names = np.array([[1, 1, 0], [0, 0, 1]]), ["cat", "dog", "sky"]
    assert MULTI_LABEL.rows(logits, labels, names) == [("cat;dog", "cat;sky", "0.7311;0.8808"), ("sky", "", "")]
    result = {"multi_label": True, "map": 0.5, "micro_f1": 0.25, "tested": 54}
    assert MULTI_LABEL.described(result) == "mAP 50.0 % (54 pictures)  micro-F1 25.0 %"
    assert of_result(result) is of_result({"several_labels": True}) is MULTI_LABEL  # the key of earlier versions
    assert of_result({"several_labels": False}) is of_result({}) is SINGLE_LABEL
    classes = MULTI_LABEL.classes(logits, labels, names)
    assert classes["sky"] == {"tested": 1, "predicted": 1, "right": 0}
    said = "found at a probability of 0.5: dog 0 of 1, sky 0 of 1, cat 1 of 1"
    assert class_counts.lines({**result, "classes": classes}) == [said]


def test_the_temperature_that_labels_were_drawn_with():
    random = np.random.default_rng(0)
    logits = random.normal(0, 2, [2000, 10])
    labels = (random.random(logits.shape) < 1 / (1 + np.exp(-logits / 3))).astype(np.float32)
    assert fitted_temperature(*MULTI_LABEL.choices(logits, labels)) == pytest.approx(3, rel=0.05)
