"""The studies' commands parse, their records are kept and not repeated, and the documents show what
is recorded.
"""

import json
import os
import pathlib
import subprocess
import types
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf
from absl import flags
from threadpoolctl import threadpool_limits

from cpc_tf.classify.logistic import LabelledFeatures
from cpc_tf.compare.methods import METHODS, TRIALS
from cpc_tf.core import cli
from cpc_tf.core.keras import keras
from cpc_tf.encoders.card import Identity
from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.encoders.network import make_encoder
from cpc_tf.pretrain.config import PretrainConfig
from studies import __main__ as command
from studies import module_tables, read_off, records, results, runner, thirds
from studies.causes import study as causes
from studies.encoders import measure as few_labels
from studies.encoders import study as encoders
from studies.label_curve import study as curves
from studies.ladder import study as ladders
from studies.objectives import study as objectives
from studies.runner import Places, Run
from tests import modules, samples
from tests.binaries import ROOT

pytestmark = pytest.mark.drawn


@pytest.fixture(autouse=True)
def root(monkeypatch):
    """Presets are named from there."""
    monkeypatch.chdir(ROOT)


@pytest.mark.slow
@pytest.mark.parametrize("study", runner.STUDIES)
def test_runs_parse_and_records_are_of_todays_settings(study):
    runs, found = runner.load(study).runs(Places()), records.read(study)
    assert (
        len({json.dumps(run.fields) for run in runs})
        == len({run.result for run in runs})
        == len(runs)
        > 3
    )
    for run in runs:
        # `status` parses the others
        if not any(run.fields.items() <= record.items() for record in found):
            for (module, *arguments), _ in run.steps:
                if module in records.CONFIGS:  # others have flags of their own
                    cli.parse(records.CONFIGS[module], arguments)
    lines = command.status(study, runs, found)
    assert lines[0].endswith(", 0 of no run")
    assert not lines[1:]
    for record in found:
        # the second where only the commit of the record is known
        assert record["commit"] or record["recorded_in"]
        assert len(record["commands"]) == len(record["settings"])
        if "kind" in record:
            # older ones lack what came later
            assert set(record["identity"]) <= set(Identity("cpc").to_json())


