"""Directories of runs: what is written, refused, recomputed and removed, and who may use one."""

import os
import pathlib

import pytest
import tensorflow as tf

import cpc_tf
from cpc_tf.core import cli
from cpc_tf.core.files import read_json, write_file
from cpc_tf.core.locks import locked
from cpc_tf.core.settings import ConfigError, replace
from cpc_tf.linear.config import LinearConfig
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.pretrain.run import pretrain
from cpc_tf.training import provenance
from cpc_tf.training import workdir as workdirs
from cpc_tf.training.checkpoint import Checkpoints
from cpc_tf.training.config import UsualTraining
from cpc_tf.training.session import OutOfMemory, open_run
from cpc_tf.training.workdir import Workdir, read_config, read_task


@pytest.fixture
def config(tmp_path):
    return cli.parse(PretrainConfig, [f"--workdir={tmp_path}/run", "--encoder=small"])


@pytest.fixture
def run(config):
    """The directory of a finished run with a checkpoint."""
    workdir = Workdir(config, "pretrain")
    workdir.begin(0)
    workdir.record(4, {"loss": 1.0, "wall_seconds": 1.0})
    Checkpoints(workdir.path, tf.train.Checkpoint(value=tf.Variable(4.0))).save(4)
    workdir.finish({"loss": 1.0})
    return pathlib.Path(workdir.path)


def refused(action, match):
    with pytest.raises(ConfigError, match=match):
        action()


def test_no_workdir_and_no_run_are_refused(tmp_path):
    refused(lambda: Workdir(PretrainConfig(), "pretrain"), "--workdir= is empty")
    refused(lambda: read_config(str(tmp_path), PretrainConfig), "holds no run")


def test_derived_settings_are_equal_after_resume(tmp_path):
    config = cli.parse(LinearConfig, [f"--workdir={tmp_path}", "--encoder=random:x"])
    first, usual, one = (
        Workdir(config, "linear"),
        UsualTraining(512, 200, 400),
        tf.distribute.get_strategy(),
    )
    began = first.usual(usual, 100, one)
    assert (began.training.batch_size, began.training.train_epochs) == (64, 256)
    first.begin(0)
    assert Workdir(config, "linear").usual(usual, 1000, one) == began
    # A length that is given takes the place of the one before.
    assert (
        Workdir(replace(config, train_steps=7), "linear")
        .usual(usual, 1000, one)
        .training.steps(1000)
        == 7
    )


def test_other_settings_are_refused_by_name(config):
    Workdir(config, "pretrain").begin(0)
    message = r"--encoder=resnet50: .*run with --encoder=small"
    refused(lambda: Workdir(replace(config, encoder="resnet50"), "pretrain"), message)
    refused(lambda: Workdir(replace(config, encoder="resnet50", seed=3), "pretrain"), "and 1 more")
    changed = replace(
        config, steps_per_loop=7, checkpoint_every=3, strategy="single", train_steps=9
    )
    Workdir(changed, "pretrain").begin(0)  # settings that do not change the result


def test_metrics_after_the_resumed_step_are_written_again(config):
    workdir = Workdir(config, "pretrain")
    workdir.begin(0)
    for step in (10, 20, 30):
        workdir.record(step, {"loss": 1.23456789 / step, "effective_rank": float("nan")})
    with open(f"{config.workdir}/metrics.jsonl", "a") as file:
        file.write('{"step": 40, "lo')  # a kill in the middle of a line
    workdir.begin(20)
    with open(f"{config.workdir}/metrics.jsonl") as file:
        assert file.read() == '{"step": 10, "loss": 0.123457}\n{"step": 20, "loss": 0.061728}\n'


@pytest.mark.parametrize(
    "tail",
    [
        "{",
        "[]",
        '{"step": "8"}',
        '{"step": 8, "loss": null}',
        "\xff",
        pytest.param("[" * 99_999, id="deep"),
    ],
)
def test_records_end_where_they_are_damaged(config, run, tail):
    with open(run / "metrics.jsonl", "ab") as file:
        file.write(tail.encode("latin-1") + b'\n{"step": 9}\n')
    assert [record["step"] for record in Workdir(config, "pretrain").records()] == [4]


