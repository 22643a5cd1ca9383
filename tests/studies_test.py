"""The studies' commands parse, their records are kept and not repeated, and the documents show what is recorded."""

import json
import pathlib
import subprocess
import types
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf
from absl import flags
from PIL import Image
from threadpoolctl import threadpool_limits

from cpc_tf import cli
from cpc_tf.encoders.card import Identity
from cpc_tf.encoders.config import EncoderConfig, make_encoder
from cpc_tf.keras import keras
from studies import __main__ as command
from studies import read_off, records, results, runner, thirds
from studies.causes import study as causes
from studies.runner import Places, Run
from tests import modules

pytestmark = pytest.mark.drawn

ROOT = pathlib.Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def root(monkeypatch):
    """Presets are named from there."""
    monkeypatch.chdir(ROOT)


@pytest.mark.slow
@pytest.mark.parametrize("study", runner.STUDIES)
def test_runs_parse_and_records_are_of_todays_settings(study):
    """But for two of 12,000 steps, which docs/results.md marks; runs of 24,000 replace them."""
    runs, found = runner.load(study).runs(Places()), records.read(study)
    assert len({json.dumps(run.fields) for run in runs}) == len({run.result for run in runs}) == len(runs) > 3
    for run in runs:
        if not any(run.fields.items() <= record.items() for record in found):  # `status` parses the others
            for (module, *arguments), _ in run.steps:
                if module != "studies.read_off":  # has flags of its own
                    cli.parse(records.CONFIGS[module], arguments)
    lines = command.status(study, runs, found)
    assert lines[0].endswith(", 0 of no run")
    assert [line.strip() for line in lines[1:]] == [
        f"dataset=imagenette-128px, label_fraction={part}, seed=0, features=pixels: "
        "made with --train_steps=12000 where this study has --train_steps=24000"
        for part in (0.2, 0.5)
    ] * (study == "label_curve")
    for record in found:
        assert record["commit"] or record["recorded_in"]  # the second where only the commit of the record is known
        assert len(record["commands"]) == len(record["settings"])
        if "kind" in record:
            assert set(record["identity"]) == set(Identity("cpc").to_json())


@pytest.mark.slow
@pytest.mark.parametrize("path", results.documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_documents_show_what_is_recorded(path):
    """`python -m studies.results` writes them."""
    assert results.filled(path.read_text(), len(path.relative_to(ROOT).parts) - 1) == path.read_text()


def test_a_marked_table_is_replaced_and_its_links_follow_the_document(monkeypatch):
    monkeypatch.setitem(results.TABLES, "some", lambda: "[1](studies/x) [2](docs/results.md#y)")
    text = "before\n<!-- results:some -->\nold\n<!-- /results -->\nafter"
    for depth, up in ((0, ""), (1, "../"), (2, "../../")):
        filled = f"[1]({up}studies/x) [2]({up}docs/results.md#y)"
        assert results.filled(text, depth) == text.replace("old", filled)
    with pytest.raises(KeyError, match="none"):
        results.filled(text.replace("some", "none"), 0)


def test_a_gain_compares_only_runs_of_the_studys_settings(monkeypatch):
    def record(features, fraction, top1, **more):
        found = {"features": features, "label_fraction": fraction, "num_train_labels": 1000 * fraction}
        return {**found, "top1": top1, "phases": {"frozen": {"top1": top1}}, **more}

    found = [record("CPC", 0.1, 0.6), record("pixels", 0.1, 0.5), record("pixels", 0.4, 0.7)]
    monkeypatch.setattr(results, "of", lambda *_, **__: [*found, record("pixels", 0.2, 0.65, other=True)])
    assert results.gain("some", "frozen", 0.1) == "2"
    assert results.gain("some", "", 0.2) == "-"


@pytest.fixture
def room(tmp_path, monkeypatch):
    """A folder for a study named 'some', whose commands can be `python -m writes FILE`, which logs that it ran."""
    monkeypatch.setattr(records, "FOLDER", tmp_path / "studies")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
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
    return Run({"seed": seed}, [(["writes", made, f"--seed={seed}", *flags, f"--workdir={folder}"], made)])


def _records(*found):
    records.path("some").write_text(json.dumps(found))


def _ran(room):
    return (room / "log").read_text().splitlines() if (room / "log").exists() else []


def test_a_run_is_recorded_and_not_repeated(room):
    first = runner.carry_out("some", [_run(room, 0)])
    assert runner.carry_out("some", [_run(room, 0, folder="elsewhere")]) == first == records.read("some")
    assert len(_ran(room)) == 1
    (record,) = first
    assert (record["top1"], record["seed"]) == (0.5, 0)
    assert record["commands"][0].startswith("python -m writes ")
    assert set(record) >= {"settings", "weights", "date", "machine", "run"}
    assert record["commit"] is None  # outside of git


def test_a_record_knows_the_commit_of_the_code(room):
    def git(*words):
        subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x", *words], cwd=room, check=True)

    git("init", "-q")
    git("add", "writes.py")
    git("commit", "-qm", "x")
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=room, capture_output=True, text=True, check=True).stdout
    for changed, wanted in (("", head.strip()), ("# another\n", f"{head.strip()}-dirty")):
        with open(room / "writes.py", "a") as file:
            file.write(changed)
        runner.commit.cache_clear()
        seed = len(records.read("some"))
        assert runner.carry_out("some", [_run(room, seed)])[0]["commit"] == wanted
    runner.commit.cache_clear()