@pytest.mark.slow
@pytest.mark.parametrize("path", results.documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_documents_show_what_is_recorded(path):
    """`python -m studies.results` writes them."""
    assert (
        results.filled(path.read_text(), len(path.relative_to(ROOT).parts) - 1) == path.read_text()
    )


def test_a_new_module_enters_the_tables_by_itself(tmp_path, monkeypatch):
    """With the figures that are recorded of it, and a dash for others."""
    (tmp_path / "new_32px").mkdir()
    modules.write_card(tmp_path / "new_32px", EncoderConfig(encoder="small"))
    (tmp_path / "about.json").write_text('{"new_32px": {"licence_short": "free"}}')
    rows = [{"each": 5, "accuracy": [0.1]}, {"each": 12, "accuracy": [0.5, 0.7]}]
    found = {"clipart": [{"encoder": "new_32px", "set": "digits", "rows": rows}]}
    monkeypatch.setattr(module_tables, "MODULES", tmp_path)
    monkeypatch.setattr(records, "read", lambda study: found.get(study, []))
    table = module_tables.table()
    assert "| parameters | 5 |" in table
    assert "| digits, 12 labels per class, mean of the classes, % | 60.0 ± 14.1, n=2 |" in table
    assert "| log | - |" in table
    assert "| free |" in module_tables.short_table()


def test_tables_have_only_runs_of_the_studys_settings(monkeypatch):
    first, *rest = records.read("health")
    others = {**first, "settings": [f"{each} --learning_rate=9" for each in first["settings"]]}
    monkeypatch.setattr(records, "read", lambda study: [others, *rest])
    assert results.of.__wrapped__("health") == rest


@pytest.mark.parametrize("dataset", ladders.LADDERS)
def test_ladder_headers_state_their_recorded_accuracy(dataset):
    presets = ROOT / "flags" / ladders.LADDERS[dataset].presets
    for number, rung in enumerate(ladders.RUNGS, 1):
        measured = results.top1_of_rung(rung, dataset)
        assert measured != "-" or rung == "PA" or dataset != "photos"
        if measured != "-":
            header = (presets / f"pretrain_{number}_{rung.lower()}.flags").read_text()
            assert f"linear top-1 {measured.partition(',')[0]} %" in header


def test_ladder_shows_one_channel_with_colour_beside():
    found = {"dataset": "imagenette-224", "seed": 0}
    own = [
        {**found, "rung": "LN", "top1": 0.5},
        {**found, "rung": "RC", "top1": 0.31, "by_channel": {"top1": 0.55}},
    ]
    table = ladders.table(own)
    assert "| LN | 50.0 | - |" in table
    assert "| RC | 55.0 | 31.0 |" in table


def test_untrained_rung_differs_from_last_in_encoder_alone():
    untrained, last = (
        next(run for run in ladders.runs(Places()) if run.fields["rung"] == rung)
        for rung in (ladders.UNTRAINED, ladders.OURS)
    )
    assert untrained.steps[:-1] == last.steps[:-1]
    sides = [records.settings(run.steps[-1][0]) for run in (untrained, last)]
    differ = {name: [side[name] for side in sides] for name in sides[0]}
    assert {name: pair for name, pair in differ.items() if pair[0] != pair[1]} == {
        "encoder": ["random:hub", "graph:hub"]
    }


@pytest.mark.parametrize(("arm", "narrow", "changes"), [
    ("CPC, small_wide", "CPC", {"encoder": "small_wide"}),
    ("pixels, small_wide", "pixels", {"backbone": "small_wide"}),
    ("CPC, no blocks", "CPC", {"head_blocks": "0", "endpoint": "feature_map"}),
])  # fmt: skip
def test_arms_differ_from_others_in_one_thing(arm, narrow, changes):
    """On the way from images to the classifier; all else is equal."""
    steps = [
        curves.classified("imagenette-224", "P", "F", features, 0.1, 0)
        for features in (arm, narrow)
    ]
    found = {}
    for one, other in zip(*steps):
        before, after = records.settings(other[0]), records.settings(one[0])
        found |= {name: after[name] for name in after if after[name] != before[name]}
    assert found == changes


@pytest.fixture
def room(tmp_path, monkeypatch):
    """A folder for a study named 'some', whose commands can be `python -m writes FILE`, which logs
    that it ran.
    """
    monkeypatch.setattr(records, "FOLDER", tmp_path / "studies")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    runner.commit.cache_clear()
    (tmp_path / "studies/some").mkdir(parents=True)
    (tmp_path / "writes.py").write_text(
        "import pathlib, sys, time\n"
        f"with open({str(tmp_path / 'log')!r}, 'a') as log: print(*sys.argv[2:], file=log)\n"
        "made = pathlib.Path(sys.argv[1]); time.sleep(0.2)\n"
        "made.parent.mkdir(parents=True, exist_ok=True); made.write_text('{\"top1\": 0.5}')\n"
    )
    return tmp_path


def _run(room, seed, *flags, folder="runs"):
    made = str(room / folder / str(seed) / "result.json")
    return Run(
        {"seed": seed}, [(["writes", made, f"--seed={seed}", *flags, f"--workdir={folder}"], made)]
    )


def _records(*found):
    records.path("some").write_text(json.dumps(found))


def _ran(room):
    return (room / "log").read_text().splitlines() if (room / "log").exists() else []


def test_a_run_is_recorded_and_not_repeated(room):
    first = runner.carry_out("some", [_run(room, 0)])
    assert (
        runner.carry_out("some", [_run(room, 0, folder="elsewhere")])
        == first
        == records.read("some")
    )
    assert len(_ran(room)) == 1
    (record,) = first
    assert (record["top1"], record["seed"]) == (0.5, 0)
    assert record["commands"][0].startswith("python -m writes ")
    assert set(record) >= {"settings", "weights", "date", "machine", "run"}
    assert record["commit"] is None  # outside of git


def test_a_record_knows_the_commit_of_the_code(room, monkeypatch):
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)  # neither signing nor hooks of the user
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")

    def git(*words):
        command = ["git", "-c", "user.name=x", "-c", "user.email=x", *words]
        return subprocess.run(
            command, cwd=room, check=True, capture_output=True, text=True
        ).stdout.strip()

    git("init", "-q")
    git("add", "writes.py")
    git("commit", "-qm", "x")
    for changed, wanted in (("", ""), ("# another\n", "-dirty")):
        with open(room / "writes.py", "a") as file:
            file.write(changed)
        runner.commit.cache_clear()
        seed = len(records.read("some"))
        assert (
            runner.carry_out("some", [_run(room, seed)])[0]["commit"]
            == git("rev-parse", "HEAD") + wanted
        )
    runner.commit.cache_clear()