@pytest.mark.parametrize(
    ("found", "step", "warned"),
    [
        ('{"tensorflow": "2.14.0"}', 20, True),
        # as the directory that a run of several phases has above theirs
        (
            '{"tensorflow": "2.14.0"}',
            0,
            True,
        ),
        ("{}", 20, False),
        ('{"tensorf', 20, False),
    ],
)
def test_resume_with_another_tensorflow_is_reported_once(config, caplog, found, step, warned):
    workdirs.warn_once.cache_clear()
    workdir = Workdir(config, "pretrain")
    write_file(workdir.file("run.json"), found)
    with caplog.at_level("WARNING", "absl"):
        workdir.begin(step)
        workdir.begin(step)
    assert caplog.text.count("started with TensorFlow 2.14.0") == warned
    about = {"task": "pretrain", "version": cpc_tf.__version__, "tensorflow": tf.__version__}
    assert read_json(workdir.file("run.json")).items() >= about.items()


def test_it_says_on_what_and_when_it_began(config, monkeypatch):
    workdir = Workdir(config, "pretrain")
    monkeypatch.setattr(
        provenance, "environment", lambda: {"machine": "first", "commit": "1a2b3c4d"}
    )
    monkeypatch.setattr(provenance, "timestamp", lambda: "2026-11-27 05:58 UTC")
    workdir.begin(0)
    monkeypatch.setattr(
        provenance, "environment", lambda: {"machine": "second", "commit": "5e6f7a8b"}
    )
    monkeypatch.setattr(provenance, "timestamp", lambda: "2026-11-28 05:58 UTC")
    workdir.begin(5)
    known = read_json(workdir.file("run.json"))
    assert (known["machine"], known["commit"], known["begun"]) == (
        "second",
        "5e6f7a8b",
        "2026-11-27 05:58 UTC",
    )


def test_only_the_chief_writes_and_results_are_finite(config, tmp_path):
    workdir = Workdir(config, "linear", chief=False)
    workdir.begin(0)
    workdir.record(1, {"loss": 1.0})
    made = {"date", "machine", "version", "tensorflow"}
    result = workdir.finish({"steps": 1})
    # of an installed package no commit is known
    assert made <= set(result.pop("made")) <= {*made, "commit"}
    assert result == {"kind": "linear", "steps": 1}
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="JSON"):
        workdir.finish({"loss": float("nan")})


@pytest.mark.parametrize(
    "content", ["{", "", "[]", '{"kind": "linear"}', "\xff", '{"kind": ["pretrain"]}']
)
def test_a_damaged_result_is_made_anew(config, run, content, caplog):
    assert Workdir(config, "pretrain").result()["loss"] == 1.0
    assert Workdir(config, "pretrain").result(lambda found: "phases" in found) is None
    (run / "result.json").write_bytes(content.encode("latin-1"))
    assert Workdir(config, "pretrain").result() is None
    assert "will be recomputed" in caplog.text


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        ({"workdir": "{0}/"}, True),
        ({"steps_per_loop": 7, "checkpoint_every": 3, "strategy": "single", "xla": "off"}, True),
        ({"train_epochs": 9.0}, False),
        ({"train_steps": 8}, False),
    ],
)
def test_a_run_is_finished_whatever_changes_no_figure(config, run, changed, same):
    settings = {
        name: value.format(run) if name == "workdir" else value for name, value in changed.items()
    }
    workdir = Workdir(replace(config, **settings), "pretrain")
    assert (workdir.result() is not None) == same
    workdir.begin(4)
    # Killed now, a longer run is no finished one: its result was that of the shorter.
    assert (Workdir(workdir.config, "pretrain").result() is not None) == same


def test_epochs_beside_steps_change_no_length(config):
    steps = replace(config, train_steps=8)
    assert steps.training.length == replace(steps, train_epochs=9.0).training.length


