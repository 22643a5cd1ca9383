"""The gain in data efficiency: known answers, and the paper's own table."""

import pytest

from cpc_tf.efficient.label_curve import between_measured, interpolated
from cpc_tf.results import paper

BASELINE = [(10, 0.2), (100, 0.4), (1000, 0.5)]


@pytest.mark.parametrize(
    ("labels", "accuracy", "factor", "bound"),
    [
        (10, 0.4, 10, ""),  # a measured point
        (10, 0.3, 10**0.5, ""),  # half way between two, on the log axis
        (100, 0.45, 10**0.5, ""),
        (50, 0.4, 2, ""),
        (1000, 0.4, 0.1, ""),  # the baseline is better
        (10, 0.6, 100, "more than"),
        (1000, 0.6, 1, "more than"),
        (10, 0.2, 1, ""),
        (10, 0.1, 1, "less than"),
    ],
)
def test_interpolated(labels, accuracy, factor, bound):
    gain = interpolated(BASELINE[::-1], labels, accuracy)
    assert gain.factor == pytest.approx(factor)
    assert gain.bound == bound


def test_the_first_crossing_counts_and_without_a_baseline_there_is_no_gain():
    """A baseline that dips later had reached the accuracy before."""
    assert interpolated([(1, 0.1), (10, 0.5), (100, 0.3), (1000, 0.6)], 1, 0.4).factor == pytest.approx(10**0.75)
    assert interpolated([], 10, 0.5) is None
    assert between_measured([], 10, 0.5) is None


def _gains(metric, function):
    table = paper.TABLE_2[metric]
    baseline = list(zip(paper.FRACTIONS, table[paper.PIXELS]))
    return [function(baseline, f, accuracy) for f, accuracy in zip(paper.FRACTIONS, table[paper.CPC])]


def test_between_measured_fractions_is_what_the_paper_prints():
    top1, top5 = ([gain and gain.factor for gain in _gains(m, between_measured)] for m in ("top1", "top5"))
    assert top1 == pytest.approx(paper.GAIN["top1"])
    printed = list(paper.GAIN["top5"])
    printed[3], printed[4] = printed[4], printed[3]  # swapped in the paper
    assert top5 == pytest.approx(printed)


def test_interpolated_on_the_papers_table():
    top1, top5 = _gains("top1", interpolated), _gains("top5", interpolated)
    assert top1[0].factor == pytest.approx(5 * 2 ** ((52.7 - 50.6) / (62.5 - 50.6)))
    assert [round(gain.factor, 1) for gain in top1] == [5.7, 4.4, 3.3, 3.2, 2.8, 2, 1]
    assert [round(gain.factor, 1) for gain in top5] == [6.4, 5, 3.7, 3.1, 2.7, 2, 1]
    assert [gain.bound for gain in top1] == [""] * 5 + ["more than"] * 2
