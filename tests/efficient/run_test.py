"""The few-label protocol: which settings are tried and chosen, then from images in a folder to
result.json.
"""

import contextlib
import csv
import json
import re
import shutil
import types

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.core import cli
from cpc_tf.core.keras import keras
from cpc_tf.core.settings import ConfigError, replace
from cpc_tf.data import catalog
from cpc_tf.efficient.config import PARTS, EfficientConfig, SearchConfig
from cpc_tf.efficient.run import calibration_lines, efficient, prepare
from cpc_tf.efficient.selection import select, trials
from cpc_tf.evaluation import label_kinds, scores
from cpc_tf.training import loop
from cpc_tf.training.checkpoint import Checkpoints
from cpc_tf.training.phases import in_folder, plateau
from tests import modules, samples

GIVEN = {"learning_rate": 0.3, "weight_decay": 0.5, "dropout": 0.25, "batch_size": 7}


def searched(**changes):
    return trials(replace(EfficientConfig(), **{**GIVEN, "search_trials": 200, **changes}))


def test_draws_fill_the_papers_space():
    drawn = searched()[1:]
    values = {name: np.array([trial[name] for trial in drawn]) for name in GIVEN}
    assert set(values["learning_rate"]) == {0.05, 0.1, 0.2}
    assert set(values["batch_size"]) == {7, 14}
    decay = np.log10(values["weight_decay"])
    assert -5 <= decay.min() < -4.8
    assert -2.2 < decay.max() <= -2
    assert np.median(decay) == pytest.approx(-3.5, abs=0.4)  # logarithmically
    assert values["dropout"].min() < 0.05
    assert 0.93 < values["dropout"].max() < 1
    assert all(type(trial["batch_size"]) is int for trial in drawn)


def test_given_settings_come_first_and_draws_are_deterministic():
    assert searched(search_trials=1) == [GIVEN]
    assert searched(search_trials=5) == searched()[:5]
    assert searched(seed=1)[1] != searched()[1]
    assert len({str(trial) for trial in searched()}) == 200


def test_the_backbone_is_drawn_if_there_are_several():
    names = ["resnet200_v2", "resnet50_v2", "resnet101_v2"]
    drawn = searched(encoder="pixels", backbone=",".join(names))
    assert drawn[0] == {**GIVEN, "backbone": "resnet200_v2"}
    assert {trial["backbone"] for trial in drawn} == set(names)
    # The other draws are those of a search with one backbone.
    assert [{name: trial[name] for name in GIVEN} for trial in drawn] == searched()


class Scripted:
    """Phases without training. First rates above 1 diverge, the others are the better the larger;
    so are lengths.
    """

    def __init__(self):
        self.classifier = types.SimpleNamespace(
            get_weights=lambda: self.weights, set_weights=self.assign
        )
        self.weights = None
        self.inputs = types.SimpleNamespace(
            kind=label_kinds.SINGLE_LABEL, held_out=16, score="held_out_top1"
        )

    def assign(self, weights):
        self.weights = weights

    def first(self, config, part, length=None):
        assert (part, length) == ("fit", None)
        if config.sgd.learning_rate > 1:
            raise loop.Diverged(f"at {config.sgd.learning_rate}")
        self.weights = config.sgd.learning_rate
        return types.SimpleNamespace(
            classifier=self.classifier, step=types.SimpleNamespace(numpy=lambda: 5)
        )

    def held_out(self, config, trainee):
        return {"held_out_top1": self.weights, "held_out_loss": 1.0, "held_out_temperature": 2.0}

    def fine_tune(self, config, start, part, steps, evaluated):
        assert (part, evaluated) == ("fit", True)
        assert self.weights == 0.2, "not those of the frozen classifier"
        if config.sgd.encoder_rate > 1:
            raise loop.Diverged("fine-tuning")
        self.weights = "tuned"
        records = [
            {"step": n, "held_out_top1": 0.2 + config.sgd.encoder_rate * n / steps}
            for n in range(1, steps + 1)
        ]
        return None, [
            {"step": 1, "loss": 1.0},
            *({**record, "held_out_loss": 1.0} for record in records),
        ]


def selected(**changes):
    """(phase, chosen, steps) of each trial, and what they select, where the rates 0.2 and 9 are
    drawn after 0.1.
    """
    given = {
        "learning_rate": 0.1,
        "search_trials": 6,
        "search_rates": "0.2,9",
        "finetune_steps": 2,
        **changes,
    }
    selection = select(
        replace(EfficientConfig(), encoder="hub", workdir="none", **given), Scripted()
    )
    return [
        (record["phase"], record["chosen"], record["steps"]) for record in selection.records
    ], selection