def test_a_record_of_other_settings_is_replaced_if_the_run_succeeds(room, capsys):
    """If not it stays, but is not among what the study found."""
    fails = {"seed": 0, "settings": ["fails --rate=1"]}
    _records(fails)
    failing = Run({"seed": 0}, [(["fails", "--rate=2"], str(room / "runs/result.json"))])
    assert runner.carry_out("some", [failing]) == []
    assert records.read("some") == [fails]
    _records({"seed": 0, "settings": ["writes --seed=0 --rate=1"], "top1": 0.25}, {"seed": 7})
    assert [record["top1"] for record in runner.carry_out("some", [_run(room, 0, "--rate=2")])] == [0.5]
    assert [record["seed"] for record in records.read("some")] == [7, 0]
    assert "the record was made with --rate=1 where this study has --rate=2" in capsys.readouterr().out


@pytest.mark.parametrize(("recorded", "message"), [
    ("--seed=0 --rate=2 --workdir=there --output=x --module=y", ""),  # places
    ("--rate=2 --seed=0", ""),  # another order
    ("--seed=0 --rate=7 --rate=2", ""),  # the last of a flag counts
    ("--seed=0 --rate=2 --encoder=graph:b/hub", "made with --encoder=graph:hub where this study has nothing"),
    ("--seed=1 --rate=2", "made with --seed=1 where this study has --seed=0"),
    ("--seed=0", "made with nothing where this study has --rate=2"),
    ("--seed=0 --rate=2 --dataset=folder:/a/birds", "made with --dataset=folder:birds where this study has nothing"),
])  # fmt: skip
def test_settings_are_compared_but_for_places(recorded, message):
    assert records.difference([f"writes {recorded}"], [["writes", "--seed=0", "--rate=2", "--workdir=here"]]) == message


def test_a_preset_that_has_changed_since_makes_other_settings(tmp_path):
    preset = tmp_path / "preset.flags"
    preset.write_text("--train_steps=10\n")
    step = ["cpc_tf.linear", f"--flagfile={preset}", "--dataset=folder:/a/birds", "--encoder=x/hub"]
    line = records.as_line(step)
    moved = [*step[:2], "--dataset=folder:/b/birds/", "--encoder=y/hub", "--workdir=z"]
    assert records.difference([line], [moved]) == ""
    preset.write_text("--train_steps=20\n")
    assert records.difference([line], [step]) == "made with --train_steps=10 where this study has --train_steps=20"


