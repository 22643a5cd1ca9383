"""The studies' commands exist, and their records are kept and not repeated."""

import json
import pathlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from cpc_tf import cli
from cpc_tf.export.config import ExportConfig
from cpc_tf.results.runs import collect
from cpc_tf.tasks import TASKS
from experiments import causes, check, choices, detection, labels, ladder, policies, read_off, records, study, thirds
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


@pytest.fixture
def room(tmp_path, monkeypatch):
    """A folder for a study named 'some', whose commands can be `python -m writes FILE`, which logs that it ran."""
    monkeypatch.setattr(study, "RESULTS", tmp_path / "results")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "writes.py").write_text(
        "import pathlib, sys, time\n"
        f"with open({str(tmp_path / 'log')!r}, 'a') as log: print(*sys.argv[2:], file=log)\n"
        "made = pathlib.Path(sys.argv[1]); time.sleep(0.3)\n"
        "made.parent.mkdir(parents=True, exist_ok=True); made.write_text('{\"top1\": 0.5}')\n"
    )
    return tmp_path


def _run(room, seed, *flags, folder="runs"):
    made = str(room / folder / str(seed) / "result.json")
    return study.Run({"seed": seed}, [(["writes", made, f"--seed={seed}", *flags, f"--workdir={folder}"], made)])


def _records(room, *records):
    (room / "results").mkdir()
    (room / "results/some.json").write_text(json.dumps(records))


def _ran(room):
    return (room / "log").read_text().splitlines() if (room / "log").exists() else []


OTHER_SETTINGS = {
    "flag": ("--seed=0 --rate=1", "made with --rate=1 where this study has --rate=2"),
    "seed": ("--seed=1 --rate=2", "made with --seed=1 where this study has --seed=0"),
    "dataset": ("--seed=0 --rate=2 --dataset=folder:/a/birds", "made with --dataset=folder:birds where"),
    "encoder": ("--seed=0 --rate=2 --encoder=network:a/hub", "made with --encoder=network:hub where"),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHER_SETTINGS)
def test_a_record_of_other_settings_is_run_anew_and_moves(name, room, capsys):
    """Neither taken for this study's nor lost."""
    flags, said = OTHER_SETTINGS[name]
    old = {"seed": 0, "commands": [f"python -m writes {flags} --workdir=there"], "top1": 0.25}
    _records(room, old, {"seed": 7})
    found = study.carry_out("some", [_run(room, 0, "--rate=2")])
    assert [(record["seed"], record.get("top1")) for record in found] == [(7, None), (0, 0.5)]
    assert len(_ran(room)) == 1
    out = capsys.readouterr().out
    assert f"the record was {said}" in out
    assert "moved to earlier_results/some.json" in out
    assert json.loads((room / "earlier_results/some.json").read_text()) == [old]


def test_a_record_of_other_settings_stays_if_the_run_fails(room):
    """But it is not among what the study found."""
    old = {"seed": 0, "commands": ["python -m fails --rate=1"]}
    _records(room, old)
    failing = study.Run({"seed": 0}, [(["fails", "--rate=2"], str(room / "runs/result.json"))])
    assert study.carry_out("some", [failing]) == []
    assert json.loads((room / "results/some.json").read_text()) == [old]


SAME_SETTINGS = {
    "places": "python -m writes /there/result.json --seed=0 --rate=2 --workdir=there --output=x --module=y",
    "order": "python -m writes --rate=2 --seed=0",
    "the last of a flag counts": "python -m writes --seed=0 --rate=7 --rate=2",
}


@pytest.mark.parametrize("name", SAME_SETTINGS)
def test_a_record_of_the_same_settings_is_not_repeated(name, room, capsys):
    _records(room, {"seed": 0, "commands": [SAME_SETTINGS[name]]})
    assert len(study.carry_out("some", [_run(room, 0, "--rate=2")])) == 1
    assert (_ran(room), capsys.readouterr().out) == ([], "")


def test_a_preset_that_has_changed_since_makes_other_settings(tmp_path):
    """A record has all settings, not only the name of the preset."""
    preset = tmp_path / "preset.flags"
    preset.write_text("--train_steps=10\n")
    command = ["cpc_tf.linear", f"--flagfile={preset}", "--dataset=folder:/a/birds", "--encoder=x/hub"]
    line = records.as_line(command)
    moved = [*command[:2], "--dataset=folder:/b/birds/", "--encoder=y/hub", "--workdir=z"]
    assert records.difference([line], [moved]) == ""
    preset.write_text("--train_steps=20\n")
    assert records.difference([line], [command]) == "made with --train_steps=10 where this study has --train_steps=20"


