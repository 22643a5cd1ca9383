"""Table 1, the ladder, the study of augmentations, and what is missing."""

import pytest

from cpc_tf.linear.report import report
from cpc_tf.results.blocks import Finding, Table
from cpc_tf.results.runs import collect
from cpc_tf.tasks import TASKS
from tests.results import samples

pytestmark = pytest.mark.usefixtures("undrawn")
NO = "\N{EN DASH}"


@pytest.fixture
def runs(tmp_path):
    samples.all_kinds(tmp_path)
    return [run for run in collect(str(tmp_path), TASKS)[0] if run["kind"] == "linear"]


def _linear(*arguments, **more):
    return samples.run(samples.linear(*arguments, **more))


def _findings(runs):
    return [finding for part in report(runs, "photos") for finding in part.findings]


def test_table_1(runs):
    (table,) = samples.blocks(report(runs, "photos"), "linear")
    assert table.columns == ["Method", "Params (M)", "Top-1", "Top-5"]
    assert samples.rows(table, "measured") == {
        "CPC v2 - small ResNet": ["0.218", "90.0", "100.0"],
        "random encoder - small ResNet": ["0.218", "80.0", "100.0"],
        "pixels": [NO, "40.0", "100.0"],
    }
    assert samples.rows(table, "aside") == {"chance": [NO, "33.3", "100.0"]}
    assert samples.rows(table, "paper")["CPC v2 - ResNet-161"] == ["305", "71.5", "90.1"]
    values = {"CPC v2": "90.0", "random encoder": "80.0", "pixels": "40.0"}
    assert _findings(runs) == [Finding("linear classifier, top-1", values)]


def test_the_finding_is_of_the_best_encoder_and_says_if_its_run_was_short():
    runs = [_linear(f"runs/{name}/hub", top1) for name, top1 in (("a", 0.8), ("b", 0.9), ("c", 0.7))]
    (found,) = _findings(runs)
    assert (found.values, found.remark) == ({"CPC v2 (runs/b/hub)": "90.0"}, "the best of 3 encoders")
    assert _findings([_linear(steps=10)])[0].remark == "short run (10 of the preset's 625 steps)"


def test_the_ladder():
    runs = [_linear(f"runs/{rung}/hub", top1, seed, rung=rung)
            for rung, top1, seed in (("v1", 0.5, 0), ("v1", 0.54, 1), ("MC", 0.6, 0), ("LN", 0.7, 0))]  # fmt: skip
    figure, table = samples.blocks(report(runs, "photos"), "rungs")
    rows = samples.rows(table, "measured")
    assert rows["v1"] == ["CPC v1", "52.0 ±2.0", NO, NO]
    assert rows["MC"] == ["model capacity", "60.0", "+8.0", "+5%"]
    assert rows["LN"][1:3] == ["70.0", NO]  # BU is missing below it
    assert "v1 52.0 %; MC 60.0 %; LN 70.0 %" in figure.alt
    assert samples.blocks(report([_linear()], "photos"), "rungs") == []


def test_the_rung_is_what_a_record_states():
    """A directory's name made a rung of a result once."""
    runs = [_linear("runs/ablation/3_bu/hub"), _linear("runs/x/hub", rung="nonsense", seed=1)]
    assert samples.blocks(report(runs, "photos"), "rungs") == []


def test_a_rung_of_other_settings_is_left_out_and_named():
    runs = [_linear(f"runs/{seed}/hub", top1, seed, rung="v1", steps=steps)
            for seed, (top1, steps) in enumerate(((0.5, 625), (0.6, 625), (0.1, 10)))]  # fmt: skip
    _, table = samples.blocks(report(runs, "photos"), "rungs")
    assert samples.rows(table, "measured")["v1"][1] == "55.0 ±5.0"
    assert table.note.endswith("Runs of other settings are left out of the means: v1 (10 steps).")


def test_policies_of_other_settings_have_rows_of_their_own():
    runs = [_linear(top1=top1, policy="v1", seed=n, steps=s) for n, (top1, s) in enumerate(((0.5, 900), (0.9, 90)))]
    (table,) = [block for block in samples.blocks(report(runs, "photos"), "linear") if isinstance(block, Table)]
    assert [row.values[0] for row in table.rows] == ["v1 (90 steps)", "v1"]


def test_policies():
    runs = [
        _linear(top1=top1, policy=name, seed=seed)
        for name, top1, seed in (("v1", 0.5, 0), ("v1", 0.7, 1), ("full", 0.9, 0))
    ]
    (table,) = [block for block in samples.blocks(report(runs, "photos"), "linear") if isinstance(block, Table)]
    assert [row.values[0] for row in table.rows] == ["full", "v1"]
    assert samples.rows(table, "measured")["v1"] == ["60.0 ±10.0", "100.0 ±0.0", "2"]