def test_who_is_not_the_chief_prints_nothing(config, monkeypatch, capsys):
    monkeypatch.setattr("cpc_tf.training.session.is_chief", lambda strategy: False)
    with open_run(config, "pretrain"):
        print("of a worker")
    assert capsys.readouterr().out == ""
    print("afterwards")
    assert capsys.readouterr().out == "afterwards\n"


@pytest.mark.parametrize("content", [b"\xff\xfe", b"--seed=many\n", b"\0"])
def test_damaged_settings_are_one_line(config, run, content):
    (run / "run.flags").write_bytes(content)
    refused(lambda: Workdir(config, "pretrain"), "run.flags")
    refused(lambda: read_config(str(run), PretrainConfig), "run.flags")


def test_a_run_with_the_flag_memory_resumes(config, run):
    with open(run / "run.flags", "a") as file:
        file.write("--memory=check\n")
    assert Workdir(config, "pretrain").has_begun


def test_checkpoints_without_flags_are_refused(config, run):
    (run / "run.flags").unlink()
    refused(
        lambda: Workdir(config, "pretrain"),
        "has checkpoints but no run.flags, which identify the run",
    )


@pytest.mark.parametrize(
    "name", ["checkpoints", "events", "run.flags", "metrics.jsonl", "result.json"]
)
def test_file_and_folder_mix_ups_are_refused(config, tmp_path, name):
    wanted, there = ("file", "x") if "." in name else ("folder", "")
    write_file(f"{tmp_path}/run/{name}/{there}".rstrip("/"), "")
    refused(lambda: Workdir(config, "pretrain"), f"{name}: should be a {wanted}; move it away")


def test_what_killed_processes_left_is_removed(config, run):
    left = [
        "result.json.17.tmp",
        "checkpoints/step_00000008.data-00000-of-00001",
        "checkpoints/worker_9/step.index",
    ]
    left += [
        "checkpoints/step_00000008.index.tempstate123",
        "checkpoints/step_00000008_temp/part-00000-of-00001.data",
    ]
    for name in left:
        write_file(f"{run}/{name}", "")
    for name in ("notes.txt", "my.tmp"):
        write_file(f"{run}/{name}", "mine")
    with open_run(config, "pretrain") as (workdir, _):
        Checkpoints(workdir.path).drop_unfinished()
        workdir.begin(4)
    found = {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}
    assert not found & set(left)
    assert found >= {"notes.txt", "my.tmp", "checkpoints/step_00000004.index", "run.flags"}
    assert not (run / "checkpoints/step_00000008_temp").exists()


@pytest.mark.parametrize(
    "error", [MemoryError(), tf.errors.ResourceExhaustedError(None, None, "OOM\nmore")]
)
def test_too_little_memory_is_one_line(config, error):
    said = (
        r"^out of memory \(.*\); --accumulate=2, or more parts, needs less and resumes the run;"
        r" else a smaller"
    )
    with pytest.raises(OutOfMemory, match=said) as ended, open_run(config, "pretrain"):
        raise error
    assert ended.value.status == 5


@pytest.mark.parametrize(
    "content", [None, "{", "[]", "{}", '{"task": "cooking"}', '{"task": ["linear"]}']
)
def test_missing_or_unknown_task_is_one_error_line(content, tmp_path):
    if content:
        (tmp_path / "run.json").write_text(content)
    (tmp_path / "run.flags").write_text("--recipe=soup\n")
    with pytest.raises(
        ConfigError,
        match=r"holds no run of .*linear|run.json(: is damaged| names none of .*linear)",
    ):
        read_task(str(tmp_path))


def test_a_run_is_refused_before_anything_is_built(tmp_path):
    config = cli.parse(PretrainConfig, [f"--workdir={tmp_path}/run", "--encoder=small"])
    with locked(config.workdir):
        refused(
            lambda: pretrain(config),
            f"--workdir=.*process {os.getpid()} .* is using this directory",
        )
    (tmp_path / "run").write_text("")
    refused(lambda: pretrain(config), "--workdir=.*cannot be written to")
