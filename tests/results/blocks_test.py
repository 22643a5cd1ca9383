"""How values are written, and what of them a CSV file holds."""

import csv
import io

from cpc_tf.results.blocks import Gain, Row, Spread, Table, paper_rows, percent, spread, text, to_csv


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


def test_the_papers_floats_are_percent_and_a_tables_file_is_unrounded():
    (theirs,) = paper_rows({"Transfer": (("Deep Cluster", 23.1, 24, None),)}, " (paper)")
    assert (theirs.source, theirs.group) == ("paper", "Transfer (paper)")
    assert [text(value) for value in theirs.values] == ["Deep Cluster", "23.1", "24", "\N{EN DASH}"]
    ours = Row(["ours", Spread(1 / 3, 0.25, 0.5, 2)], group="Top-1")
    data = Table("t", "T", ["Method", "1 %"], [ours, theirs]).data
    shown = {"1 %": 33.3333, "1 % low": 25.0, "1 % high": 50.0, "1 % runs": 2}  # percent, as the page has them
    assert data[0] == {"source": "measured", "group": "Top-1", "Method": "ours", **shown}
    assert data[1]["1 %"] == 23.1
    assert to_csv(data).splitlines()[0] == "source,group,Method,1 %,1 % low,1 % high,1 % runs"


def test_without_the_papers_rows_the_columns_that_they_alone_fill_are_gone():
    ours, labels = Row(["ours", spread([0.5]), None, None]), Row(["labels", 10, None, 3], "aside")
    theirs = Row(["theirs", spread([0.2]), spread([0.3]), None], "paper")
    own = Table("t", "T", ["Method", "1 %", "2 %", "5 %"], [labels, ours, theirs], "a note", "table 2").own
    assert own.columns == ["Method", "1 %"]
    assert [row.values for row in own.rows] == [["labels", 10], ["ours", spread([0.5])]]
    assert (own.note, own.paper) == ("a note", "table 2")


def test_a_cell_that_begins_a_formula_is_a_text_and_others_are_as_they_are():
    formulas = ["=1+1", "@SUM(A1)", "+1+cmd|'/C calc'!A0", "-cmd", " =1", "\t=1", "\r=1", "+4 in"]
    for value in (*formulas, "a=b", "+5%", "-1.2", "", -1.5, None, "cat"):
        wanted = "'" + value.replace("\r", " ") if value in formulas else "" if value is None else str(value)
        (head, row) = csv.reader(io.StringIO(to_csv([{"name": value, "other": 1}]), newline=""))
        assert row == [wanted, "1"]
        assert head == ["name", "other"]
        if value in formulas:
            assert next(csv.reader(io.StringIO(to_csv([{value: 1}]), newline=""))) == [wanted]
