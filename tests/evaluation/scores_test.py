"""Scores of one label a picture, and its predictions as text."""

import csv

import numpy as np
import pytest

from cpc_tf.evaluation.neighbours import nearest_neighbour_accuracy
from cpc_tf.evaluation.predictions import to_csv
from cpc_tf.evaluation.scores import score

LABELS = np.array([0, 1, 2, 0])


def test_top_1_and_top_5_count_ranks():
    logits = np.eye(7)[[0, 1, 3, 4]] + np.linspace(0.6, 0, 7)  # ranks of the labels: 0, 0, 3, 1
    assert score(logits, LABELS)["top1"] == 0.5
    assert score(logits, LABELS)["top5"] == 1.0
    assert score(-logits, LABELS)["top5"] == 0.25  # ranks 6, 6, 3, 5


def test_a_tie_is_wrong():
    assert score(np.zeros([4, 3]), LABELS)["top1"] == 0.0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_wrong(bad):
    """Of three classes, too, where every finite guess is among the best five."""
    everything = score(np.full([4, 3], bad), LABELS)
    assert (everything["top1"], everything["top5"]) == (0.0, 0.0)
    logits = np.eye(3)[LABELS]
    logits[1] = bad
    one = score(logits, LABELS)
    assert (one["top1"], one["top5"]) == (0.75, 0.75)
    assert not np.isfinite(one["loss"])


def test_neighbours_among_features_that_are_no_numbers_are_wrong():
    features = np.repeat(np.eye(3), 4, axis=0) + np.linspace(0, 0.1, 12)[:, None]
    labels = np.repeat([0, 1, 2], 4)
    assert nearest_neighbour_accuracy(features, labels, 3) == 1.0
    features[5] = np.nan
    assert nearest_neighbour_accuracy(features, labels, 3) == 0.0


def test_names_of_all_kinds_are_read_back():
    names = ["val/cat/1.jpg", 'a, "b".png', "über/ü.png"]
    logits = np.log(np.array([[0.75, 0.25], [0.5, 0.5], [0.125, 0.875]], np.float32))
    rows = list(csv.DictReader(to_csv(names, logits, np.array([0, 1, 1]), ["10", "=9"]).splitlines()))
    assert [row["file"] for row in rows] == names
    assert [(row["class"], row["predicted"], row["probability"]) for row in rows] == [
        ("10", "10", "0.7500"), ("'=9", "10", "0.5000"), ("'=9", "'=9", "0.8750"),
    ]  # fmt: skip
