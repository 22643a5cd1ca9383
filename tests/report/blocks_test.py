"""How values are written, and what of them a CSV file holds."""

from cpc_tf.report.blocks import Gain, Row, Spread, percent, spread, table, text


def test_cells():
    assert spread([]) is None
    assert text(spread([0.2, 0.4, 0.3])) == "30.0 ±10.0"
    assert text(spread([0.2])) == text(spread([0.2], 1000)) == "20.0"
    assert [text(spread([0.65], 20)), str(spread([0.65], 20))] == ["65 (43 to 82)"] * 2
    assert text(spread([0.6, 0.7], 200)) == "65.0 ±5.0 (58 to 71)"
    values = [None, 3, 12345, 0.00123, 1234.6, "word", True, {"a": 1}]
    assert [text(v) for v in values] == ["\N{EN DASH}", "3", "12,345", "0.00123", "1,235", "word", "1", "{'a': 1}"]
    assert [percent(0.01), percent(0.125), percent(1.0)] == ["1 %", "12.5 %", "100 %"]
    gains = [Gain(5.65), Gain(5.0), Gain(12.3), Gain(0.5), Gain(9.97), Gain(2.0, "more than")]
    assert [text(x) for x in gains] == ["5.7×", "5×", "12×", "0.5×", "10×", "more than 2×"]  # noqa: RUF001


def test_the_file_of_a_table_is_unrounded_and_empty_columns_are_gone():
    labels, ours = Row(["labels", 10, None, 3], "aside"), Row(["ours", Spread(1 / 3, 0.25, 0.5, 2), None, None])
    shown = table("t", "T", ["Method", "1 %", "2 %", "5 %"], [labels, ours._replace(group="Top-1")])
    assert shown.columns == ["Method", "1 %"]
    fields = {"1 %": 33.3333, "1 % low": 25.0, "1 % high": 50.0, "1 % runs": 2}  # percent, as the page has them
    assert shown.data[1] == {"source": "measured", "group": "Top-1", "Method": "ours", **fields}
