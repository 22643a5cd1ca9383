"""Linear classifiers: a ladder's rungs are tested on what their encoders saw."""

from cpc_tf.report import linear
from tests.report import samples


def test_single_channel_rung_shows_colour_result_beside_it():
    runs = [
        samples.run(samples.linear(f"runs/{rung}/hub", top1, rung=rung, **more))
        for rung, top1, more in (
            ("4_ln", 0.5, {}),
            ("5_rc", 0.31, {"top5": 0.6, "by_channel": {"top1": 0.55, "top5": 0.8, "loss": 1.2}}),
        )
    ]
    *_, table = linear.ladder(runs)
    assert table.columns[3:6] == [
        "Right (top-1), %",
        "Among its first five (top-5), %",
        "Top-1 in colour, %",
    ]
    shown = [[str(row.get(column) or "-") for column in table.columns] for row in table.rows]
    assert [row[0] for row in shown] == ["4_ln", "5_rc"]
    assert [row[3:6] for row in shown] == [["50.0", "100.0", "-"], ["55.0", "80.0", "31.0"]]
    assert "one channel at a time" in table.note
    assert runs[1]["top1"] == 0.31
    *_, without = linear.ladder(runs[:1])
    assert len(without.columns) == len(table.columns) - 1