def test_flags_that_came_or_went_since_make_no_other_settings():
    """A new one had its default of today; one that went could have had one value."""
    step = ["cpc_tf.linear", "--dataset=folder:birds", "--encoder=hub"]
    line = " ".join(word for word in records.as_line(step).split() if not word.startswith("--batch_size="))
    assert records.difference([f"{line} --of_old=1"], [step]) == ""
    assert "--batch_size=7" in records.difference([line], [[*step, "--batch_size=7"]])


def test_another_encoder_in_the_place_of_the_one_before_makes_other_settings(room, capsys):
    """The module that comes with the code has changed three times."""
    hub = room / "hub/variables/variables.data"
    hub.parent.mkdir(parents=True)
    for weights, ran in (("first", 1), ("first", 1), ("second", 2)):
        hub.write_text(weights)
        runner.carry_out("some", [_run(room, 0, f"--encoder={room}/hub", folder=weights)])
        assert len(_ran(room)) == ran
    assert "made with other weights of hub" in capsys.readouterr().out


def test_a_result_of_other_commands_is_not_recorded(room, capsys):
    """Else settings that have changed would get the figures of those before; so would another encoder's last step."""
    hub, result = str(room / "hub/encoder.json"), str(room / "run/result.json")

    def found(seed, rate):
        steps = [(["writes", hub, f"--rate={rate}"], hub), (["writes", result], result)]
        return [record["seed"] for record in runner.carry_out("some", [Run({"seed": seed}, steps)])]

    assert found(0, 1) == [0]
    assert found(1, 2) == []
    refusal = "there already, made with --rate=1 where this study has --rate=2; move its folder away"
    assert f"{hub}: {refusal}" in capsys.readouterr().out
    pathlib.Path(hub).unlink()
    pathlib.Path(hub).parent.rmdir()  # another encoder in its place
    assert found(1, 2) == []
    assert f"{result}: {refusal}" in capsys.readouterr().out


@pytest.mark.parametrize("begun", ["result.json", "run.flags"])
def test_a_folder_that_nothing_is_known_of_or_that_was_begun_otherwise_is_refused(begun, room, capsys):
    """A longer study would else end with a run of two lengths."""
    (run,) = [_run(room, 0, "--rate=2")]
    made = pathlib.Path(run.result)
    made.parent.mkdir(parents=True)
    (made.parent / begun).write_text("{}")
    if begun == "run.flags":
        (made.parent.parent / "0-result.json.commands").write_text("writes --seed=0 --rate=1")
    assert runner.carry_out("some", [run]) == []
    wanted = {"result.json": "nothing says what made it", "run.flags": "in part, made with --rate=1 where this study"}
    assert wanted[begun] in capsys.readouterr().out


def test_what_went_wrong_is_reported_and_the_rest_goes_on(room, capsys):
    bad = Run({"seed": 0}, [(["no_such_module"], str(room / "never/result.json"))])
    assert [record["seed"] for record in runner.carry_out("some", [bad, _run(room, 1)])] == [1]
    assert "no_such_module" in capsys.readouterr().out


def test_two_processes_of_a_study_do_each_run_once_and_keep_all_records(room):
    """Threads stand for them: the locks of files do not tell them apart."""
    parts = [[0, 1, 2], [2, 1, 3]]
    with ThreadPoolExecutor() as pool:
        for done in [pool.submit(runner.carry_out, "some", [_run(room, s) for s in seeds]) for seeds in parts]:
            done.result()
    assert sorted(record["seed"] for record in records.read("some")) == [0, 1, 2, 3]
    assert sorted(line.split()[0] for line in _ran(room)) == [f"--seed={seed}" for seed in range(4)]