@pytest.mark.parametrize(("recorded", "message"), [
    ("--seed=0 --rate=2 --workdir=there --output=x --module=y", ""),  # places
    ("--rate=2 --seed=0", ""),  # another order
    ("--seed=0 --rate=7 --rate=2", ""),  # the last of a flag counts
    ("--seed=0 --rate=2 --encoder=graph:b/hub",
     "made with --encoder=graph:hub where this study has nothing"),
    ("--seed=1 --rate=2", "made with --seed=1 where this study has --seed=0"),
    ("--seed=0", "made with nothing where this study has --rate=2"),
    ("--seed=0 --rate=2 --dataset=folder:/a/birds",
     "made with --dataset=folder:birds where this study has nothing"),
])  # fmt: skip
def test_settings_are_compared_but_for_places(recorded, message):
    assert (
        records.difference(
            [f"writes {recorded}"], [["writes", "--seed=0", "--rate=2", "--workdir=here"]]
        )
        == message
    )


def test_record_of_other_settings_is_replaced_on_success(room, capsys):
    """If not it stays, but is not among what the study found; and the rest goes on."""
    fails = {"seed": 0, "settings": ["fails --rate=1"]}
    _records(fails)
    failing = Run({"seed": 0}, [(["fails", "--rate=2"], str(room / "runs/result.json"))])
    assert [record["seed"] for record in runner.carry_out("some", [failing, _run(room, 1)])] == [1]
    assert records.read("some")[0] == fails
    assert "fails" in capsys.readouterr().out
    _records({"seed": 0, "settings": ["writes --seed=0 --rate=1"], "top1": 0.25}, {"seed": 7})
    assert [record["top1"] for record in runner.carry_out("some", [_run(room, 0, "--rate=2")])] == [
        0.5
    ]
    assert [record["seed"] for record in records.read("some")] == [7, 0]
    assert (
        "the record was made with --rate=1 where this study has --rate=2" in capsys.readouterr().out
    )


def test_replaced_encoder_makes_other_settings(room, capsys):
    """The module that comes with the code has changed three times."""
    hub = room / "hub/variables/variables.data"
    hub.parent.mkdir(parents=True)
    for weights, ran in (("first", 1), ("first", 1), ("second", 2)):
        hub.write_text(weights)
        runner.carry_out("some", [_run(room, 0, f"--encoder={room}/hub", folder=weights)])
        assert len(_ran(room)) == ran
    assert "made with other weights of hub" in capsys.readouterr().out


@pytest.mark.parametrize(("begun", "by", "message"), [
    ("result.json", "", "nothing says what made it"),
    ("result.json", "writes --seed=0 --rate=1",
     "there already, made with --rate=1 where this study has --rate=2"),
    ("run.flags", "writes --seed=0 --rate=1", "in part, made with --rate=1 where this study"),
])  # fmt: skip
def test_results_of_other_commands_are_not_recorded(begun, by, message, room, capsys):
    """Else changed settings would get the figures of those before, and a longer study a run of two
    lengths.
    """
    run = _run(room, 0, "--rate=2")
    made = pathlib.Path(run.result)
    made.parent.mkdir(parents=True)
    (made.parent / begun).write_text("{}")
    if by:
        (made.parent.parent / "0-result.json.commands").write_text(by)
    assert runner.carry_out("some", [run]) == []
    assert message in capsys.readouterr().out


def test_changed_presets_but_not_new_flags_change_settings(tmp_path):
    """A new flag had its default of today; one that went could have had one value."""
    preset = tmp_path / "preset.flags"
    preset.write_text("--train_steps=10\n")
    step = ["cpc_tf.linear", f"--flagfile={preset}", "--dataset=folder:/a/birds", "--encoder=x/hub"]
    line = records.as_line(step)
    moved = [*step[:2], "--dataset=folder:/b/birds/", "--encoder=y/hub", "--workdir=z"]
    assert records.difference([line], [moved]) == ""
    before = " ".join(word for word in line.split() if not word.startswith("--batch_size="))
    assert records.difference([f"{before} --of_old=1"], [step]) == ""
    assert "--batch_size=7" in records.difference([before], [[*step, "--batch_size=7"]])
    preset.write_text("--train_steps=20\n")
    assert (
        records.difference([line], [step])
        == "made with --train_steps=10 where this study has --train_steps=20"
    )


