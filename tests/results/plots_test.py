"""Which curves are drawn, and how far their axes go."""

import pytest
from matplotlib.figure import Figure

from cpc_tf.results import plots
from cpc_tf.results.plots import Curves, Line

pytestmark = pytest.mark.drawn


def test_a_curve_of_one_point_is_not_drawn():
    two, one = Line("a", [(1, 50.0), (2, 100.0)], "cpc"), Line("a", [(1, 3.0)], "cpc")
    (figure,) = Curves({"accuracy": [two], "kNN": [one]}, 2).figure("name", "title", 4, 2)
    assert {row["panel"] for row in figure.data} == {"accuracy"}
    assert Curves({"kNN": [one], "other": []}, 2).figure("name", "title", 4, 2) == []


@pytest.mark.parametrize(("most", "ends"), [({"accuracy": 100}, True), ({}, False)])
def test_an_axis_ends_at_the_largest_possible_value(most, ends):
    canvas = Figure()
    Curves({"accuracy": [Line("a", [(1, 94.0), (2, 100.0)], "cpc")]}, 1, most=most).draw(canvas, plots.THEME)
    assert bool(canvas.axes[0].get_ylim()[1] == 100) is ends


def test_names_fit_their_pictures():
    names = ["cat", "IMG_20230915_WA0007.JPG", "犬の写真がたくさん"]
    assert plots.shortened(names, 12) == ["cat", "IMG_2023091…", "犬の写真が…"]
    assert plots.shortened(names, 12, ends=True) == ["cat", "…_WA0007.JPG", "…がたくさん"]