@pytest.mark.parametrize(("names", "chosen", "most", "wanted"), [
    ([], None, 0, [([0], ""), ([1], ""), ([2], "")]),
    ([], None, 2, [([0], ""), ([1], "")]),
    (["A", "A"], None, 0, [([0, 2], "0"), ([1], "1")]),
    (["A", "A"], "5,7", 1, [([0, 1, 2], "5")]),
])  # fmt: skip
def test_a_run_at_a_time_has_a_gpu_of_its_own_or_else_a_core(names, chosen, most, wanted, monkeypatch):
    monkeypatch.setattr(runner.devices, "gpu_names", lambda: names)
    monkeypatch.setattr(runner.devices, "cores", lambda: [0, 1, 2])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if chosen:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
    assert runner.slots(most) == wanted


@pytest.fixture
def given(monkeypatch):
    """Sets the flags of a command."""
    return lambda **values: monkeypatch.setattr(flags, "FLAGS", types.SimpleNamespace(**values))


def test_every_third_example_is_held_out():
    train, test = read_off.held_out((10 * np.arange(7), np.arange(7)))
    assert [x.tolist() for x in (*train, *test)] == [[0, 10, 30, 40, 60], [0, 1, 3, 4, 6], [20, 50], [2, 5]]


@pytest.mark.slow
@pytest.mark.usefixtures("tiny_encoder")
def test_a_module_is_read_off_a_folder(tmp_path, given, capsys):
    keras.utils.set_random_seed(0)
    network = make_encoder(EncoderConfig(encoder="small", norm="none"))
    network(tf.zeros([1, 16, 16, 3]))
    tf.train.Checkpoint(variables=network.variables).write(f"{tmp_path}/hub/variables/variables")
    modules.write_card(tmp_path / "hub", network.config)
    random = np.random.default_rng(0)
    for name, brightness in (("dark", 60), ("light", 180)):
        (tmp_path / "in/train" / name).mkdir(parents=True)
        for number in range(75):
            pixels = random.integers(-40, 40, [16, 16, 3]) + brightness
            Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / "in/train" / name / f"{number:02}.png")
    places = {"module": f"{tmp_path}/hub", "pictures": f"{tmp_path}/in", "output": f"{tmp_path}/out.json"}
    given(**places, test="held_out", whole=False)
    with threadpool_limits(1):  # several threads for so little wait for each other, which costs most
        read_off.main([])
    found = json.loads((tmp_path / "out.json").read_text())
    assert found == json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (found["tested_on"], found["images"], found["of"]) == ("held_out", 50, "patches")
    assert min(found[name] for name in causes.READINGS) > 0.9


def test_what_does_not_exist_is_refused_in_a_line(tmp_path, given):
    (tmp_path / "hub").mkdir()
    given(module=f"{tmp_path}/hub", pictures="none", test="val", whole=False)
    with pytest.raises(SystemExit, match=f"^.*{tmp_path}/hub.*$"):
        read_off.main([])
    given(work="W", pictures="P", boxes="B", only=["rung=x"], cores=0)
    with pytest.raises(SystemExit, match="^'laddr' is none of the studies label_curve, .*$"):
        command.main(["studies", "laddr"])
    with pytest.raises(SystemExit, match="^--only=rung=x: no run of ladder has these; fields: rung, classifier, seed$"):
        command.main(["studies", "ladder"])


def test_every_third_image_is_linked_to_be_tested_on(tmp_path):
    for name in ("a/1.jpg", "a/2.jpg", "a/3.jpg", "b/4.jpg", "b/5.jpg", "b/6.jpg", "b/7.jpg"):
        (tmp_path / "in/train" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in/train" / name).write_text(name)
    with pytest.raises(FileNotFoundError, match="no folder 'train'"):
        thirds.link(str(tmp_path), str(tmp_path / "out"))
    for _ in range(2):  # the second time all is there
        assert thirds.link(str(tmp_path / "in"), str(tmp_path / "out")) == {"train": 5, "val": 2}
    linked = sorted(str(path.relative_to(tmp_path / "out")) for path in tmp_path.rglob("out/val/*/*"))
    assert linked == ["val/a/3.jpg", "val/b/6.jpg"]
    assert (tmp_path / "out/train/b/7.jpg").read_text() == "b/7.jpg"