@pytest.mark.parametrize("name", STUDIES)
def test_the_settings_of_a_command_as_a_line_are_its_settings(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    for run in STUDIES[name][:4]:
        commands = [command for command, _ in run.steps]
        assert records.difference([*map(records.as_line, commands)], commands) == ""


def test_another_encoder_in_the_place_of_the_one_before_makes_other_settings(room, capsys):
    """The module that comes with the code has changed three times."""
    hub = room / "hub/variables/variables.data"
    hub.parent.mkdir(parents=True)
    hub.write_text("first")
    given = [f"--encoder=network:{room}/hub"]
    assert [record["weights"] for record in study.carry_out("some", [_run(room, 0, *given)])] == [
        {"network:hub": records.weights(str(room / "hub"))}
    ]
    study.carry_out("some", [_run(room, 0, *given)])
    assert len(_ran(room)) == 1
    records.weights.cache_clear()  # of another process
    hub.write_text("second")
    study.carry_out("some", [_run(room, 0, *given, folder="again")])
    assert "made with other values in network:hub than this study has" in capsys.readouterr().out
    assert len(_ran(room)) == 2


def test_two_processes_of_a_study_do_each_run_once_and_keep_all_records(room):
    """Threads stand for them: the locks of files do not tell them apart."""
    parts = [[0, 1, 2], [2, 1, 3]]
    with ThreadPoolExecutor() as pool:
        for done in [pool.submit(study.carry_out, "some", [_run(room, s) for s in seeds]) for seeds in parts]:
            done.result()
    found = json.loads((room / "results/some.json").read_text())
    assert sorted(record["seed"] for record in found) == [0, 1, 2, 3]
    assert sorted(line.split()[0] for line in _ran(room)) == [f"--seed={seed}" for seed in range(4)]


def test_a_record_is_written_when_its_run_ends(room, monkeypatch):
    """Not when those before it end, too: a study may be killed."""
    core = min(study.os.sched_getaffinity(0))
    monkeypatch.setattr(study.os, "sched_getaffinity", lambda _: [core, core])
    made = room / "first/result.json"
    (room / "waits.py").write_text(
        "import pathlib, time\n"
        f"records, end = pathlib.Path({str(room / 'results/some.json')!r}), time.monotonic() + 20\n"
        "while not (records.exists() and '\"seed\": 1' in records.read_text()):\n"
        "    assert time.monotonic() < end; time.sleep(0.05)\n"
        f"pathlib.Path({str(made)!r}).write_text('{{}}')\n"
    )
    made.parent.mkdir()
    found = study.carry_out("some", [study.Run({"seed": 0}, [(["waits"], str(made))]), _run(room, 1)])
    assert sorted(record["seed"] for record in found) == [0, 1]


def test_a_run_that_was_begun_with_other_settings_is_not_gone_on_with(room, capsys):
    """A longer study would else end with a run of two lengths."""
    run = study.Run({"seed": 0}, [(["cpc_tf.linear", "--train_steps=20"], str(room / "run/result.json"))])
    (room / "run").mkdir()
    (room / "run/run.flags").write_text("--train_steps=10\n")
    assert study.carry_out("some", [run]) == []
    assert "there already in part, made with --train_steps=10 where this study has --train_steps=20; move" in (
        capsys.readouterr().out
    )


def test_records_are_counted():
    runs = [study.Run({"seed": seed}, [(["x", "--rate=2"], "r/result.json")]) for seed in range(3)]
    found = [{"seed": 0, "commands": ["python -m x --rate=2"]}, {"seed": 1, "commands": ["python -m x --rate=1"]}]
    assert check.table("some", runs, [*found, {"seed": 9}]) == [
        "some: 1 done, 1 of other settings, 1 missing, 1 not asked for",
        "    seed=1: made with --rate=1 where this study has --rate=2",
    ]


def test_our_records_are_of_todays_settings(monkeypatch):
    """But for two of 12,000 steps, which docs/gain.md calls so; a run of 24,000 replaces them."""
    monkeypatch.chdir(ROOT)
    lines = [line for name, runs in check.studies().items()
             for line in check.table(name, runs, records.read(study.RESULTS / f"{name}.json"))]  # fmt: skip
    assert {path.stem for path in study.RESULTS.glob("*.json")} == {*check.studies()}
    assert all(line.endswith(" 0 not asked for") for line in lines if not line.startswith(" "))
    assert [line.strip() for line in lines if line.startswith(" ")] == [
        f"dataset=imagenette-128px, label_fraction={part}, seed=0, features=pixels: "
        "made with --train_steps=12000 where this study has --train_steps=24000"
        for part in (0.2, 0.5)
    ]


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
