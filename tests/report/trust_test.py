"""The reliability diagram: which points it has, and what its caption says."""

import numpy as np
import pytest

from cpc_tf.evaluation.predictions import Predictions
from cpc_tf.report.runs import Run
from cpc_tf.report.trust import reliability, trust
from tests.report import samples

pytestmark = [pytest.mark.drawn, pytest.mark.usefixtures("undrawn")]

SAID = np.repeat([0.55, 0.95], [20, 20])
RIGHT = np.r_[np.arange(20) % 2, np.ones(20, int)]
PREDICTIONS = Predictions(np.ones(40, int), RIGHT, SAID)


def test_each_point_stands_for_as_many_pictures():
    said, right, low, high, pictures = zip(*reliability(PREDICTIONS))
    assert pictures == (10, 10, 10, 10)
    assert said == pytest.approx((0.55, 0.55, 0.95, 0.95))
    assert right == (0.5, 0.5, 1.0, 1.0)
    assert [round(x, 2) for x in (low[0], high[0], low[3], high[3])] == [0.24, 0.76, 0.72, 1.0]


@pytest.mark.parametrize(
    ("calibration", "ends"),
    [
        (
            {"fitted": True, "temperature": 1.6, "ece_before": 0.123, "ece": 0.04},
            "temperature 1.6, which changes the",
        ),
        (
            {"fitted": False, "temperature": 1.0, "ece_before": 0.3, "ece": 0.3},
            "its vertical line is the 95 % confidence interval.",
        ),
        (
            {"fitted": True, "temperature": "x"},
            "its vertical line is the 95 % confidence interval.",
        ),
    ],
)
def test_the_caption(calibration, ends):
    ((figure,),) = (
        part.blocks
        for part in trust(
            samples.run({**samples.linear(), "calibration": calibration}), PREDICTIONS
        )
    )
    assert figure.title.startswith(
        "Of the 20 images that it was at least 90 % sure of, 20 are right."
    )
    assert ends in figure.title
    assert len(figure.data) == 4


def test_a_diagram_of_few_pictures_says_nothing():
    few = Predictions(PREDICTIONS.labels[:19], PREDICTIONS.guesses[:19], SAID[:19])
    assert trust(Run(samples.linear(), "x"), few) == trust(Run(samples.linear(), "x"), None) == []