def test_trials_that_diverge_are_recorded_and_not_chosen(capsys):
    tried, selection = selected(search_encoder_rates="0.1,9,0.3")
    frozen, tuned = (
        [(chosen, steps) for name, chosen, steps in tried if name == phase]
        for phase in ("frozen", "fine-tuned")
    )
    assert sorted(set(frozen)) == [(False, 0), (False, 5), (True, 5)]
    assert tuned == [(False, 0), *[(False, n) for n in (1, 2)], (False, 0), (False, 1), (True, 2)]
    sgd = selection.config.sgd
    assert (sgd.learning_rate, sgd.encoder_rate, selection.finetune_steps) == (0.2, 0.3, 2)
    assert selection.temperature is None  # of the length that was chosen none fits
    assert "diverged\n" in capsys.readouterr().out


def test_fine_tuning_that_diverges_leaves_the_frozen_classifier():
    tried, selection = selected(encoder_rate=9.0)
    assert tried[-2:] == [("fine-tuned", True, 0), ("fine-tuned", False, 0)]
    assert (selection.finetune_steps, selection.temperature) == (0, 2.0)


def test_where_all_trials_diverge_there_is_no_result():
    with pytest.raises(loop.Diverged, match="at 9"):
        selected(learning_rate=9.0, search_rates="9")


@pytest.mark.parametrize(
    ("flag", "value"),
    [("decays", "0,1e-2"), ("decays", "1e-5"), ("dropouts", "1,0"), ("multiples", "16,0")],
)
def test_invalid_search_lists_are_refused_by_name(flag, value):
    flag = f"search_{flag}"
    with pytest.raises(ConfigError, match=f"--{flag}={value}"):
        SearchConfig(**{flag: value})


FLAGS = """
    --resize=16 --image_size=16 --crop_area=0.5 --augment=none --backbone=tiny --head_blocks=0
    --endpoint=latents --cached_views=1 --batch_size=8 --train_steps=6 --finetune_steps=2
    --steps_per_loop=6 --search_trials=1 --label_fraction=0.5 --held_out=0.25 --strategy=single
""".split()
TIMES = ("wall_seconds", "cpu_seconds", "images_per_second", "waiting", "read_gb")


@pytest.fixture(scope="module")
def hub_dir(tmp_path_factory):
    path = tmp_path_factory.mktemp("hub")
    modules.write_module(path)
    return str(path)


def config(folder, workdir, encoder, *more):
    here = [f"--dataset=folder:{folder}", "--test_split=val", f"--data_dir={folder}/../cache"]
    return cli.parse(
        EfficientConfig, [*FLAGS, *here, f"--encoder={encoder}", f"--workdir={workdir}", *more]
    )


def without_time(record):
    return {name: value for name, value in record.items() if name not in TIMES}


def metrics(workdir):
    return [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]


@contextlib.contextmanager
def copied(workdir, number):
    """Copies a run's folder at its `number`-th evaluation to 'killed' beside it: what a kill there
    would have left.
    """
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
    return workdir, efficient(config(folder, workdir, hub_dir))


@pytest.mark.slow
def test_result(finished):
    workdir, result = finished
    assert json.loads((workdir / "result.json").read_text()) == json.loads(json.dumps(result))
    assert (result["kind"], result["num_classes"], result["num_train_labels"]) == (
        "efficient",
        3,
        18,
    )
    assert set(result["phases"]) == {"frozen", "fine-tuned"}
    assert result["phases"]["frozen"]["steps"] == 6
    # What was tried: one setting, then three lengths of fine-tuning, of which one was chosen.
    tried = [(record["phase"], record["steps"]) for record in result["search"]]
    assert tried == [("frozen", 6), *(("fine-tuned", length) for length in range(3))]
    frozen, tuned = (record for record in result["search"] if record["chosen"])
    assert (frozen["phase"], tuned["phase"]) == ("frozen", "fine-tuned")
    assert result["phases"]["fine-tuned"]["steps"] == tuned["steps"]
    if not tuned["steps"]:
        assert result["phases"]["fine-tuned"]["top1"] == result["phases"]["frozen"]["top1"]
    assert result["top1"] == result["phases"]["fine-tuned"]["top1"]
    # The chosen classifier was calibrated on the held-out labels.
    assert result["calibration"]["held_out"] == 6
    assert result["calibration"]["temperature"] == tuned.get("held_out_temperature", 1.0)
    assert result["calibration"]["fitted"]

    saved = json.loads((workdir / "labels.json").read_text())
    assert (len(saved["chosen"]), len(saved["held_out"])) == (18, 6)
    assert set(saved["held_out"]) < set(saved["chosen"])
    assert len((workdir / "map.csv").read_text().splitlines()) == 1 + 12
    # Each phase has noted its own time; that of one which is needed again counts once.
    spent = [metrics(file.parent)[-1]["wall_seconds"] for file in workdir.rglob("metrics.jsonl")]
    assert result["wall_seconds"] == pytest.approx(sum(spent), abs=1e-4)


