"""The studies' commands exist, and their records are kept and not repeated."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from cpc_tf import cli
from cpc_tf.export.config import ExportConfig
from cpc_tf.results.runs import collect
from cpc_tf.tasks import TASKS
from experiments import causes, choices, detection, labels, ladder, policies, read_off, study, thirds
from tests import modules

ROOT = pathlib.Path(__file__).parent.parent
CONFIGS = {"export": ExportConfig, **{task.module: task.config for task in TASKS.values()}}
MODULE = "network:modules/imagenette_128px"
STUDIES = {
    "causes": [causes.run(rung, "PICTURES", "W", 60, seed) for rung in causes.RUNGS for seed in (0, 1)],
    "choices": choices.runs("THIRDS", "W", MODULE),
    "policies": policies.runs("W", "PICTURES", 950, 2),
    "ladder": ladder.runs("W", 3),
    "detection": detection.runs("collages", "", "", "W", 3)
    + detection.runs("bccd-voc", "BOXES", "PICTURES", "W", 3)
    + detection.runs("collages-128px", "", "PICTURES", "W", 3, MODULE)
    + detection.runs("collages-128px", "", "PICTURES", "W", 3, MODULE, [*detection.WITH_ITS_NORM, detection.ADAPTED])
    + detection.runs("bccd-voc-128px", "BOXES", "PICTURES", "W", 3)
    + detection.runs("bccd-voc-128px", "BOXES", "PICTURES", "W", 3, MODULE, [detection.ADAPTED]),
    "labels": labels.runs("photos", "", "W", 3)
    + labels.runs("photos-128px", "", "W", 3)
    + labels.runs("imagenette-224", "PICTURES", "W", 3)
    + labels.runs("imagenette-128px", "PICTURES", "W", 3, "modules/imagenette_128px"),
}


@pytest.mark.parametrize("name", STUDIES)
def test_commands_parse(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    commands = {tuple(command) for run in STUDIES[name] for command, _ in run.steps}
    assert len(commands) >= len(STUDIES[name]) > 10
    for module, *arguments in commands:
        if module != "experiments.read_off":  # has flags of its own, which its own test sets
            cli.parse(CONFIGS[module], arguments)


@pytest.mark.parametrize("name", STUDIES)
def test_each_run_has_fields_and_a_result_of_its_own(name):
    runs = STUDIES[name]
    assert len({json.dumps(run.fields) for run in runs}) == len({run.result for run in runs}) == len(runs)


def test_a_record_names_the_run_that_it_was_copied_from(tmp_path, monkeypatch):
    """So the report counts a run once that stands in a study's list and in its directory."""
    monkeypatch.setattr(study, "RESULTS", tmp_path / "results")
    folder = tmp_path / "runs/a"
    identity = {"trained_by": "cpc", "seed": 1}
    result = {"kind": "linear", "encoder": "hub", "dataset": "photos", "num_classes": 2, "top1": 0.5, "top5": 1.0}
    folder.mkdir(parents=True)
    (folder / "run.flags").write_text("--seed=1\n")
    (folder / "result.json").write_text(json.dumps({**result, "identity": identity}))
    (record,) = study.carry_out("some", [study.Run({"rung": "v1"}, [(["x"], str(folder / "result.json"))])])
    assert record["identity"] == identity
    ((run,), _) = collect(str(tmp_path), TASKS)
    assert (run.place, run["rung"]) == ("runs/a", "v1")


def test_a_run_is_kept_and_not_repeated(tmp_path, monkeypatch):
    monkeypatch.setattr(study, "RESULTS", tmp_path)
    result, log = tmp_path / "result.json", tmp_path / "log"
    result.write_text('{"top1": 0.5, "steps": 3}')
    run = study.Run({"rung": "v1", "seed": 0}, [(["json.tool", "--help"], str(log)), (["not.run"], str(result))])
    first = study.carry_out("some", [run])
    assert (first[0]["top1"], first[0]["rung"], first[0]["seed"]) == (0.5, "v1", 0)
    assert first[0]["commands"][1] == "python -m not.run"
    result.unlink()
    assert study.carry_out("some", [run]) == first
    assert json.loads((tmp_path / "some.json").read_text()) == first


def test_a_result_of_another_command_is_not_recorded(tmp_path, monkeypatch, capsys):
    """Else settings that have changed would get the figures of those before."""
    monkeypatch.setattr(study, "RESULTS", tmp_path)
    (tmp_path / "run").mkdir()
    result = str(tmp_path / "run/result.json")
    write = f"import json; json.dump({{'top1': 0.5}}, open({result!r}, 'w'))"
    (tmp_path / "writes_result.py").write_text(write)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def record(*more):
        return study.carry_out("some", [study.Run({"seed": len(more)}, [(["writes_result", *more], result)])])

    assert [found["seed"] for found in record()] == [0]
    assert [found["seed"] for found in record("--augment=full")] == [0]
    assert "result.json: there already, made with nothing where this study has --augment=full; move" in (
        capsys.readouterr().out
    )


