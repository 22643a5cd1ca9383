"""From a run's directory to the module: whose weights, what is written, and every way to fail."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_hub as hub

from cpc_tf.data.config import GeometryConfig
from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.export import encoder, exporter
from cpc_tf.export.config import ExportConfig
from cpc_tf.export.output import written_aside
from cpc_tf.export.verify import NotVerified
from cpc_tf.linear.config import LinearConfig
from cpc_tf.settings import ConfigError, flatten, to_flagfile, unflatten
from cpc_tf.tasks import TASKS
from tests.export.conftest import IMAGES


def _assert_close(got, wanted):
    np.testing.assert_allclose(got, wanted, atol=1e-5 * np.abs(wanted).max(), rtol=0)


@pytest.fixture
def unchecked(monkeypatch):
    """Leaves the check out, where it is not what is tested."""
    monkeypatch.setattr(encoder, "verify", lambda *arguments: {"difference": 0.0, "variables": 0})


def test_averaged_weights_of_newest_step(run, hub_dir):
    _assert_close(hub.KerasLayer(hub_dir)(IMAGES), run.features["averaged", 9])


@pytest.mark.parametrize(("weights", "step"), [("raw", 9), ("averaged", 7)])
def test_chosen_weights_and_step(run, tmp_path, unchecked, weights, step):
    output = str(tmp_path / "hub")
    done = exporter.export(ExportConfig(workdir=run.path, output=output, weights=weights, step=step))
    assert (done["weights"], done["step"]) == (weights, step)
    _assert_close(hub.load(output)(IMAGES), run.features[weights, step])


def test_the_checkpoints_features_differ(run):
    values = list(run.features.values())
    assert all(np.abs(a - b).max() > 1e-3 for i, a in enumerate(values) for b in values[:i])


def test_encoder_json_rebuilds_the_settings(small_config, hub_dir):
    with open(os.path.join(hub_dir, "encoder.json")) as file:
        content = json.load(file)
    assert unflatten(EncoderConfig, content["encoder"]) == small_config.encoder
    assert unflatten(GeometryConfig, content["geometry"]) == small_config.geometry
    assert (content["feature_dim"], content["step"], content["weights"]) == (64, 9, "averaged")
    assert (content["dataset"], content["run"]) == ("folder:birds", "first_run")
    assert content["versions"]["tensorflow"] == tf.__version__


def test_nothing_names_this_machine(run, hub_dir):
    for name in ("README.md", "encoder.json"):
        with open(os.path.join(hub_dir, name)) as file:
            text = file.read()
        assert "/home/someone" not in text
        assert os.path.dirname(run.path) not in text


def test_nothing_is_left_beside_the_output(hub_dir):
    assert os.listdir(os.path.dirname(hub_dir)) == ["hub"]
    assert {"saved_model.pb", "variables", "README.md", "encoder.json"} <= set(os.listdir(hub_dir))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"workdir": ""}, "--workdir= is empty"),
        ({"workdir": "/nowhere"}, "--workdir=/nowhere: holds no run"),
        ({"output": ""}, "--output= is empty"),
        ({"output": "/proc/nowhere/hub"}, "--output=/proc/nowhere/hub: cannot be written"),
        ({"step": 8}, "--step=8: no such checkpoint .* there are 7, 9"),
    ],
)
def test_wrong_settings(run, tmp_path, flags, message):
    with pytest.raises(ConfigError, match=message) as caught:
        exporter.export(ExportConfig(**{"workdir": run.path, "output": str(tmp_path / "hub"), **flags}))
    assert "\n" not in str(caught.value)
    assert os.listdir(tmp_path) == []


def test_output_that_exists_is_kept(run, tmp_path):
    (tmp_path / "precious").write_text("mine")
    with pytest.raises(ConfigError, match="exists already"):
        exporter.export(ExportConfig(workdir=run.path, output=f"{tmp_path}/"))
    assert (tmp_path / "precious").read_text() == "mine"


def test_run_without_checkpoint(run, tmp_path):
    for name in ("run.flags", "run.json"):
        shutil.copy(os.path.join(run.path, name), tmp_path)
    with pytest.raises(ConfigError, match="has no checkpoint"):
        exporter.export(ExportConfig(workdir=str(tmp_path), output=str(tmp_path / "hub")))


@pytest.fixture
def damaged_run(run, tmp_path):
    """A copy of the run whose step 9 is cut short."""
    path = str(tmp_path / "damaged")
    shutil.copytree(run.path, path)
    data = os.path.join(path, "checkpoints", "step_00000009.data-00000-of-00001")
    os.truncate(data, os.path.getsize(data) // 2)
    return path


def test_damaged_checkpoint_is_passed_over(run, damaged_run, tmp_path, unchecked, caplog):
    output = str(tmp_path / "hub")
    assert exporter.export(ExportConfig(workdir=damaged_run, output=output))["step"] == 7
    assert "step_00000009 is damaged" in caplog.text
    _assert_close(hub.load(output)(IMAGES), run.features["averaged", 7])


def test_damaged_checkpoint_asked_for(damaged_run, tmp_path):
    with pytest.raises(ConfigError, match="no checkpoint that can be read among 9"):
        exporter.export(ExportConfig(workdir=damaged_run, output=str(tmp_path / "hub"), step=9))


def test_failed_check_leaves_nothing(run, tmp_path, monkeypatch):
    def save_something_else(module, directory):
        module.trainable_variables[0].assign_add(tf.ones_like(module.trainable_variables[0]) * 0.01)
        save(module, directory)
        module.trainable_variables[0].assign_sub(tf.ones_like(module.trainable_variables[0]) * 0.01)

    save = encoder.save
    monkeypatch.setattr(encoder, "save", save_something_else)
    with pytest.raises(NotVerified, match="--output=.*failed its check: the output for") as ended:
        exporter.main(ExportConfig(workdir=run.path, output=str(tmp_path / "hub")))
    assert ended.value.status == 3
    assert os.listdir(tmp_path) == []


def test_interrupted_export_leaves_nothing(tmp_path):
    def interrupted():
        with written_aside(str(tmp_path / "hub")) as directory:
            open(os.path.join(directory, "half"), "w").close()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert os.listdir(tmp_path) == []


def test_output_that_appeared_meanwhile_is_kept(tmp_path):
    output = tmp_path / "hub"

    def overtaken():
        with written_aside(str(output)):
            output.mkdir()
            (output / "precious").write_text("mine")

    with pytest.raises(ConfigError, match="cannot be written"):
        overtaken()
    assert os.listdir(tmp_path) == ["hub"]
    assert (output / "precious").read_text() == "mine"


def test_a_run_of_another_kind_is_refused(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/run.flags").write_text(to_flagfile(LinearConfig()))
    (tmp_path / "run/run.json").write_text('{"task": "linear"}')
    with pytest.raises(ConfigError, match="--workdir=.*: holds a run of cpc_tf.linear; only pretrain"):
        exporter.export(ExportConfig(workdir=str(tmp_path / "run"), output=str(tmp_path / "hub")))


def test_command_line(tmp_path):
    command = [sys.executable, "-m", "export", f"--workdir={tmp_path}", f"--output={tmp_path}/hub"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == f"error: --workdir={tmp_path}: holds no run of {', '.join(TASKS)}\n"


def test_settings_are_flags():
    assert set(flatten(ExportConfig())) == {"workdir", "output", "weights", "step"}
