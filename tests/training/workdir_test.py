import json

import pytest
import tensorflow as tf

import cpc_tf
from cpc_tf import cli
from cpc_tf.files import read_json, write_file
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.settings import ConfigError, replace
from cpc_tf.training.workdir import Workdir, read_config


@pytest.fixture
def config(tmp_path):
    return cli.parse(PretrainConfig, [f"--workdir={tmp_path}/run", "--encoder=small"])


def test_no_workdir_is_refused():
    with pytest.raises(ConfigError, match="--workdir= is empty"):
        Workdir(PretrainConfig(), "pretrain")


def test_a_refused_run_leaves_nothing(config, tmp_path):
    Workdir(config, "pretrain")
    assert not list(tmp_path.iterdir())


def test_flags_replay_the_run(config):
    Workdir(config, "pretrain").begin(0)
    assert read_config(config.workdir, PretrainConfig) == config
    assert cli.parse(PretrainConfig, [f"--flagfile={config.workdir}/run.flags"]) == config


def test_other_settings_are_refused_by_name(config):
    Workdir(config, "pretrain").begin(0)
    with pytest.raises(ConfigError, match=r"--encoder=resnet50: .*run with --encoder=small"):
        Workdir(replace(config, encoder="resnet50"), "pretrain")
    with pytest.raises(ConfigError, match=r"and 1 more"):
        Workdir(replace(config, encoder="resnet50", seed=3), "pretrain")


def test_settings_that_do_not_change_the_result_may_change(config):
    Workdir(config, "pretrain").begin(0)
    changed = replace(config, steps_per_loop=7, checkpoint_every=3, strategy="single", train_steps=9)
    Workdir(changed, "pretrain").begin(0)


def test_metrics_after_the_resumed_step_are_written_again(config):
    workdir = Workdir(config, "pretrain")
    workdir.begin(0)
    for step in (10, 20, 30):
        workdir.record(step, {"loss": 1.0 / step})
    with open(f"{config.workdir}/metrics.jsonl", "a") as file:
        file.write('{"step": 40, "lo')  # a kill in the middle of a line
    workdir.begin(20)
    assert [record["step"] for record in workdir.records()] == [10, 20]
    assert workdir.records()[0]["loss"] == pytest.approx(0.1)


def test_it_says_of_which_task_it_is(config):
    workdir = Workdir(config, "pretrain")
    workdir.begin(0)
    wanted = {"task": "pretrain", "version": cpc_tf.__version__, "tensorflow": tf.__version__}
    assert read_json(f"{config.workdir}/run.json") == wanted
    assert (
        workdir.finish({"loss": 0.5}) == read_json(f"{config.workdir}/result.json") == {"kind": "pretrain", "loss": 0.5}
    )


@pytest.mark.parametrize(
    ("found", "step", "warned"),
    [
        ('{"tensorflow": "2.14.0"}', 20, True),
        ('{"tensorflow": "2.13.0"}', 0, True),  # as the directory that a run of several phases has above theirs
        ("{}", 20, False),  # of an older version of ours
        ('{"tensorf', 20, False),
    ],
)
def test_a_run_that_goes_on_with_another_tensorflow_says_so(config, caplog, found, step, warned):
    workdir = Workdir(config, "pretrain")
    write_file(workdir.file("run.json"), found)
    with caplog.at_level("WARNING", "absl"):
        workdir.begin(step)
        workdir.begin(step)  # which says it no more
    messages = [record.getMessage() for record in caplog.records]
    assert sum("begun with TensorFlow 2.1" in message for message in messages) == warned
    assert read_json(workdir.file("run.json"))["tensorflow"] == tf.__version__


def test_results_are_strict_json(config):
    with pytest.raises(ValueError, match="JSON"):
        Workdir(config, "linear").finish({"loss": float("nan")})


def test_only_the_chief_writes(config, tmp_path):
    workdir = Workdir(config, "linear", chief=False)
    workdir.begin(0)
    workdir.record(1, {"loss": 1.0})
    assert workdir.finish({"steps": 1}) == {"kind": "linear", "steps": 1}
    assert not list(tmp_path.iterdir())


def test_a_record_holds_finite_figures_only(config):
    workdir = Workdir(config, "pretrain")
    workdir.begin(0)
    workdir.record(1, {"loss": 1.23456789, "effective_rank": float("nan")})
    with open(f"{config.workdir}/metrics.jsonl") as file:
        assert file.read() == '{"step": 1, "loss": 1.234568}\n'


def test_no_run_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match="holds no run"):
        read_config(str(tmp_path), PretrainConfig)


def test_files_are_whole_or_absent(tmp_path):
    path = tmp_path / "deep" / "result.json"
    write_file(str(path), json.dumps({"a": 1}))
    write_file(str(path), json.dumps({"a": 2}))
    assert read_json(str(path)) == {"a": 2}
    write_file(str(path), b"bytes")
    assert path.read_bytes() == b"bytes"
    assert [p.name for p in path.parent.iterdir()] == ["result.json"]


def test_what_a_kill_left_half_written_goes_but_for_what_a_thread_is_writing(config, tmp_path, monkeypatch):
    Workdir(config, "pretrain").begin(0)
    for name in ("result.json.17.tmp", "lock.17.tmp", "gone.17.tmp", "my.tmp"):
        (tmp_path / "run" / name).write_text("{")
    remove = tf.io.gfile.remove

    def racing(path):
        """Another one was faster, as the thread that renames its file."""
        remove(path)
        if path.endswith("gone.17.tmp"):
            remove(path)

    monkeypatch.setattr(tf.io.gfile, "remove", racing)
    Workdir(config, "pretrain").begin(0)
    assert sorted(path.name for path in (tmp_path / "run").glob("*.tmp")) == ["lock.17.tmp", "my.tmp"]
