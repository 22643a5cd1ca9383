"""The few-label protocol from pictures in a folder to result.json."""

import contextlib
import csv
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf import cli
from cpc_tf.efficient import selection
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.efficient.run import PARTS, efficient, prepare
from cpc_tf.evaluation import scores
from cpc_tf.keras import keras
from cpc_tf.settings import ConfigError
from cpc_tf.training import loop
from tests import modules, samples

pytestmark = pytest.mark.slow
FLAGS = """
    --resize=16 --image_size=16 --crop_area=0.5 --augment=none --backbone=tiny --head_blocks=0 --endpoint=latents
    --cached_views=2 --batch_size=8 --train_steps=6 --finetune_steps=4 --steps_per_loop=2
    --checkpoint_every=2 --search_trials=2 --label_fraction=0.5 --held_out=0.25 --strategy=single
""".split()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """12 red, green and blue pictures each to learn from, and 4 each to test on."""
    return samples.write_pictures(tmp_path_factory.mktemp("pictures") / "pictures", {"train": 12, "val": 4})


@pytest.fixture(scope="module")
def hub_dir(tmp_path_factory):
    path = tmp_path_factory.mktemp("hub")
    modules.write_module(path)
    return str(path)


def config(folder, workdir, encoder, *more):
    here = [f"--dataset=folder:{folder}", "--test_split=val", f"--data_dir={folder}/../cache"]
    return cli.parse(EfficientConfig, [*FLAGS, *here, f"--encoder={encoder}", f"--workdir={workdir}", *more])


def without_time(result):
    return {name: value for name, value in result.items() if name != "wall_seconds"}


@contextlib.contextmanager
def copied(workdir, number):
    """Copies a run's folder at its `number`-th evaluation to 'killed' beside it: what a kill there would have left."""
    score, calls = scores.score, []

    def copying(*arguments):
        calls.append(arguments)
        if len(calls) == number:
            shutil.copytree(workdir, workdir.with_name("killed"))
        return score(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scores, "score", copying)
        yield


@pytest.fixture(scope="module")
def finished(folder, hub_dir, tmp_path_factory):
    """(workdir, result) of a run on our module."""
    workdir = tmp_path_factory.mktemp("run") / "efficient"
    with copied(workdir, 6):  # two settings, the start, three evaluations of fine-tuning
        return workdir, efficient(config(folder, workdir, hub_dir))


def test_result(finished):
    workdir, result = finished
    assert json.loads((workdir / "result.json").read_text()) == json.loads(json.dumps(result))
    assert (result["kind"], result["num_classes"], result["num_train_labels"]) == ("efficient", 3, 18)
    assert set(result["phases"]) == {"frozen", "fine-tuned"}
    assert result["phases"]["frozen"]["steps"] == 6
    # What was tried: two settings, then five lengths of fine-tuning; one of each was chosen.
    tried = [(record["phase"], record["steps"]) for record in result["search"]]
    assert tried == [("frozen", 6)] * 2 + [("fine-tuned", length) for length in range(5)]
    chosen = [record for record in result["search"] if record["chosen"]]
    assert [record["phase"] for record in chosen] == ["frozen", "fine-tuned"]
    assert result["phases"]["fine-tuned"]["steps"] == chosen[1]["steps"]
    if not chosen[1]["steps"]:
        assert result["phases"]["fine-tuned"]["top1"] == result["phases"]["frozen"]["top1"]
    assert result["top1"] == result["phases"]["fine-tuned"]["top1"]


def test_predictions_give_the_accuracy(finished):
    workdir, result = finished
    rows = list(csv.DictReader((workdir / "predictions.csv").read_text().splitlines()))
    assert [row["file"] for row in rows] == [f"val/{name}/{i}.png" for name in result["class_names"] for i in range(4)]
    assert [result["class_names"][int(row["label"])] for row in rows] == [row["file"].split("/")[1] for row in rows]
    assert np.mean([row["label"] == row["prediction"] for row in rows]) == pytest.approx(result["top1"])
    assert all(1 / 3 <= float(row["probability"]) <= 1 for row in rows)


def test_the_chosen_classifier_was_calibrated_on_the_held_out_labels(finished):
    calibration, chosen = finished[1]["calibration"], [record for record in finished[1]["search"] if record["chosen"]]
    assert calibration["held_out"] == 6
    assert calibration["temperature"] == chosen[-1].get("held_out_temperature", 1.0)
    assert calibration["fitted"] == (chosen[-1]["held_out_top1"] < 1)


