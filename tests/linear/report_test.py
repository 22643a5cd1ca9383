"""Table 1 beside the paper's, and what the summary says of the best encoder."""

from cpc_tf.linear.report import report
from cpc_tf.results.blocks import Finding
from tests.results import samples

NO = "\N{EN DASH}"


def _linear(*arguments, **more):
    return samples.run(samples.linear(*arguments, **more))


def _findings(runs):
    return [finding for part in report(runs, "photos") for finding in part.findings]


def test_table_1():
    runs = [_linear("hub", 0.9), _linear("random:hub", 0.8), _linear("pixels", 0.4), _linear("x", 0.5, policy="none")]
    (table,) = samples.blocks(report(runs, "photos"), "linear")
    assert table.columns == ["Method", "Params (M)", "Top-1, %", "Top-5, %"]
    assert samples.rows(table, "measured") == {  # without the record of a study
        "CPC v2 - small ResNet": ["0.218", "90.0", "100.0"],
        "random encoder - small ResNet": ["0.218", "80.0", "100.0"],
        "pixels": [NO, "40.0", "100.0"],
    }
    assert samples.rows(table, "aside") == {"chance": [NO, "16.7", "83.3"]}
    assert samples.rows(table, "paper")["CPC v2 - ResNet-161"] == ["305", "71.5", "90.1"]
    values = {"CPC v2": "90.0", "random encoder": "80.0", "pixels": "40.0"}
    assert _findings(runs) == [Finding("linear classifier, top-1", values)]


def test_a_test_of_few_pictures_and_few_classes():
    run = _linear(top1=0.65, num_classes=5, tested=20)
    (table,) = samples.blocks(report([run], "photos"), "linear")
    assert table.own.columns == ["Method", "Params (M)", "Top-1, %"]
    assert samples.rows(table, "measured")["CPC v2 - small ResNet"] == ["0.218", "65 (43 to 82)", NO]
    assert samples.rows(table, "aside") == {"chance": [NO, "20.0", NO]}
    assert (
        table.note
        == "A linear classifier on the frozen encoder. In brackets, the 95 % interval of so few test pictures."
    )
    assert _findings([run])[0].values == {"CPC v2": "65 (43 to 82)"}
    fields = {"Top-1, %": 65, "Top-1 low, %": 65, "Top-1 high, %": 65, "Top-1 runs": 1, "Top-1 tested": 20}
    assert fields.items() <= table.data[0].items()


def test_the_finding_is_of_the_best_encoder_and_says_if_its_run_was_short():
    runs = [_linear(f"runs/{name}/hub", top1) for name, top1 in (("a", 0.8), ("b", 0.9), ("c", 0.7))]
    (found,) = _findings(runs)
    assert (found.values, found.remark) == ({"CPC v2 (runs/b/hub)": "90.0"}, "the best of 3 encoders")
    assert _findings([_linear(steps=10)])[0].remark == "short run (10 of the preset's 625 steps)"
    assert _findings([_linear(steps=10, dataset="folder:/birds")])[0].remark == "10 steps"
