import json

import pytest

from cpc_tf import cli
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.settings import ConfigError, replace
from cpc_tf.training.workdir import Workdir, read_config, read_json, write_file


@pytest.fixture
def config(tmp_path):
    return cli.parse(PretrainConfig, [f"--workdir={tmp_path}/run", "--encoder=small"])


def test_no_workdir_is_refused():
    with pytest.raises(ConfigError, match="--workdir= is empty"):
        Workdir(PretrainConfig())


def test_a_refused_run_leaves_nothing(config, tmp_path):
    Workdir(config)
    assert not list(tmp_path.iterdir())


def test_flags_replay_the_run(config):
    Workdir(config).begin(0)
    assert read_config(config.workdir, PretrainConfig) == config
    assert cli.parse(PretrainConfig, [f"--flagfile={config.workdir}/run.flags"]) == config


def test_other_settings_are_refused_by_name(config):
    Workdir(config).begin(0)
    with pytest.raises(ConfigError, match=r"--encoder=resnet50: .*run with --encoder=small"):
        Workdir(replace(config, encoder="resnet50"))
    with pytest.raises(ConfigError, match=r"and 1 more"):
        Workdir(replace(config, encoder="resnet50", seed=3))


def test_settings_that_do_not_change_the_result_may_change(config):
    Workdir(config).begin(0)
    Workdir(replace(config, steps_per_loop=7, checkpoint_every=3, strategy="single", train_steps=9)).begin(0)


def test_metrics_after_the_resumed_step_are_written_again(config):
    workdir = Workdir(config)
    workdir.begin(0)
    for step in (10, 20, 30):
        workdir.record(step, {"loss": 1.0 / step})
    with open(f"{config.workdir}/metrics.jsonl", "a") as file:
        file.write('{"step": 40, "lo')  # a kill in the middle of a line
    workdir.begin(20)
    assert [record["step"] for record in workdir.metrics()] == [10, 20]
    assert workdir.metrics()[0]["loss"] == pytest.approx(0.1)


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