def test_a_single_frozen_classifier_is_calibrated_too_and_goes_on_if_it_is_to_train_longer(folder, hub_dir, tmp_path):
    flags = ["--search_trials=1", "--finetune_steps=0", "--learning_rate=0.001"]
    short = efficient(config(folder, tmp_path, hub_dir, *flags, "--train_steps=2"))
    assert [(record["phase"], record["chosen"]) for record in short["search"]] == [("frozen", True)]
    assert short["calibration"]["temperature"] == short["search"][0]["held_out_temperature"]
    assert short["steps"] == 2
    longer = efficient(config(folder, tmp_path, hub_dir, *flags, "--train_steps=4"))
    assert longer["steps"] == 4


def test_pictures_of_the_test_are_left_for_the_report(finished):
    workdir, _ = finished
    shown = [(workdir / name).read_bytes()[:4] for name in ("predictions.png", "map.png")]
    assert shown == [b"\x89PNG"] * 2
    assert len((workdir / "map.csv").read_text().splitlines()) == 1 + 12


def test_the_chosen_labels_are_saved(finished):
    saved = json.loads((finished[0] / "labels.json").read_text())
    assert len(saved["chosen"]) == 18
    assert len(saved["held_out"]) == 6
    assert set(saved["held_out"]) < set(saved["chosen"])


def test_the_same_command_again_reads_the_result(finished, folder, hub_dir, monkeypatch):
    workdir, result = finished
    with monkeypatch.context() as patch:
        patch.setattr(scores, "score", None)  # the test labels are used once
        assert efficient(config(folder, workdir, hub_dir)) == json.loads(json.dumps(result))


def test_killed_while_fine_tuning_it_goes_on_to_the_same_end(finished, folder, hub_dir):
    killed = finished[0].with_name("killed")
    assert sorted(path.name for path in killed.glob("search/*/*")) == ["0", "0.0001", "1"]
    assert not (killed / "result.json").exists()
    result = efficient(config(folder, killed, hub_dir))
    assert without_time(result) == without_time(finished[1])
    # The time of both sessions: each phase has noted its own.
    spent = [json.loads(file.read_text().splitlines()[-1])["wall_seconds"] for file in killed.rglob("metrics.jsonl")]
    assert result["wall_seconds"] == pytest.approx(sum(spent), abs=1e-4)


def test_pixels_learn_by_themselves(folder, tmp_path):
    result = efficient(config(folder, tmp_path, "pixels", "--train_steps=30", "--search_trials=1", "--dropout=0"))
    assert set(result["phases"]) == {"supervised"}
    assert result["top1"] > 0.6


def test_a_search_over_networks_till_convergence_goes_on_after_a_kill(folder, tmp_path):
    flags = ["--backbone=tiny,small", "--patience=1", "--train_steps=8", "--search_trials=2", "--seed=1"]
    settings = [config(folder, tmp_path / name, "pixels", *flags) for name in ("whole", "killed")]
    networks = [trial["backbone"] for trial in selection.trials(settings[0])]
    assert networks == ["tiny", "small"]
    with copied(tmp_path / "whole", 5):  # the first network is looked at three or four times
        whole = efficient(settings[0])
    assert (tmp_path / "killed/search/supervised/1/run.flags").exists()
    assert without_time(efficient(settings[1])) == without_time(whole)
    assert [record["backbone"] for record in whole["search"]] == networks
    (chosen,) = [record for record in whole["search"] if record["chosen"]]
    assert whole["phases"]["supervised"]["steps"] == chosen["steps"]
    assert whole["backbone"] == whole["identity"]["architecture"] == chosen["backbone"]


def test_a_classifier_till_convergence_is_fine_tuned_from_its_best_evaluation(folder, hub_dir, tmp_path):
    settings = config(folder, tmp_path, hub_dir, "--patience=1", "--search_trials=1", "--train_steps=12")
    # Without the training after it, whose length the search over networks shows.
    selected = selection.select(settings, prepare(settings, tf.distribute.get_strategy())[1])
    frozen, start, *_ = selected.records
    every = 3  # a quarter of the longest training
    assert frozen["steps"] % every == 0
    assert selected.length.steps == frozen["steps"]
    looks = [json.loads(line) for line in (tmp_path / "search/frozen/0/metrics.jsonl").read_text().splitlines()]
    looks = {look["step"]: look["held_out_top1"] for look in looks if "held_out_top1" in look}
    assert looks[frozen["steps"]] == max(looks.values())
    # What fine-tuning starts from is that classifier again, not the last one of the search.
    assert start["held_out_loss"] == pytest.approx(frozen["held_out_loss"], abs=1e-5)


