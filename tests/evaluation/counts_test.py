"""What a share of few images tells."""

import numpy as np
import pytest

from cpc_tf.evaluation import counts


@pytest.mark.parametrize(
    ("right", "of", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_the_interval_is_wilsons(right, of, low, high):
    """Table I, method 3, of Newcombe 1998 (Statistics in Medicine 17)."""
    assert counts.interval(right, of) == pytest.approx((low, high), abs=5e-5)
    assert counts.interval(of - right, of) == pytest.approx((1 - high, 1 - low), abs=5e-5)


def test_a_share_as_text():
    assert counts.share_text(13 / 20, 20) == "13 of 20 right (65 %, 43 to 82)"
    assert counts.share_text(786 / 950, 950) == "786 of 950 right (82.7 %, 80 to 86)"
    assert counts.share_text(1.0, 1) == "1 of 1 right (100 %, 20 to 100)"
    assert counts.share_text(0.8123, 1000) == counts.share_text(0.8123, 0) == "81.2 %"


def test_interval_counts_each_group_once():
    assert counts.effective_count(np.repeat(np.arange(30), 6)) == pytest.approx(30)
    assert counts.effective_count(np.arange(12)) == 12
    assert counts.share_text(0.5, 180, effective=30.0) == "90 of 180 right (50.0 %, 33 to 67)"


def test_the_interval_of_groups_holds_the_truth():
    """Groups of six that are right or wrong together: 95 % of the intervals hold the truth, 47 % of
    naive ones.
    """
    random = np.random.default_rng(0)
    held = {"by groups": 0, "by images": 0}
    effective = counts.effective_count(np.repeat(np.arange(30), 6))
    for _ in range(1000):
        share = float((random.random(30) < 0.7).mean())
        for name, count in (("by groups", effective), ("by images", 180)):
            low, high = counts.interval(share * count, count)
            held[name] += low <= 0.7 <= high
    assert 915 <= held["by groups"] <= 980
    assert held["by images"] < 700


def test_few_pictures_are_called_few():
    said = (
        "only 20 test images: a difference of less than about 31 points between two runs may be"
        " chance"
    )
    assert counts.caution(20) == said
    assert counts.caution(1).startswith(
        "only 1 test image: a difference of less than about 100 points"
    )
    assert "the mAP is a rough guide" in counts.caution(8, accuracy=False)
    assert counts.caution(30) == counts.caution(0) == ""
