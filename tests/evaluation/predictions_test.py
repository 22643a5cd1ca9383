"""predictions.csv, and what is read of it."""

import csv

import numpy as np

from cpc_tf.evaluation.predictions import predictions_csv, read_predictions


def test_names_of_all_kinds_are_read_back():
    names = ["val/cat/1.jpg", 'a, "b".png', "über/ü.png"]
    logits = np.log(np.array([[0.75, 0.25], [0.5, 0.5], [0.125, 0.875]], np.float32))
    rows = list(
        csv.DictReader(
            predictions_csv(names, logits, np.array([0, 1, 1]), ["10", "=9"]).splitlines()
        )
    )
    assert [row["file"] for row in rows] == names
    assert [(row["class"], row["prediction"], row["probability"]) for row in rows] == [
        ("10", "10", "0.7500"), ("'=9", "10", "0.5000"), ("'=9", "'=9", "0.8750"),
    ]  # fmt: skip


def test_names_of_classes_are_those_of_the_result():
    """Also those that look like indices, or like the formulas that they must not become."""
    names = ["10", "2", "=cmd|' calc'!A0", "a, b"]
    text = predictions_csv(["=1.png", "b;c.png"], np.eye(4)[[2, 0]], np.array([1, 3]), names)
    found = read_predictions(text, names)
    assert found.pairs.tolist() == [[1, 2], [3, 0]]
    assert found.files == ["=1.png", "b;c.png"]
    assert read_predictions(text, names[1:]) is None


def test_what_is_no_prediction_is_none():
    for text in ("", "cat,x", "cat", "cat;dog,cat"):
        assert read_predictions(f"class,prediction\n{text}\n", ["cat", "dog"]) is None