def test_a_result_of_other_steps_before_it_is_not_recorded(tmp_path, monkeypatch, capsys):
    """The last command may be the same: its encoder is not."""
    monkeypatch.setattr(study, "RESULTS", tmp_path)
    (tmp_path / "writes_json.py").write_text("import sys; open(sys.argv[1], 'w').write('{}')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    first, last = str(tmp_path / "hub/encoder.json"), str(tmp_path / "run/result.json")
    for made in (first, last):
        pathlib.Path(made).parent.mkdir()

    def record(seed, *more):
        steps = [(["writes_json", first, *more], first), (["writes_json", last], last)]
        return study.carry_out("some", [study.Run({"seed": seed}, steps)])

    record(0, "--rate=1")
    pathlib.Path(first).unlink()  # another encoder in its place
    assert [found["seed"] for found in record(1, "--rate=2")] == [0]
    assert f"{last}: there already, made with --rate=1 where this study has --rate=2; move" in capsys.readouterr().out


def test_a_record_of_other_settings_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(study, "RESULTS", tmp_path)
    record = {"seed": 0, "commands": ["python -m x --rate=1 --workdir=there"]}
    (tmp_path / "some.json").write_text(json.dumps([record]))

    def kept(*settings):
        assert study.carry_out("some", [study.Run({"seed": 0}, [(["x", *settings], "r/result.json")])]) == [record]
        return capsys.readouterr().out

    assert kept("--rate=1", "--workdir=here") == ""
    assert "kept the record, made with --rate=1 where this study has --rate=2" in kept("--rate=2")


@pytest.mark.parametrize("dataset", ["collages-128px", "bccd-voc-128px"])
def test_all_encoders_learn_from_labels_for_equally_long(dataset):
    runs = detection.runs(dataset, "BOXES", "PICTURES", "W", 1, MODULE, ["supervised", *detection.WITH_ITS_NORM])
    lengths = [[flag for flag in run.steps[0][0] if flag.endswith(str(detection.LABEL_STEPS))] for run in runs]
    assert all(lengths)


def test_an_adapted_encoder_goes_on_with_the_module_that_is_given():
    (run,) = detection.runs("collages-128px", "", "PICTURES", "W", 1, "network:OTHER", [detection.ADAPTED])
    assert "--initial_encoder=OTHER" in run.steps[0][0]


def test_what_went_wrong_is_reported_and_the_rest_goes_on(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(study, "RESULTS", tmp_path)
    done = tmp_path / "result.json"
    done.write_text("{}")
    bad = study.Run({"seed": 0}, [(["no_such_module"], str(tmp_path / "never"))])
    records = study.carry_out("some", [bad, study.Run({"seed": 1}, [(["x"], str(done))])])
    assert [record["seed"] for record in records] == [1]
    assert "no_such_module" in capsys.readouterr().out


def test_a_table_shows_means_and_spread():
    records = [{"a": 1, "b": "x", "top1": 0.5}, {"a": 1, "b": "x", "top1": 0.6}, {"a": 2, "b": "y", "top1": 0.25}]
    assert study.table(records, "a", "b").splitlines()[2:] == [
        "| 1 | 55.0 ±5.0 | \N{EN DASH} |",
        "| 2 | \N{EN DASH} | 25.0 |",
    ]


def test_rungs_of_a_ladder_take_equal_time_but_for_those_of_passes():
    for rung in causes.RUNGS:
        if rung.cause != "passes":
            assert rung.epochs(60) * causes.IMAGES / rung.speed == pytest.approx(3600, rel=0.01)


def test_both_sides_have_equal_trials_of_settings():
    for trials in choices.CHOICES.values():
        sides = [side for side, *_ in trials]
        assert sides.count("CPC") == sides.count("pixels") > 1


@pytest.mark.parametrize("side", choices.SIDES)
def test_trials_of_one_side_alone(side):
    trials = choices.runs("THIRDS", "W", MODULE, [0.1], [side])
    assert [run.fields["features"] for run in trials] == [side] * (len(choices.CHOICES[0.1]) // 2)


def test_trials_of_settings_are_listed():
    phases = {"frozen": {"top1": 0.5}, "fine-tuned": {"top1": 0.625}}
    records = [
        {"labels": 0.01, "features": "CPC", "choice": "more", "phases": phases, "top1": 0.625},
        {"labels": 0.1, "features": "pixels", "choice": "less", "phases": {"supervised": {"top1": 0.25}}, "top1": 0.25},
    ]
    assert choices.table(records).splitlines()[2:] == [
        "| 1 % | CPC | more | 50.0 | 62.5 |",
        "| 10 % | pixels | less | - | 25.0 |",
    ]


def test_a_ladder_is_listed_and_drawn(tmp_path):
    readings = {"knn": 0.5, "0.01": 0.4, "0.1": 0.5, "1": 0.6}
    records = [{"cause": "reference", "rung": "the preset", "passes": 28.5, "bound": 2.125, **readings}]
    records += [{"cause": "rate", "rung": "0.001", "passes": 3.0, "bound": b, **readings, "1": b} for b in (0.5, 0.7)]
    assert causes.table(records).splitlines()[2:] == [
        "| reference | the preset | 28.5 | 2.12 | 50.0 | 40.0 | 50.0 | 60.0 |",
        "| rate | 0.001 | 3 | 0.60 | 50.0 | 40.0 | 50.0 | 60.0 |",
    ]
    assert causes.draw(records).startswith(b"\x89PNG")
    (tmp_path / "pretrain").mkdir()
    (tmp_path / "pretrain/result.json").write_text('{"bound": 2.5, "knn": 0.1}')
    assert causes.with_bound({"module": str(tmp_path / "hub"), "knn": 0.2})["bound"] == 2.5


def test_latents_are_read_off():
    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 150)
    clusters = np.eye(4)[labels] * 8 + random.normal(size=[600, 4])
    order = random.permutation(600)
    train, test = read_off.held_out((clusters[order], labels[order]))
    assert (len(train[1]), len(test[1])) == (400, 200)
    assert not {tuple(x) for x in train[0]} & {tuple(x) for x in test[0]}
    assert min(read_off.read_off(train, test).values()) > 0.99
    noise = read_off.read_off((random.normal(size=[400, 4]), train[1]), (random.normal(size=[200, 4]), test[1]))
    assert max(noise.values()) < 0.4


def test_a_module_is_read_off_a_folder(tmp_path):
    """The command: tested on held-out images, and on the validation set; what is missing is one line."""
    modules.write_module(tmp_path / "hub")
    random = np.random.default_rng(0)
    for split, each in (("train", 120), ("val", 10)):
        for name, brightness in (("dark", 60), ("light", 180)):
            (tmp_path / "in" / split / name).mkdir(parents=True)
            for number in range(each):
                picture = random.integers(-40, 40, [16, 16, 3]) + brightness
                Image.fromarray(picture.astype(np.uint8)).save(tmp_path / "in" / split / name / f"{number:03}.png")
    command = ["-m", "experiments.read_off", f"--module={tmp_path}/hub", f"--pictures={tmp_path}/in"]
    for test, images, whole in (("held_out", 80, False), ("val", 20, False), ("held_out", 80, True)):
        done = ran(*command, f"--test={test}", f"--output={tmp_path}/out.json", *(["--whole"] if whole else []))
        assert done.returncode == 0, done.stderr
        found = json.loads((tmp_path / "out.json").read_text())
        assert found == json.loads(done.stdout.splitlines()[-1])
        assert (found["tested_on"], found["images"]) == (test, images)
        assert found["of"] == ("whole images" if whole else "patches")
        assert min(found[name] for name in causes.READINGS) > 0.9
    refused = ran(*command[:3], f"--pictures={tmp_path}/none")
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert f"{tmp_path}/none" in refused.stderr


def ran(*command):
    return subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, timeout=200)


def test_rungs_are_chosen_by_cause():
    assert causes.chosen_rungs([]) == causes.RUNGS
    assert {rung.cause for rung in causes.chosen_rungs(["rate"])} == {"reference", "rate"}
    with pytest.raises(ValueError, match="'rat' is none of .*rate"):
        causes.chosen_rungs(["rat"])


@pytest.mark.parametrize("module", ["causes", "thirds"])
def test_a_folder_without_pictures_is_refused(module, tmp_path):
    refused = ran("-m", f"experiments.{module}", f"--pictures={tmp_path}", *["--output=x"] * (module == "thirds"))
    assert (refused.returncode, refused.stderr) == (1, f"--pictures={tmp_path}: has no folder 'train'\n")


def test_settings_are_chosen_on_nothing_but_thirds(tmp_path):
    refused = ran("-m", "experiments.choices", f"--thirds={tmp_path}")
    said = f"--thirds={tmp_path}: has no folder 'val'; `python -m experiments.thirds` makes it\n"
    assert (refused.returncode, refused.stderr) == (1, said)


@pytest.mark.parametrize("more", [["--dataset=collages-128px"], ["--dataset=collages", "--encoder=hub"]])
def test_copies_of_a_module_need_one_at_128_px(more):
    refused = ran("-m", "experiments.detection", "--features=supervised, patches", *more)
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert "copies of --encoder, for the datasets at 128 px" in refused.stderr


def test_every_third_image_is_linked_to_be_tested_on(tmp_path):
    for name in ("a/1.jpg", "a/2.jpg", "a/3.jpg", "b/4.jpg", "b/5.jpg", "b/6.jpg", "b/7.jpg"):
        (tmp_path / "in/train" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in/train" / name).write_text(name)
    with pytest.raises(FileNotFoundError, match="no folder 'train'"):
        thirds.link(str(tmp_path), str(tmp_path / "out"))
    for _ in range(2):  # the second time all is there
        assert thirds.link(str(tmp_path / "in"), str(tmp_path / "out")) == {"train": 5, "val": 2}
    assert sorted(str(path.relative_to(tmp_path / "out")) for path in tmp_path.rglob("out/val/*/*")) == [
        "val/a/3.jpg",
        "val/b/6.jpg",
    ]
    assert (tmp_path / "out/train/b/7.jpg").read_text() == "b/7.jpg"
