"""How values are written, what of them a CSV file holds, which curves are drawn, and how far their
axes go.
"""

import pytest
from matplotlib.figure import Figure

from cpc_tf.drawing import plots
from cpc_tf.drawing.plots import Line
from cpc_tf.report.blocks import Gain, Panels, Spread, TableBlock, percent, spread, text
from cpc_tf.report.page import REPORTS
from cpc_tf.report.pretrain import report
from cpc_tf.report.runs import collect
from tests.report import samples

pytestmark = pytest.mark.drawn


def test_cells():
    assert spread([]) is None
    assert text(spread([0.2, 0.4, 0.3])) == "30.0 ±10.0, n=3"
    assert text(spread([0.2])) == text(spread([0.2], 1000)) == "20.0"
    assert [text(spread([0.65], 20)), str(spread([0.65], 20))] == ["65 (43 to 82)"] * 2
    assert text(spread([0.6, 0.7], 200)) == "65.0 ±7.1, n=2 (58 to 72)"
    assert text(spread([0.65], 180, independent=20)) == "65.0 (43 to 82)"  # images in 20 groups
    values = [None, 3, 12345, 0.00123, 1234.6, "word", True, {"a": 1}]
    assert [text(v) for v in values] == [
        "\N{EN DASH}",
        "3",
        "12,345",
        "0.00123",
        "1,235",
        "word",
        "1",
        "{'a': 1}",
    ]
    assert [percent(0.01), percent(0.125), percent(1.0)] == ["1 %", "12.5 %", "100 %"]
    gains = [Gain(5.65), Gain(5.0), Gain(12.3), Gain(0.5), Gain(9.97), Gain(2.0, "more than")]
    assert [text(x) for x in gains] == [
        "5.7×",  # noqa: RUF001
        "5×",  # noqa: RUF001
        "12×",  # noqa: RUF001
        "0.5×",  # noqa: RUF001
        "10×",  # noqa: RUF001
        "more than 2×",  # noqa: RUF001
    ]


def test_table_file_is_unrounded_without_empty_columns():
    labels = {"Method": "labels", "1 %": 10, "2 %": None, "5 %": 3, "source": "aside"}
    ours = {"Method": "ours", "1 %": Spread(1 / 3, 0.25, 0.5, 2, 0.125), "group": "Top-1"}
    shown = TableBlock("t", "T", [labels, ours])
    assert shown.columns == ["Method", "1 %"]
    # percent, as the page has them
    fields = {
        "1 %": 33.3333,
        "1 % low": 25.0,
        "1 % high": 50.0,
        "1 % deviation": 12.5,
        "1 % runs": 2,
    }
    assert shown.data[1] == {"source": "measured", "group": "Top-1", "Method": "ours", **fields}


def test_a_curve_of_one_point_is_not_drawn():
    two, one = Line("a", [(1, 50.0), (2, 100.0)], "cpc"), Line("a", [(1, 3.0)], "cpc")
    (figure,) = Panels({"accuracy": [two], "kNN": [one]}).figure("name", "title", 4, 2)
    assert {row["panel"] for row in figure.data} == {"accuracy"}
    assert Panels({"kNN": [one], "other": []}).figure("name", "title", 4, 2) == []


@pytest.mark.parametrize(("most", "ends"), [({"accuracy": 100}, True), ({}, False)])
def test_an_axis_ends_at_the_largest_possible_value(most, ends):
    canvas = Figure()
    Panels({"accuracy": [Line("a", [(1, 94.0), (2, 100.0)], "cpc")]}, most=most).draw(
        canvas, plots.THEME
    )
    assert bool(canvas.axes[0].get_ylim()[1] == 100) is ends


def test_healthy_ranges_and_speeds_that_were_not_measured(tmp_path, monkeypatch):
    """A speed of 0 stands for "not measured" and once squeezed all others together at the top of
    the axis.
    """
    metrics = samples.metrics(feature_std=0.5, effective_rank=3.0).replace(
        "}", ', "images_per_second": 0}', 1
    )
    metrics = metrics.replace(
        '"effective_rank": 3.0}', '"effective_rank": 3.0, "images_per_second": 80.0}'
    )
    flags = "--batch_size=4\n--image_size=64\n--resize=64\n--patch_size=16\n--patch_stride=16\n"
    flags += "--steps_to_ignore=0\n--steps_to_predict=1\n"
    samples.write(tmp_path / "run", samples.pretrain(), metrics__jsonl=metrics, run__flags=flags)
    drawn = []
    monkeypatch.setattr(Panels, "figure", lambda curves, *_, **__: drawn.append(curves) or [])
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
