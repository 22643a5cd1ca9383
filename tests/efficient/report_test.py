"""Tables 2 and 3, the headline, what is missing: ours beside the paper's, and no more than the runs are worth."""

import pytest

from cpc_tf.efficient.label_curve import curves
from cpc_tf.efficient.report import headline, report, table_2
from cpc_tf.results.blocks import Gap
from cpc_tf.results.runs import collect
from cpc_tf.tasks import TASKS
from tests.results import samples

pytestmark = pytest.mark.usefixtures("undrawn")
NO = "\N{EN DASH}"


@pytest.fixture
def runs(tmp_path):
    samples.all_kinds(tmp_path)
    return [run for run in collect(str(tmp_path), TASKS)[0] if run["kind"] == "efficient"]


def _run(*arguments, **more):
    return samples.run(samples.efficient(*arguments, **more))


def _headline(runs):
    return headline(curves(runs))


def _shown(runs):
    return {
        getattr(block, "name", type(block).__name__): block
        for block in samples.blocks(report(runs, "photos"), "labels")
    }


def test_table_2_has_ours_beside_the_papers(runs):
    table = _shown(runs)["table2"]
    assert table.columns == ["Labeled data", "1 %", "2 %", "5 %", "10 %", "20 %", "50 %", "100 %"]
    assert samples.rows(table, "aside")["Number of labels"] == ["10", NO, NO, "100", NO, NO, "1,000"]
    ours, theirs = samples.rows(table, "measured"), samples.rows(table, "paper")
    assert ours["small ResNet trained on pixels"] == ["30.0", NO, NO, "51.0 ±1.0", NO, NO, "70.0"]
    assert ours["trained on CPC v2 features"] == ["60.0", NO, NO, NO, NO, NO, "90.0"]
    assert theirs["ResNet-33 trained on CPC features"][0] == "52.7"
    gains = samples.rows(table, "gain")
    # 60 % lies between 51 % at 100 labels and 70 % at 1000; CPC has 10.
    factor = 10 * 10 ** (9 / 19)
    assert gains["Gain, interpolated"] == [f"{factor:.0f}×", *[NO] * 5, "more than 1×"]  # noqa: RUF001
    assert gains["Gain between measured fractions"] == ["10×", *[NO] * 6]  # noqa: RUF001
    assert theirs["Gain, as printed"][:2] == ["5×", "2.5×"]  # noqa: RUF001
    at = {"source": "measured", "group": "Top-1 accuracy", "Labeled data": "small ResNet trained on pixels"}
    (datum,) = [datum for datum in table.data if at.items() <= datum.items()]
    assert [datum[f"10 %{end}"] for end in ("", " low", " high", " runs")] == [0.51, 0.5, 0.52, 2]


def test_baselines_of_one_name_are_both_in_table_2():
    """The second one took the first one's row once."""
    other = {**samples.identity("pixels"), "dataset": "birds"}
    runs = [_run("pixels", top1=0.3), _run("pixels", top1=0.4, identity=other)]
    rows = [row for row in table_2(curves(runs), "photos").rows if row.group == "Top-1 accuracy"]
    ours = [row for row in rows if row.source == "measured"]
    assert {row.values[0] for row in ours} == {
        f"small ResNet trained on pixels ({name})" for name in ("birds", "photos")
    }
    assert sorted(row.values[4].mean for row in ours) == [0.3, 0.4]


def test_table_3_has_both_phases(runs):
    table = _shown(runs)["table3"]
    ours = samples.rows(table, "measured")
    assert list(ours) == ["pixels", "CPC v2 (fixed)", "CPC v2 (fine-tuned)"]
    assert ours["CPC v2 (fixed)"][0] == "80.0"
    assert samples.rows(table, "paper")["CPC v2 (fixed)"] == ["77.1", "90.5", "96.2"]


def test_missing_fractions_name_the_preset(runs):
    ours, pixels = [block for block in samples.blocks(report(runs, "photos"), "labels") if isinstance(block, Gap)]
    assert ours.what == "Not measured: CPC v2 at 2 %, 5 %, 10 %, 20 %, 50 % of the labels."
    assert ours.how == "flags/photos/efficient.flags with --label_fraction=0.02"
    assert pixels.what == "Not measured: the baseline on pixels at 2 %, 5 %, 20 %, 50 % of the labels."
    assert pixels.how == "flags/photos/efficient_pixels.flags with --label_fraction=0.02"


def test_without_any_result_there_is_a_gap_where_a_preset_would_fill_it():
    (gap,) = samples.blocks(report([], "photos"), "labels")
    assert gap.how == "flags/photos/efficient.flags with --label_fraction=0.01"
    (gap,) = samples.blocks(report([], "folder:/data/imagenette-224"), "labels")
    assert gap.how.startswith("flags/imagenette/efficient.flags with --dataset=folder:/data/imagenette-224 ")
    assert report([], "collages") == report([], "voc:/cells") == report([], "folder:/birds") == []


def test_headline(runs):
    assert _headline(runs) == [
        "With 10 labels (1 %), CPC v2 reaches 60.0 % top-1 and training on pixels 30.0 %: on pixels it takes 30 times "
        "as many labels to get as far.",
        "With 1,000 labels (100 %), CPC v2 reaches 90.0 % top-1 and training on pixels 70.0 %.",
    ]
    (alone,) = _headline([run for run in runs if run["encoder"] != "pixels"])
    assert alone.endswith("the baseline on pixels is not measured there yet.")


