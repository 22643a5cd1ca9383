"""From a run's directory to the module: whose weights, what is written, and every way to fail."""

import json
import os
import shutil
import subprocess
import sys

import pytest
import tensorflow as tf
import tensorflow_hub as hub

from cpc_tf.data.config import GeometryConfig
from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.export import run
from cpc_tf.export.run import ExportConfig, written_aside
from cpc_tf.export.runtimes.config import RuntimeConfig
from cpc_tf.export.verify import NotVerified
from cpc_tf.files import NotWritten
from cpc_tf.linear.config import LinearConfig
from cpc_tf.settings import ConfigError, flatten, to_flagfile, unflatten
from cpc_tf.tasks import TASKS
from tests.export.conftest import IMAGES, assert_close, made, read
from tests.snippets import printed, python_of

pytestmark = pytest.mark.slow


def test_averaged_weights_of_the_newest_step_alone_are_written(pretrained, hub_dir):
    assert_close(hub.load(hub_dir)(IMAGES), pretrained.features["averaged", 9])
    assert os.listdir(os.path.dirname(hub_dir)) == ["hub"]
    assert {"saved_model.pb", "variables", "README.md", "encoder.json"} <= set(os.listdir(hub_dir))


@pytest.mark.parametrize(("weights", "step"), [("raw", 9), ("averaged", 7)])
def test_chosen_weights_and_step(pretrained, weights, step):
    found = made(pretrained.path, step, weights)
    assert (found.card["weights"], found.card["step"]) == (weights, step)
    assert_close(found.module(IMAGES), pretrained.features[weights, step])
    assert ("step 9, which is not the exported step" in found.readme) == (step == 7)
    others = [values for key, values in pretrained.features.items() if key != (weights, step)]
    assert all(abs(other - pretrained.features[weights, step]).max() > 1e-3 for other in others)


def test_encoder_json_rebuilds_the_settings(pretrained, hub_dir):
    content = json.loads(read(hub_dir, "encoder.json"))
    assert unflatten(EncoderConfig, content["encoder"]) == pretrained.config.encoder
    assert unflatten(GeometryConfig, content["geometry"]) == pretrained.config.geometry
    assert (content["feature_dim"], content["step"], content["weights"]) == (8, 9, "averaged")
    assert (content["dataset"], content["run"]) == ("folder:birds", "first_run")
    assert content["versions"]["tensorflow"] == tf.__version__


def test_the_readme_says_what_is_known(pretrained, hub_dir):
    text = read(hub_dir, "README.md")
    assert text.startswith("# CPC v2 encoder `small`, pre-trained on `folder:birds`")
    assert "| images | `folder:birds`, split `unlabelled`, labels not used |" in text
    assert "| run | `first_run`, step 9 of batches of 2, averaged weights |" in text
    assert "| encoder | `small`, 472 parameters, norm `layer`, block_order `pre`, output_stack `1` |" in text
    assert "| patch | 16 x 16 |" in text
    assert "what comes before\nit inside the network: `stack1`." in text
    assert "| measured at the end of the run, step 9 | |" in text
    assert "(nats) | 4.250 |" in text
    assert "averaged weights | 0.500 |" in text
    assert "contrastive accuracy" not in text  # not in this result.json
    assert "$" not in text
    for name in ("README.md", "encoder.json"):
        assert "/home/someone" not in read(hub_dir, name)
        assert os.path.dirname(pretrained.path) not in read(hub_dir, name)


def test_the_readmes_code_runs(hub_dir):
    code = python_of(read(hub_dir, "README.md"))
    assert code.count("path/to/this/directory") == 1
    code = code.replace("path/to/this/directory", hub_dir)
    # In a process of its own: the code chooses Keras before it imports TensorFlow.
    shapes = printed(code, "print(latents.shape, feature_map.shape)", hub_dir)
    assert shapes == "(4, 5, 5, 8) (4, 16, 16, 8)"