def test_two_processes_do_each_run_once(room):
    """Threads stand for them: the locks of files do not tell them apart."""
    parts = [[0, 1, 2], [2, 1, 3]]
    with ThreadPoolExecutor() as pool:
        for done in [
            pool.submit(runner.carry_out, "some", [_run(room, s) for s in seeds]) for seeds in parts
        ]:
            done.result()
    assert sorted(record["seed"] for record in records.read("some")) == [0, 1, 2, 3]
    assert sorted(line.split()[0] for line in _ran(room)) == [f"--seed={seed}" for seed in range(4)]


@pytest.mark.parametrize(("names", "chosen", "most", "wanted"), [
    ([], None, 0, [([0], ""), ([1], ""), ([2], "")]),
    ([], None, 2, [([0], ""), ([1], "")]),
    (["A", "A"], None, 0, [([0, 2], "0"), ([1], "1")]),
    (["A", "A"], "5,7", 1, [([0, 1, 2], "5")]),
])  # fmt: skip
def test_concurrent_runs_get_own_gpu_or_core(names, chosen, most, wanted, monkeypatch):
    monkeypatch.setattr(runner.devices, "gpu_names", lambda: names)
    monkeypatch.setattr(runner.devices, "cores", lambda: [0, 1, 2])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if chosen:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
    assert runner.slots(most) == wanted


def _given(monkeypatch, **values):
    """Sets the flags of a command."""
    monkeypatch.setattr(flags, "FLAGS", types.SimpleNamespace(**values))


@pytest.mark.slow
@pytest.mark.usefixtures("tiny_encoder")
def test_read_off_holds_out_every_third_image(tmp_path, monkeypatch, capsys):
    train, test = read_off.held_out((10 * np.arange(7), np.arange(7)))
    assert [x.tolist() for x in (*train, *test)] == [
        [0, 10, 30, 40, 60],
        [0, 1, 3, 4, 6],
        [20, 50],
        [2, 5],
    ]
    keras.utils.set_random_seed(0)
    network = make_encoder(EncoderConfig(encoder="small", norm="none"))
    network(tf.zeros([1, 16, 16, 3]))
    tf.train.Checkpoint(variables=network.variables).write(f"{tmp_path}/hub/variables/variables")
    modules.write_card(tmp_path / "hub", network.config)
    pictures = samples.write_pictures(tmp_path / "in", {"train": 75}, names=("red", "green"))
    places = {"module": f"{tmp_path}/hub", "pictures": pictures, "output": f"{tmp_path}/out.json"}
    _given(monkeypatch, **places, test="held_out", whole=False)
    # several threads for so little wait for each other, which costs most
    with threadpool_limits(1):
        read_off.main([])
    found = json.loads((tmp_path / "out.json").read_text())
    assert found == json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (found["tested_on"], found["images"], found["of"]) == ("held_out", 50, "patches")
    assert min(found[name] for name in causes.READINGS) > 0.9


def test_missing_inputs_are_refused_in_one_line(tmp_path, monkeypatch):
    (tmp_path / "hub").mkdir()
    _given(monkeypatch, module=f"{tmp_path}/hub", pictures="none", test="val", whole=False)
    with pytest.raises(SystemExit, match=f"^.*{tmp_path}/hub.*$"):
        read_off.main([])
    _given(
        monkeypatch,
        work="W",
        pictures="P",
        boxes="B",
        drawings="D",
        lite0="L",
        only=["rung=x"],
        cores=0,
        minutes=1.0,
        dry_run=False,
    )
    with pytest.raises(SystemExit, match="^'laddr' is not a study; choose one of label_curve, .*$"):
        command.main(["studies", "laddr"])
    with pytest.raises(
        SystemExit,
        match="^--only=rung=x: no run of ladder has these; fields: dataset, rung,",
    ):
        command.main(["studies", "ladder"])


