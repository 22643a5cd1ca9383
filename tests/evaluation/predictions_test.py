"""predictions.csv: what is written is read, and what is no such table is None."""

import numpy as np

from cpc_tf.evaluation.predictions import from_csv, to_csv

GOOD = "file,label,prediction,probability\na/1.png,1,2,0.9031\na/2.png,0,0,0.4\n"


def test_names_of_classes_are_those_of_the_result():
    """Also those that look like indices, or like the formulas that they must not become."""
    names = ["10", "2", "=cmd|' calc'!A0", "a, b"]
    text = to_csv(["=1.png", "b;c.png"], np.eye(4)[[2, 0]], np.array([1, 3]), names)
    found = from_csv(text, names)
    assert found.pairs.tolist() == [[1, 2], [3, 0]]
    assert found.files == ["=1.png", "b;c.png"]
    assert from_csv(text, names[1:]) is None


def test_tables_of_earlier_versions_are_read():
    found = from_csv(GOOD, [])
    assert found.pairs.tolist() == [[1, 2], [0, 0]]
    assert found.record(0) == {"file": "a/1.png", "label": 1, "prediction": 2, "probability": 0.9031}
    found = from_csv("label,prediction\n1,2\n0,0\n", [])
    assert found.pairs.tolist() == [[1, 2], [0, 0]]
    assert found.probabilities is None


def test_what_is_no_prediction_is_none():
    for text in ("", "1,x", "1", "-1,0", "0;3,1", f"{10**30},1"):
        assert from_csv(f"label,prediction\n{text}\n", []) is None