@pytest.mark.slow
def test_predictions_give_the_accuracy(finished):
    workdir, result = finished
    rows = list(csv.DictReader((workdir / "predictions.csv").read_text().splitlines()))
    assert [row["file"] for row in rows] == [
        f"val/{name}/{i}.png" for name in result["class_names"] for i in range(4)
    ]
    assert [row["class"] for row in rows] == [row["file"].split("/")[1] for row in rows]
    right = [row["class"] == row["prediction"] for row in rows]
    assert np.mean(right) == pytest.approx(result["top1"])
    assert (result["right"], result["tested"]) == (sum(right), 12)
    for name, own in result["classes"].items():
        assert own["tested"] == 4
        assert own["predicted"] == sum(row["prediction"] == name for row in rows)
    assert all(1 / 3 <= float(row["probability"]) <= 1 for row in rows)


def test_bad_probabilities_are_said_with_what_to_do():
    """A mean probability of 72 % where 35 % were right stood in result.json only."""
    found = {
        "confidence": 0.72,
        "right": 6 / 17,
        "ece": 0.54,
        "held_out": 0,
        "fitted": False,
        "tested": 17,
    }
    said, note = calibration_lines({"encoder": "x", "calibration": found})
    assert (
        said == "probabilities: 72 % on average, 35 % are right; calibration error 54 points, not"
        " calibrated"
    )
    assert note.startswith(
        "note: these probabilities are too high; rely on the scores above. --held_out keeps labels"
        " aside"
    )
    assert "cpc-tf classify on this encoder" in note
    fitted = {**found, "confidence": 0.4, "fitted": True, "held_out": 12}
    (said,) = calibration_lines({"encoder": "pixels", "calibration": fitted})
    assert said.endswith("calibrated on 12 held-out labels")


@pytest.mark.slow
def test_the_same_command_again_prints_the_result(finished, folder, hub_dir, capsys):
    """tests/conformance_test.py shows that nothing is tested again."""
    workdir, result = finished
    efficient(config(folder, workdir, hub_dir))
    out = capsys.readouterr().out
    assert (
        f"fine-tuned   top-1 {result['right']} of 12 right ({100 * result['top1']:.0f} %, " in out
    )
    assert f"mean of the classes {100 * result['class_mean']:.1f} %: " in out
    assert "the largest class" not in out  # all have four images
    assert "\nprobabilities: " in out
    assert "\nnote: only 12 test images: " in out
    assert "top-5" not in out


@pytest.mark.slow
def test_pixel_baseline_converges_with_the_best_network(folder, tmp_path):
    flags = [
        "--backbone=tiny,small",
        "--patience=1",
        "--train_steps=32",
        "--search_trials=2",
        "--seed=1",
    ]
    result = efficient(config(folder, tmp_path, "pixels", *flags, "--dropout=0"))
    assert set(result["phases"]) == {"supervised"}
    assert result["top1"] > 0.6
    assert [record["backbone"] for record in result["search"]] == ["tiny", "small"]
    (chosen,) = [record for record in result["search"] if record["chosen"]]
    # The same epochs: of 18 labels, 6 were held out.
    assert result["phases"]["supervised"]["steps"] == chosen["steps"] * 18 / 12
    assert result["backbone"] == result["identity"]["architecture"] == chosen["backbone"]