def test_a_folder_that_is_absent_is_named_before_anything_runs(tmp_path):
    places = runner.Places(pictures=f"{tmp_path}/absent", boxes=f"{tmp_path}/unused")
    run = Run({}, [(["reads", f"--dataset=folder:{places.pictures}"], "result.json")])
    assert runner.absent(places, [run]).startswith(f"--pictures={tmp_path}/absent: there is no")
    (tmp_path / "absent").mkdir()
    assert runner.absent(places, [run]) == ""


def test_a_dry_run_lists_the_commands_and_runs_nothing(tmp_path, monkeypatch, capsys):
    """Of each run that is not recorded: its fields and its commands."""
    monkeypatch.setattr(records, "FOLDER", tmp_path / "records")

    def prepare(*_):
        raise AssertionError("prepared")

    runs = [
        Run({"rate": rate}, [(["writes", f"--rate={rate}"], f"{tmp_path}/{rate}/result.json")])
        for rate in (1, 2, 3)
    ]
    settings = [records.as_line(command) for command, _ in runs[0].steps]
    records.add("made_up", {"settings": settings, **runs[0].fields}, runs[0].fields)
    study = types.SimpleNamespace(runs=lambda _: runs, prepare=prepare)
    monkeypatch.setattr(runner, "STUDIES", ["made_up"])
    monkeypatch.setattr(runner, "load", lambda _: study)
    monkeypatch.setattr(runner, "carry_out", prepare)
    places = dict.fromkeys(["work", "pictures", "boxes", "drawings", "lite0"], str(tmp_path))
    _given(monkeypatch, **places, minutes=1.0, only=[], cores=0, dry_run=True)
    command.main(["studies", "made_up"])
    assert capsys.readouterr().out.splitlines() == [
        "rate=2",
        "    python -m writes --rate=2",
        "rate=3",
        "    python -m writes --rate=3",
        "made_up: 2 of 3 runs would be run, the others are recorded; nothing was run",
    ]


@pytest.fixture
def measured_objectives(tmp_path, monkeypatch):
    """The study of objectives where a step of each trial takes half a second."""
    monkeypatch.setattr(records, "FOLDER", tmp_path / "studies")
    names = [f"{each} {trial}" for each in [*METHODS, objectives.LABELS] for trial in TRIALS]
    (tmp_path / "objectives").mkdir()
    (tmp_path / "objectives/seconds.json").write_text(json.dumps(dict.fromkeys(names, 0.5)))
    return Places(work=str(tmp_path), minutes=2.0)


def record_objective(run, knn, held_out):
    figures = {"0.01": 0.1, "0.1": 0.2, "1": 0.3, "knn": knn, "held_out_knn": held_out}
    settings = [records.as_line(command) for command, _ in run.steps]
    record = {**figures, "steps": 240, "settings": settings, **run.fields}
    records.add("objectives", record, run.fields)


def test_objectives_get_equal_seconds_here_and_elsewhere(measured_objectives, tmp_path):
    first = objectives.runs(measured_objectives)[0]
    (module, *words), _ = first.steps[0]
    assert module == "cpc_tf.pretrain"
    assert cli.parse(PretrainConfig, words).training.train_steps == 240
    record_objective(first, 0.4, 0.4)
    # on another machine the recorded lengths are the same
    (tmp_path / "objectives/seconds.json").unlink()
    again = objectives.runs(measured_objectives)[0]
    assert records.find(again.fields, again.steps, records.read("objectives"))[0]


def test_better_trial_by_held_out_images_gets_more_seeds(measured_objectives):
    trials = objectives.runs(measured_objectives)
    for place, run in enumerate(trials):
        is_paper = run.fields["trial"] == "paper"
        record_objective(run, knn=0.9 - 0.3 * is_paper, held_out=place / 100 + is_paper)
    more = objectives.runs(measured_objectives)[len(trials) :]
    seeded = [run.fields["objective"] for run in more if run.fields["seed"] == 1]
    assert seeded == ["cpc", "vicreg", "byol", "exemplar", "deep_cluster", "colorization"]
    assert {run.fields["trial"] for run in more if run.fields["objective"] in METHODS} == {"paper"}
    drawn = [run for run in more if run.fields["pictures"] == objectives.DRAWINGS]
    assert len(drawn) == len(METHODS) + 1