def test_a_headline_does_not_flatter():
    assert _headline([_run(top1=0.3), _run("pixels", top1=0.4)])[0].endswith(
        "30.0 % top-1 and training on pixels 40.0 %: the baseline is not behind."
    )
    runs = [_run(top1=0.5), _run("pixels", top1=0.4)]
    assert _headline(runs)[0].endswith("and training on pixels 40.0 %.")
    runs.append(_run("pixels", 1.0, top1=0.45))
    assert "on pixels it takes more than 10 times as many labels" in _headline(runs)[0]


def test_short_runs_claim_no_gain():
    """The demo's: 600 steps of pixels, where the preset trains for 1,500 and the study found a gain of half as much."""
    runs = [_run(fraction=f, top1=0.8, steps=600) for f in (0.01, 0.05)]
    runs += [_run("pixels", f, top1, steps=600) for f, top1 in ((0.01, 0.5), (0.05, 0.9))]
    first, last = _headline(runs)
    assert first == (
        "In short runs (600 steps, the preset trains 1,500): with 10 labels (1 %), CPC v2 reaches 80.0 % top-1 and "
        "training on pixels 50.0 %; no gain is claimed."
    )
    assert last.startswith("In short runs (600 steps, the preset trains 1,500): with 50 labels")
    assert last.endswith("the baseline is not behind.")
    assert "times" not in first + last
    assert samples.rows(table_2(curves(runs), "photos"), "gain") == {}


def test_a_short_run_is_no_seed_of_a_longer_one():
    """A page with the demo's runs and the study's shows the study's."""
    study = [_run("pixels", 0.01, 0.7, seed=seed, steps=1500) for seed in (0, 1)]
    found = curves([_run(fraction=0.01, top1=0.8, steps=600), _run("pixels", 0.01, 0.1, steps=600), *study])
    assert found.pixels[0.01].spread("top1").mean == pytest.approx(0.7)
    assert not any("short" in sentence for sentence in headline(found))


def test_no_gain_is_claimed_of_runs_whose_length_cannot_be_judged():
    """No preset is made for the dataset, or the runs do not say how long they are."""
    own = [_run(top1=0.8, dataset="folder:/birds"), _run("pixels", top1=0.5, dataset="folder:/birds")]
    unknown = [_run(top1=0.8), _run("pixels", top1=0.5, steps=None)]
    for runs, reason in ((own, "no preset says how long runs on this dataset should be"),
                         (unknown, "the runs do not say how long they are")):  # fmt: skip
        runs = [*runs, samples.run({**runs[1], "label_fraction": 1.0, "num_train_labels": 1000, "top1": 0.9})]
        assert _headline(runs)[0].endswith(
            f"80.0 % top-1 and training on pixels 50.0 %; no gain is claimed, since {reason}."
        )
        assert samples.rows(table_2(curves(runs), "birds"), "gain") == {}


def test_runs_of_other_settings_at_one_fraction_are_methods_of_their_own():
    """One more point of the curve, not a part of its mean."""
    said = ["cpc_tf.efficient --augment=none", "cpc_tf.efficient --augment=full"]
    runs = [_run("pixels", f, 0.5, seed, settings=said[:1]) for seed in (0, 1) for f in (0.01, 0.1)]
    runs.append(_run("pixels", 0.1, 0.9, 2, settings=said[1:]))
    usual, other = curves(runs).all
    assert {at: point.spread("top1")[::3] for at, point in usual.items()} == {0.01: (0.5, 2), 0.1: (0.5, 2)}
    assert [(at, point.title) for at, point in other.items()] == [(0.1, "pixels (augment=full)")]
    assert curves(runs).pixels == usual


def test_another_objective_is_compared_by_its_name():
    runs = [_run("hub", top1=0.5, trained_by="some objective"), _run("pixels", top1=0.4)]
    assert "some objective reaches 50.0 %" in _headline(runs)[0]


def test_the_compared_method_was_measured_at_most_fractions():
    runs = [_run("a", f) for f in (0.1, 0.2)] + [_run("b", f, trained_by="rotation") for f in (0.1, 0.2, 0.5)]
    assert {point.trained_by for point in curves(runs).ours.values()} == {"rotation"}
    assert curves(runs).pixels == {}


def test_curves_of_phases(tmp_path):
    for seed in (0, 1):
        for phase in ("frozen", "fine-tuned"):
            folder = tmp_path / f"run{seed}"
            (folder / phase).mkdir(parents=True)
            (folder / phase / "metrics.jsonl").write_text(samples.metrics())
        samples.write(folder, samples.efficient(seed=seed))
    (details,) = samples.blocks(report(collect(str(tmp_path), TASKS)[0], "photos"), "training")
    data = details.blocks[0].data
    assert len(data) == 2 * 2 * 2 * 3
    assert {row["panel"] for row in data} == {
        "frozen loss",
        "frozen accuracy",
        "fine-tuned loss",
        "fine-tuned accuracy",
    }
    assert samples.blocks(report([_run()], "photos"), "training") == []


def test_the_search_is_listed(runs):
    table = _shown(runs)["Details"].blocks[0]
    assert samples.rows(table, "measured")["CPC v2, 1 %, seed 0"][:2] == ["frozen", "0.1"]
    assert len(table.data) == 6