@pytest.mark.slow
def test_converged_classifier_resumes_and_fine_tunes_best_evaluation(folder, hub_dir, tmp_path):
    flags = [
        "--patience=1",
        "--train_steps=18",
        "--finetune_steps=1",
        "--steps_per_loop=2",
        "--checkpoint_every=2",
    ]
    flags += ["--rate_drops=3", "--least_looks=6"]
    settings = config(folder, tmp_path / "whole", hub_dir, *flags)
    made = prepare(settings, tf.distribute.get_strategy())[1]
    with copied(tmp_path / "whole", 3):
        selected = select(settings, made)
    frozen, start, *_ = selected.records
    every = 3  # a sixth of the longest training
    assert frozen["steps"] % every == 0
    assert selected.length.steps == frozen["steps"]
    whole = metrics(tmp_path / "whole/search/frozen/0")
    evaluations = {
        record["step"]: record["held_out_top1"] for record in whole if "held_out_top1" in record
    }
    assert evaluations[frozen["steps"]] == max(evaluations.values())
    # What fine-tuning starts from is that classifier again, not the last one of the search.
    assert start["held_out_loss"] == pytest.approx(frozen["held_out_loss"], abs=1e-5)
    # It was killed after the rate had dropped, which is saved nowhere but in these evaluations.
    killed = tmp_path / "killed/search/frozen/0"
    state = plateau(metrics(killed), "held_out_top1", patience=1, drops=3)
    assert len(state.drop_steps) > 0
    assert not state.ended
    made.converge(
        in_folder(replace(settings, workdir=str(tmp_path / "killed")), "search", "frozen", "0")
    )
    assert [*map(without_time, metrics(killed))] == [*map(without_time, whole)]


@pytest.mark.slow
def test_one_label_per_class_skips_the_search(folder, tmp_path, capsys, monkeypatch):
    """On a third-party encoder with vectors.

    The dataset is known as a tenth of another one here, as TFDS has subsets of ImageNet.
    """
    model = keras.Sequential([keras.layers.Conv2D(4, 4, 4), keras.layers.GlobalAveragePooling2D()])
    model.build([None, None, None, 3])
    tf.saved_model.save(model, str(tmp_path / "theirs"))
    monkeypatch.setitem(PARTS, "", ("whole", 0.1))
    flags = [
        "--endpoint=feature_map",
        "--head_blocks=1",
        "--head_width=8",
        "--cached_views=0",
        "--labels_per_class=1",
        "--batch_size=2",
    ]
    result = efficient(config(folder, tmp_path / "run", tmp_path / "theirs", *flags))
    assert result["search"] == []
    assert result["num_train_labels"] == 3
    assert (result["dataset"], result["label_fraction"]) == ("whole", pytest.approx(0.1 * 3 / 36))
    assert [(phase, found["steps"]) for phase, found in result["phases"].items()] == [
        ("frozen", 6),
        ("fine-tuned", 2),
    ]
    assert 0 <= result["top1"] <= 1
    assert "no labels are held out" in capsys.readouterr().out


@pytest.mark.slow
def test_single_frozen_classifier_is_calibrated_and_extendable(folder, tmp_path, caplog, capsys):
    """On a third-party encoder that XLA cannot compile, and that has no variables to fine-tune."""
    tf.saved_model.save(modules.NotForXla(), str(tmp_path / "theirs"))
    flags = [
        "--endpoint=feature_map",
        "--xla=on",
        "--cached_views=0",
        "--finetune_steps=0",
        "--learning_rate=0.001",
    ]
    here = folder, tmp_path / "run", tmp_path / "theirs"
    short = efficient(config(*here, *flags, "--train_steps=2"))
    assert caplog.text.count("--xla: not used") == 1
    assert [(record["phase"], record["chosen"]) for record in short["search"]] == [("frozen", True)]
    assert short["calibration"]["temperature"] == short["search"][0]["held_out_temperature"]
    assert short["steps"] == 2
    held_out = f"held-out top-1 {round(6 * short['search'][0]['held_out_top1'])} of 6 right ("
    assert held_out in capsys.readouterr().out
    assert efficient(config(*here, *flags, "--train_steps=4"))["steps"] == 4