def test_objectives_are_compared_with_cpc_seed_by_seed(measured_objectives):
    gaps = {"cpc": [0, 0, 0], "moco": [0.04, 0.05, 0.06]}
    for objective, values in gaps.items():
        for seed, gap in enumerate(values):
            fields = {"pictures": "imagenette-224", "objective": objective, "trial": "short"}
            run = Run({**fields, "minutes": 2.0, "seed": seed}, [])
            record_objective(run, knn=0.5 + seed / 100 + gap, held_out=0.5)
    found = records.read("objectives")
    assert "| imagenette-224, 2 min | MoCo | short | 1 | - | 56.0 |" in objectives.table(found)
    assert "| +5.0 (+2.5 to +7.5), n=3 |" in objectives.table(found)
    assert objectives.draw(found)[1:4] == b"PNG"


def test_answer_on_objectives_waits_for_the_whole_study(measured_objectives):
    trials = objectives.runs(measured_objectives)
    gaps = {"moco": 0.1, "byol": -0.1, "cpc": 0.0}
    for run in trials:
        gap = gaps.get(run.fields["objective"], -0.2)
        record_objective(run, knn=0.5 + gap, held_out=0.5 + gap)
    assert objectives.answer(records.read("objectives"), 2.0) == ""
    for run in objectives.runs(measured_objectives)[len(trials) :]:
        seed = run.fields["seed"]
        gap = gaps.get(run.fields["objective"], -0.2)
        record_objective(run, knn=0.5 + gap * (1 + 0.01 * seed), held_out=0.5)
    said = objectives.answer(records.read("objectives"), 2.0)
    assert "MoCo has the best neighbours" in said
    assert "Ahead of CPC in three seeds: MoCo (+10.1 points);" in said
    assert "BYOL (-10.1 points)" in said.partition("behind it")[2]


def test_few_labels_are_scored_by_mean_of_classes():
    """Of the rare class, which looks like the frequent one, no image is found."""
    labels = np.repeat([0, 1, 2], [60, 60, 3])
    features = np.zeros([123, 2], np.float32)
    features[labels == 1] = 1
    examples = LabelledFeatures(features, labels, np.arange(123), 3)
    values = [few_labels.accuracy(examples, 2, seed) for seed in range(5)]
    # of two classes that look the same one is found
    assert values == pytest.approx([2 / 3] * 5)


def test_encoders_stand_side_by_side_on_folders_of_classes(tmp_path):
    samples.write_pictures(tmp_path / "in", {"train": 3}, names=("a", "b"))
    examples = few_labels.encoded(f"{tmp_path}/in/train", ["pixels", "pixels"])
    assert examples.labels.tolist() == [0, 0, 0, 1, 1, 1]
    half = examples.features.shape[1] // 2
    assert np.array_equal(examples.features[:, :half], examples.features[:, half:])


def test_table_of_encoders_marks_the_best():
    rows = [{"each": each, "accuracy": [0.5, 0.6]} for each in few_labels.NUMBERS]
    better = [{**row, "accuracy": [0.7, 0.7]} for row in rows]
    found = [
        {"set": "digits", "encoder": "pixels", "rows": rows},
        {"set": "digits", "encoder": "CPC", "rows": better},
    ]
    assert "| digits | 12 | 55.0 ± 7.1, n=2 | **70.0 ± 0.0, n=2** |" in encoders.table(found)


def test_every_third_image_is_linked_for_testing(tmp_path):
    samples.write_pictures(tmp_path / "in", {"train": 3}, names=("a",))
    samples.write_pictures(tmp_path / "in", {"train": 4}, names=("b",))
    with pytest.raises(FileNotFoundError, match="no folder 'train'"):
        thirds.link(str(tmp_path), str(tmp_path / "out"))
    for _ in range(2):  # the second time all is there
        assert thirds.link(str(tmp_path / "in"), str(tmp_path / "out")) == {"train": 5, "val": 2}
    linked = {
        str(path.relative_to(tmp_path / "out")): path.read_bytes()
        for path in tmp_path.rglob("out/*/*/*")
    }
    assert sorted(linked)[-2:] == ["val/a/2.png", "val/b/2.png"]
    assert linked["train/b/3.png"] == (tmp_path / "in/train/b/3.png").read_bytes()
