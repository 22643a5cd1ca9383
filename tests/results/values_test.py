"""How values are written, and what of them a CSV file holds."""

import pytest

from cpc_tf.results.blocks import Row, Table, to_csv
from cpc_tf.results.values import Spread, cell, duration, percent, plain, printed, spread
from tests.results.samples import text


def test_spread():
    assert spread([0.2, 0.4, 0.3]) == (pytest.approx(0.3), 0.2, 0.4, 3)
    assert spread([]) is None
    assert text(spread([0.2, 0.4, 0.3])) == "30.0 ±10.0"
    assert text(spread([0.2])) == "20.0"


def test_cells():
    values = [None, 3, 12345, 0.00123, 1234.6, "word", True, {"a": 1}]
    assert [text(v) for v in values] == ["\N{EN DASH}", "3", "12,345", "0.00123", "1,235", "word", "1", "{'a': 1}"]
    assert cell(printed(23.1)).text == "23.1"
    assert [printed(24), printed(None), printed("Fast: VGG-16")] == [24, None, "Fast: VGG-16"]
    assert [percent(0.01), percent(0.125), percent(1.0)] == ["1 %", "12.5 %", "100 %"]
    assert [duration(s) for s in (9, 90, 5400)] == ["9 s", "2 min", "1.5 h"]


def test_a_tables_file_is_unrounded():
    rows = [
        Row(["Top-1"], "group"),
        Row(["ours", Spread(1 / 3, 0.25, 0.5, 2)]),
        Row(["theirs", printed(23.1)], "paper"),
    ]
    data = Table("t", "T", ["Method", "1 %"], rows).data
    assert data[0] == {"source": "measured", "group": "Top-1", "Method": "ours", **plain("1 %", rows[1].values[1])}
    assert (data[0]["1 %"], data[0]["1 % low"], data[0]["1 % runs"]) == (0.333333, 0.25, 2)
    assert data[1]["1 %"] == 0.231
    assert to_csv(data).splitlines()[0] == "source,group,Method,1 %,1 % low,1 % high,1 % runs"