def test_an_encoder_of_others_with_vectors(folder, tmp_path):
    model = keras.Sequential([keras.layers.Conv2D(4, 4, 4), keras.layers.GlobalAveragePooling2D()])
    model.build([None, None, None, 3])
    tf.saved_model.save(model, str(tmp_path / "theirs"))
    flags = ["--endpoint=feature_map", "--head_blocks=1", "--head_width=8", "--cached_views=0", "--held_out=0"]
    result = efficient(config(folder, tmp_path / "run", tmp_path / "theirs", *flags))
    assert set(result["phases"]) == {"frozen", "fine-tuned"}
    assert 0 <= result["top1"] <= 1


def test_an_encoder_of_others_that_xla_cannot_compile(folder, tmp_path, caplog):
    tf.saved_model.save(modules.NotForXla(), str(tmp_path / "theirs"))
    # It has no variables to fine-tune.
    flags = ["--endpoint=feature_map", "--xla=on", "--cached_views=0", "--held_out=0", "--finetune_steps=0"]
    result = efficient(config(folder, tmp_path / "run", tmp_path / "theirs", *flags))
    assert result["phases"]["frozen"]["steps"] > 0
    assert caplog.text.count("--xla: not used") == 1


def test_one_label_a_class_takes_the_settings_as_they_are(folder, hub_dir, tmp_path, capsys, monkeypatch):
    """The dataset is known as a tenth of another one here, as TFDS has subsets of ImageNet."""
    monkeypatch.setitem(PARTS, "folder", ("whole", 0.1))
    result = efficient(config(folder, tmp_path, hub_dir, "--labels_per_class=1"))
    assert result["search"] == []
    assert result["num_train_labels"] == 3
    assert (result["dataset"], result["label_fraction"]) == ("whole", pytest.approx(0.1 * 3 / 36))
    assert result["phases"]["fine-tuned"]["steps"] == 4
    assert "nothing is held out" in capsys.readouterr().out


def test_what_cannot_be_is_refused_by_flag(folder, hub_dir, tmp_path):
    with pytest.raises(ConfigError, match="--label_fraction=0.01: leaves none of the 12 labels of class"):
        efficient(config(folder, tmp_path / "a", hub_dir, "--label_fraction=0.01"))
    with pytest.raises(ConfigError, match="--test_split=nowhere"):
        efficient(config(folder, tmp_path / "b", hub_dir, "--test_split=nowhere"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("search", [["--search_trials=1", "--held_out=0"], ["--search_trials=1"]], ids=["test", "held"])
def test_divergence_in_the_last_step_is_no_result(folder, hub_dir, tmp_path, search):
    """The loss of that step was finite: it was computed before the weights were moved."""
    flags = ["--learning_rate=1e38", "--train_steps=1", "--finetune_steps=0", *search]
    with pytest.raises(loop.Diverged, match="Try a smaller --learning_rate"):
        efficient(config(folder, tmp_path, hub_dir, *flags))
    assert not (tmp_path / "result.json").exists()


def test_a_trial_that_diverges_is_recorded_and_not_chosen(folder, hub_dir, tmp_path, monkeypatch, capsys):
    """The other one is chosen; fine-tuning that diverges leaves the frozen classifier."""
    given = selection.trials(config(folder, tmp_path, hub_dir))[0]
    diverges = {**given, "learning_rate": 1e38}
    monkeypatch.setattr(selection, "trials", lambda _: [diverges, given])
    result = efficient(config(folder, tmp_path, hub_dir, "--encoder_rate=1e38", "--finetune_rate=1e38"))
    told = [(record["phase"], record.get("diverged", False), record["chosen"]) for record in result["search"]]
    assert told == [
        ("frozen", True, False),
        ("frozen", False, True),
        ("fine-tuned", False, True),
        ("fine-tuned", True, False),
    ]
    assert result["phases"]["fine-tuned"]["steps"] == 0
    assert "frozen, settings 1 of 2: diverged\n" in capsys.readouterr().out


def test_where_all_trials_diverge_there_is_no_result(folder, tmp_path):
    class Diverging:
        def first(self, *_):
            raise loop.Diverged("this one")

    with pytest.raises(loop.Diverged, match="this one"):
        selection.select(config(folder, tmp_path, "hub"), Diverging())
