"""The result of a comparison: which trial counts, and what is told apart."""

import pytest
from scipy import stats

from cpc_tf.compare import summary

DRAWS = {"near": [0.7, 0.72, 0.69, 0.75, 0.7], "far": [0.5, 0.51, 0.49, 0.52, 0.5]}


def worth(draws, chosen_by=0.5):
    return {"chosen_by": chosen_by, "neighbours": 0.6, "few_labels": {"5": draws}}


def test_trial_is_chosen_by_other_images():
    better_on_test = worth([0.9] * 5, chosen_by=0.4)
    better_where_chosen = worth([0.1] * 5, chosen_by=0.5)
    trained = {("cpc", "paper"): better_on_test, ("cpc", "short"): better_where_chosen}
    (row,) = summary.rows(trained, {})
    assert (row.trial, row.accuracy("5")) == ("short", pytest.approx(0.1))


def test_interval_is_that_of_a_paired_t_test():
    one, other = (summary.Row("x", "paper", 0.0, {"5": DRAWS[name]}) for name in ("near", "far"))
    expected = stats.ttest_rel(DRAWS["near"], DRAWS["far"]).confidence_interval(0.95)
    assert summary.ahead(one, other, "5") == pytest.approx(tuple(expected))


def test_text_names_what_cannot_be_told_apart():
    trained = {
        ("cpc", "paper"): worth([0.72, 0.7, 0.71, 0.74, 0.7]),
        ("moco", "paper"): worth(DRAWS["near"]),
        ("byol", "paper"): worth(DRAWS["far"]),
    }
    rows = summary.rows(trained, {"untrained": worth([0.2] * 5)})
    assert "CPC is best; MoCo cannot be told apart" in summary.text(rows, 20)
    assert summary.picture(rows)[1:4] == b"PNG"
