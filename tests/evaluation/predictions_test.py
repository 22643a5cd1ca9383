import csv

import numpy as np

from cpc_tf.evaluation.predictions import to_csv


def test_names_of_all_kinds_are_read_back():
    names = ["val/cat/1.jpg", 'a, "b".png', "über/ü.png"]
    logits = np.log(np.array([[0.75, 0.25], [0.5, 0.5], [0.125, 0.875]], np.float32))
    rows = list(csv.DictReader(to_csv(names, logits, np.array([0, 1, 1])).splitlines()))
    assert [row["file"] for row in rows] == names
    assert [(row["label"], row["prediction"], row["probability"]) for row in rows] == [
        ("0", "0", "0.7500"), ("1", "0", "0.5000"), ("1", "1", "0.8750"),
    ]  # fmt: skip
