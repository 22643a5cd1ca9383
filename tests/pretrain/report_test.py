"""What is shown of pre-training: a table, curves, health, patches."""

from cpc_tf.pretrain.report import report
from cpc_tf.results import plots
from cpc_tf.results.runs import collect
from cpc_tf.tasks import TASKS
from tests.results import samples

PNG = b"\x89PNG\r\n"


def test_pretraining(tmp_path):
    samples.all_kinds(tmp_path)
    runs = [*collect(str(tmp_path), TASKS)[0], samples.run(samples.pretrain(seed=4), "study.json, record 0")]
    table, figure = samples.blocks(report([run for run in runs if run["kind"] == "pretrain"], "photos/100"), "training")
    assert [row.values[0] for row in table.rows] == ["photos/pretrain", "small ResNet, seed 4"]
    assert [samples.text(row.values[-1]) for row in table.rows] == ["collapsed", "\N{EN DASH}"]
    assert "Collapsed at step 30: all patches get nearly the same latents (feature_std 0.001" in figure.title
    panels = {row["panel"] for row in figure.data}
    assert panels >= {"training loss, nats", "contrastive accuracy, training, %", "effective rank, training"}
    assert len([row for row in figure.data if row["panel"] == "training loss, nats"]) == 3
    assert table.data[0]["training accuracy, own task, %"] == 10
    assert [y for y in (row["value"] for row in figure.data if "accuracy" in row["panel"])] == [10, 20, 30]


def test_patches_of_one_seed_are_shown(tmp_path):
    for place, seed in (("photos/0", 0), ("photos/1", 1), ("other/0", 0)):
        samples.write(tmp_path / place, samples.pretrain(seed=seed))
        (tmp_path / place / "patches.png").write_bytes(PNG + place.encode())
    first, more = samples.blocks(report(collect(str(tmp_path), TASKS)[0], "photos"), "features")
    assert first.png == PNG + b"other/0"
    assert [figure.title for figure in more.blocks] == [first.title.replace("other/0", "photos/0")]


def test_healthy_ranges_and_speeds_that_were_not_measured(tmp_path, monkeypatch):
    """A speed of 0 stands for "not measured" and once squeezed all others together at the top of the axis."""
    metrics = samples.metrics(feature_std=0.5, effective_rank=3.0).replace("}", ', "images_per_second": 0}', 1)
    metrics = metrics.replace('"effective_rank": 3.0}', '"effective_rank": 3.0, "images_per_second": 80.0}')
    flags = "--batch_size=4\n--image_size=64\n--resize=64\n--patch_size=16\n--patch_stride=16\n"
    flags += "--steps_to_ignore=0\n--steps_to_predict=1\n"
    samples.write(tmp_path / "run", samples.pretrain(), metrics__jsonl=metrics, run__flags=flags)
    drawn = []
    monkeypatch.setattr(plots.Curves, "figure", lambda curves, *_: drawn.append(curves) or [])
    report(collect(str(tmp_path), TASKS)[0], "photos")
    (curves,) = drawn
    candidates = 4 * 4 * 4
    assert curves.healthy == {
        "feature_std, training": 0.3,
        "effective rank, training": 1.5,
        "contrastive accuracy, training, %": 1000 / candidates,
    }
    (speed,) = curves.panels["images/s"]
    assert [y for _, y in speed.points] == [80.0, 80.0]
