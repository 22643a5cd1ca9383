"""Which curves are drawn, how far their axes go, and what is healthy."""

import pytest
from matplotlib.figure import Figure

from cpc_tf.drawing import plots
from cpc_tf.drawing.plots import Line
from cpc_tf.report.curves import Curves
from cpc_tf.report.page import REPORTS
from cpc_tf.report.pretrain import report
from cpc_tf.report.runs import collect
from tests.report import samples

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


def test_healthy_ranges_and_speeds_that_were_not_measured(tmp_path, monkeypatch):
    """A speed of 0 stands for "not measured" and once squeezed all others together at the top of the axis."""
    metrics = samples.metrics(feature_std=0.5, effective_rank=3.0).replace("}", ', "images_per_second": 0}', 1)
    metrics = metrics.replace('"effective_rank": 3.0}', '"effective_rank": 3.0, "images_per_second": 80.0}')
    flags = "--batch_size=4\n--image_size=64\n--resize=64\n--patch_size=16\n--patch_stride=16\n"
    flags += "--steps_to_ignore=0\n--steps_to_predict=1\n"
    samples.write(tmp_path / "run", samples.pretrain(), metrics__jsonl=metrics, run__flags=flags)
    drawn = []
    monkeypatch.setattr(Curves, "figure", lambda curves, *_: drawn.append(curves) or [])
    report(collect(str(tmp_path), REPORTS)[0], "photos")
    (curves,) = drawn
    candidates = 4 * 4 * 4
    assert curves.healthy == {
        "feature_std, training": 0.3,
        "effective rank, training": 1.5,
        "contrastive accuracy, training, %": 1000 / candidates,
    }
    (speed,) = curves.panels["images/s"]
    assert [y for _, y in speed.points] == [80.0, 80.0]