@pytest.mark.slow
def test_stop_at_loss_resumes_with_more_labels(folder, hub_dir, tmp_path, monkeypatch, capsys):
    def saving(checkpoints, *arguments, save=Checkpoints.save, **options):
        save(checkpoints, *arguments, **options)
        path = tmp_path / "killed"
        if "whole/frozen" in str(checkpoints.path(0)) and not path.exists():
            shutil.copytree(tmp_path / "whole", path)

    flags = ["--stop_at_loss=1.5", "--train_steps=170", "--finetune_steps=0", "--steps_per_loop=20"]
    flags += ["--label_fraction=1", "--checkpoint_every=50", "--learning_rate=0.01"]
    monkeypatch.setattr(Checkpoints, "save", saving)
    whole = efficient(config(folder, tmp_path / "whole", hub_dir, *flags))
    told = capsys.readouterr().out
    for step in (150, 100):
        why = "the mean training loss of 100 steps was below --stop_at_loss=1.5 at step 100\n"
        assert told.count(f"stopped at step {step} of at most 170: {why}") == 1
    assert ([record["steps"] for record in whole["search"]], whole["steps"]) == ([150], 100)
    # The second training began where the first one ended.
    first, second = (
        metrics(tmp_path / "whole" / name)[0]["loss"] for name in ("search/frozen/0", "frozen")
    )
    assert second < first

    # After a kill at step 50, and with the last classifier on the images of the test, too.
    settings = config(folder, tmp_path / "killed", hub_dir, *flags)
    refitted = efficient(replace(settings, refit=True))
    assert [*map(without_time, metrics(tmp_path / "killed/frozen"))] == [
        *map(without_time, metrics(tmp_path / "whole/frozen"))
    ]
    assert refitted.pop("refit") == {"num_train_labels": 48, "phases": {"frozen": {"steps": 100}}}
    assert without_time(refitted) == without_time(whole)
    told = capsys.readouterr().out
    assert told.index("frozen       top-1") < told.index("refit: on all 48 labels")
    assert "refit" in efficient(settings), "what is there stays"


@pytest.fixture
def multi_label(tmp_path, monkeypatch):
    """Settings of a run on multi-label images in memory."""
    monkeypatch.setattr(catalog, "open_pair", samples.MultiLabel.pair)
    here = ["--encoder=random", "--endpoint=feature_map", f"--workdir={tmp_path}/run"]
    return cli.parse(EfficientConfig, [*FLAGS, *here, "--search_trials=2", "--finetune_steps=0"])


@pytest.mark.slow
def test_multi_label_results_report_no_accuracy(multi_label, tmp_path, capsys, monkeypatch):
    result = efficient(multi_label)
    out = capsys.readouterr().out
    of_test = (
        f"mAP {100 * result['map']:.1f} % (12 images)  micro-F1 {100 * result['micro_f1']:.1f} %"
    )
    assert f"frozen       {of_test}" in out
    assert re.search(r"held-out mAP \d+\.\d % \(\d+ images\)", out)
    told = (
        out
        + (tmp_path / "run/result.json").read_text()
        + (tmp_path / "run/frozen/metrics.jsonl").read_text()
    )
    assert not [word for word in ("top1", "top-1", "top5", "accuracy") if word in told]
    assert result["multi_label"] is True
    reported = {"map", "map_chance", "classes_left_out", "micro_f1", "tested", "loss", "steps"}
    assert {phase: set(scores_of) for phase, scores_of in result["phases"].items()} == {
        "frozen": reported
    }
    best = max(
        result["search"], key=lambda record: (record["held_out_map"], -record["held_out_loss"])
    )
    assert [record["chosen"] for record in result["search"]] == [
        record is best for record in result["search"]
    ]
    assert (
        len(json.loads((tmp_path / "run/labels.json").read_text())["chosen"])
        == result["num_train_labels"]
    )

    rows = list(csv.DictReader((tmp_path / "run/predictions.csv").read_text().splitlines()))
    true, guessed = (
        np.array([_row(row[column]) for row in rows]) for column in ("class", "prediction")
    )
    np.testing.assert_array_equal(true, samples.MultiLabel(12, seed=1).labels())
    right, wrong = np.sum(true * guessed), np.sum(true != guessed)
    assert 2 * right / (2 * right + wrong) == pytest.approx(result["micro_f1"])

    with monkeypatch.context() as patch:
        patch.setattr(scores, "multi_label_score", None)  # the test labels are used once
        assert efficient(multi_label) == json.loads(json.dumps(result))


def _row(text):
    return np.isin(["red", "green", "blue"], text.split(";")).astype(np.float32)


@pytest.mark.slow
def test_label_propagation_of_multi_label_pictures_is_refused(multi_label):
    config = replace(multi_label, encoder="pixels", propagation="vat")
    with pytest.raises(ConfigError, match="--propagation=vat: needs images with one label each"):
        prepare(config, tf.distribute.get_strategy())
