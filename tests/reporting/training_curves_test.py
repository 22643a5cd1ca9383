"""What is drawn of each run's training, and what its health was."""

import pytest

from cpc_tf.reporting import training_curves
from cpc_tf.reporting.blocks import Details, Text
from cpc_tf.reporting.collect import Run, collect
from tests.reporting import samples

pytestmark = pytest.mark.usefixtures("undrawn")


def test_pretraining(tmp_path):
    samples.all_kinds(tmp_path)
    run = collect(str(tmp_path)).of("pretrain")[0]
    table, details, text = training_curves.pretraining([run, Run(samples.pretrain(seed=4), "study.json, record 0")])
    assert [row.cells[0] for row in table.rows] == ["photos/pretrain", "small ResNet, seed 4"]
    assert [row.cells[-1] for row in table.rows] == ["collapsed", "\N{EN DASH}"]
    assert isinstance(details, Details)
    assert details.open
    assert "collapsed" in details.blocks[0].title
    assert len(details.blocks[0].data) == 3
    assert isinstance(text, Text)
    assert "seed 4" in text.text


def test_phases_of_a_classifier(tmp_path):
    for seed in (0, 1):
        for phase in ("frozen", "fine-tuned"):
            folder = tmp_path / f"run{seed}"
            (folder / phase).mkdir(parents=True)
            (folder / phase / "metrics.jsonl").write_text(samples.metrics())
        samples.write(folder, samples.efficient(seed=seed))
    (details,) = training_curves.classifiers(collect(str(tmp_path)).runs, "efficient")
    data = details.blocks[0].data
    assert len(data) == 2 * 2 * 3
    assert {(d["run"], d["phase"]) for d in data} == {(f"run{s}", p) for s in (0, 1) for p in ("frozen", "fine-tuned")}
    assert training_curves.classifiers([Run(samples.efficient(), "x")], "efficient") == []