@pytest.mark.parametrize(
    ("flags", "error", "message"),
    [
        ({"workdir": ""}, ConfigError, "--workdir= is empty"),
        ({"workdir": "/nowhere"}, ConfigError, "--workdir=/nowhere: holds no run"),
        ({"output": ""}, ConfigError, "--output= is empty"),
        ({"output": "/proc/nowhere/hub"}, NotWritten, "--output=/proc/nowhere/hub: cannot be written"),
        ({"step": 8}, ConfigError, "--step=8: no such checkpoint .* there are 7, 9"),
    ],
)
def test_wrong_settings(pretrained, tmp_path, flags, error, message):
    with pytest.raises(error, match=message) as caught:
        run.export(ExportConfig(**{"workdir": pretrained.path, "output": str(tmp_path / "hub"), **flags}))
    assert "\n" not in str(caught.value)
    assert os.listdir(tmp_path) == []


def test_output_that_exists_is_kept(pretrained, tmp_path):
    (tmp_path / "precious").write_text("mine")
    with pytest.raises(ConfigError, match="exists already"):
        run.export(ExportConfig(workdir=pretrained.path, output=f"{tmp_path}/"))
    assert (tmp_path / "precious").read_text() == "mine"


@pytest.fixture
def damaged(pretrained, tmp_path):
    """A copy of the run that has not ended, and whose step 9 is cut short."""
    path = str(tmp_path / "damaged")
    shutil.copytree(pretrained.path, path)
    os.remove(os.path.join(path, "result.json"))
    data = os.path.join(path, "checkpoints", "step_00000009.data-00000-of-00001")
    os.truncate(data, os.path.getsize(data) // 2)
    return path


def test_a_damaged_checkpoint_is_skipped(pretrained, damaged, caplog):
    found = made(damaged)
    assert found.card["step"] == 7
    assert "step_00000009 is damaged" in caplog.text
    assert_close(found.module(IMAGES), pretrained.features["averaged", 7])
    assert "there are no figures" in found.readme


def test_missing_checkpoints_are_named(damaged):
    with pytest.raises(ConfigError, match="no checkpoint that can be read among 9"):
        made(damaged, step=9)
    shutil.rmtree(os.path.join(damaged, "checkpoints"))
    with pytest.raises(ConfigError, match="has no checkpoint"):
        made(damaged)


def test_failed_check_leaves_nothing(pretrained, tmp_path, monkeypatch):
    def fail(*arguments):
        raise NotVerified("the output differs")

    monkeypatch.setattr(run, "verify", fail)
    with pytest.raises(NotVerified, match="--output=.*failed its check: the output differs") as ended:
        run.main(ExportConfig(workdir=pretrained.path, output=str(tmp_path / "hub")))
    assert ended.value.status == 3
    assert os.listdir(tmp_path) == []


def test_interrupted_export_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt), written_aside(str(tmp_path / "hub")) as directory:  # noqa: PT012
        open(os.path.join(directory, "half"), "w").close()
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == []


def test_output_that_appeared_meanwhile_is_kept(tmp_path):
    output = tmp_path / "hub"
    with pytest.raises(NotWritten, match="cannot be written"), written_aside(str(output)):  # noqa: PT012
        output.mkdir()
        (output / "precious").write_text("mine")
    assert os.listdir(tmp_path) == ["hub"]
    assert (output / "precious").read_text() == "mine"


def test_a_run_that_trains_no_encoder_is_refused(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/run.flags").write_text(to_flagfile(LinearConfig()))
    (tmp_path / "run/run.json").write_text('{"task": "linear"}')
    with pytest.raises(ConfigError, match="--part=encoder: --workdir=.* holds a run of cpc_tf.linear, which"):
        run.export(ExportConfig(workdir=str(tmp_path / "run"), output=str(tmp_path / "hub"), part="encoder"))


def test_command_line(tmp_path):
    command = [sys.executable, "-m", "export", f"--workdir={tmp_path}", f"--output={tmp_path}/hub"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == f"error: --workdir={tmp_path}: holds no run of {', '.join(TASKS)}\n"
    own = {"workdir", "output", "part", "weights", "step"}
    assert set(flatten(ExportConfig())) == own | set(flatten(RuntimeConfig()))
