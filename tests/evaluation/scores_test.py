"""Scores of one label a picture, and its predictions as text."""

import csv

import numpy as np
import pytest

from cpc_tf.evaluation import class_counts
from cpc_tf.evaluation.label_kinds import SINGLE_LABEL
from cpc_tf.evaluation.predictions import to_csv
from cpc_tf.evaluation.scores import nearest_neighbour_accuracy, score
from cpc_tf.settings import ConfigError

LABELS = np.array([0, 1, 2, 0])


def test_top_1_and_top_5_count_ranks_and_a_tie_is_wrong():
    logits = np.eye(7)[[0, 1, 3, 4]] + np.linspace(0.6, 0, 7)  # ranks of the labels: 0, 0, 3, 1
    assert score(logits, LABELS)["top1"] == 0.5
    assert score(logits, LABELS)["top5"] == 1.0
    assert score(-logits, LABELS)["top5"] == 0.25  # ranks 6, 6, 3, 5
    assert score(np.zeros([4, 3]), LABELS)["top1"] == 0.0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_wrong(bad):
    everything = score(np.full([4, 6], bad), LABELS)
    assert (everything["top1"], everything["top5"]) == (0.0, 0.0)
    logits = np.eye(6)[LABELS]
    logits[1] = bad
    one = score(logits, LABELS)
    assert (one["top1"], one["top5"]) == (0.75, 0.75)
    assert not np.isfinite(one["loss"])


@pytest.mark.parametrize("classes", [5, 6])
def test_of_five_classes_there_is_no_top_5(classes):
    """It is 100 %, whatever the classifier has learned."""
    assert ("top5" in score(np.eye(classes), np.arange(classes))) is (classes == 6)
    old = {"num_classes": classes, "top5": 1.0, "phases": {"frozen": {"top1": 0.5, "top5": 1.0}}}
    assert ("top-5" in SINGLE_LABEL.described(old, "frozen")) is (classes == 6)


def test_a_class_that_is_never_found_shows():
    """Of 40 pictures 2 are defects, and all are called good: 95 % right."""
    labels = np.repeat([0, 1], [2, 38])
    logits = np.tile([0.0, 1.0], [40, 1])
    found, names = score(logits, labels), ["defect", "good"]
    assert (found["top1"], found["right"], found["tested"]) == (0.95, 38, 40)
    assert (found["class_mean"], found["largest_class"]) == (0.5, 0.95)
    result = {"num_classes": 2, **found, "classes": SINGLE_LABEL.classes(logits, labels, names)}
    assert result["classes"]["good"] == {"tested": 38, "predicted": 40, "right": 38}
    assert SINGLE_LABEL.described(result) == "top-1 38 of 40 right (95 %, 83 to 99)"
    assert class_counts.lines(result) == [
        "mean of the classes 50.0 %: defect 0 of 2, good 38 of 38",
        "always good, the largest class: 95.0 %",
    ]
    defect, good = class_counts.of_result(result)
    assert (defect.recall, defect.precision, good.precision) == (0.0, None, 0.95)


def test_neighbours_among_features_that_are_no_numbers_are_not_known():
    features = np.repeat(np.eye(3), 4, axis=0) + np.linspace(0, 0.1, 12)[:, None]
    labels = np.repeat([0, 1, 2], 4)
    assert nearest_neighbour_accuracy(features, labels, 3) == 1.0
    features[5] = np.nan
    assert nearest_neighbour_accuracy(features, labels, 3) is None


def test_images_without_a_label_are_not_scored():
    logits, labels = np.eye(3)[LABELS], np.where(np.arange(len(LABELS)) == 1, -1, LABELS)
    with pytest.raises(ConfigError, match=f"^1 of {len(LABELS)} images to be scored on have no label; another --test_"):
        SINGLE_LABEL.score(logits, labels)


def test_names_of_all_kinds_are_read_back():
    names = ["val/cat/1.jpg", 'a, "b".png', "über/ü.png"]
    logits = np.log(np.array([[0.75, 0.25], [0.5, 0.5], [0.125, 0.875]], np.float32))
    rows = list(csv.DictReader(to_csv(names, logits, np.array([0, 1, 1]), ["10", "=9"]).splitlines()))
    assert [row["file"] for row in rows] == names
    assert [(row["class"], row["prediction"], row["probability"]) for row in rows] == [
        ("10", "10", "0.7500"), ("'=9", "10", "0.5000"), ("'=9", "'=9", "0.8750"),
    ]  # fmt: skip
