"""What a launch refuses before there is a TPU, and what it ships."""

import tarfile

import pytest

from cpc_tf import cli
from cpc_tf.commands import TASKS
from cpc_tf.launch import archive, gcloud
from cpc_tf.launch.config import LaunchConfig
from cpc_tf.launch.run import launch
from cpc_tf.launch.training import read
from cpc_tf.settings import ConfigError
from tests.launch.cloud import WORDS, config_of

ZONE = ["--zone=europe-west4-a"]


@pytest.mark.parametrize(("flags", "words", "message"), [
    (["--name=Mine"], WORDS, "--name=Mine: must be small letters"),
    (["--zone=europe"], WORDS, "--zone=europe: must be a zone, e.g. europe-west4-a"),
    (["--accelerator_type=v9-8"], WORDS, "--accelerator_type=v9-8: must be one of v2, v3, v4, v5p, v5litepod, v6e"),
    (["--accelerator_type=v3"], WORDS, "--accelerator_type=v3: must be one of"),
    (["--version=tpu-vm-tf-2.18.0"], WORDS, "--version=tpu-vm-tf-2.18.0: must be an image with TensorFlow 2.15"),
    (["--ssh_flags='"], WORDS, "--ssh_flags=': No closing quotation"),
    ([], WORDS, "--zone= is empty"),
    (ZONE, [], "nothing to train; put one of .*pretrain"),
    (ZONE, ["cook"], "cook: cannot be launched; put one of .*pretrain"),
    (ZONE, [*WORDS, "--batchsize=3"], "Unknown command line flag 'batchsize'"),
    (ZONE, [*WORDS, "--batch_size=36"], "--batch_size=36: cannot be divided among the 8 devices of --acc"),
    (ZONE, [*WORDS, "--workdir=runs/x"], "--workdir=runs/x: must be a folder in a bucket"),
    (ZONE, [*WORDS, "--workdir=gs://bucket/"], "--workdir=gs://bucket/: must be a folder in a bucket"),
    (ZONE, [*WORDS, "--workdir=gs://bucket/../../x"], "--workdir=gs://bucket/../../x: must be without '.', '..' and d"),
    (ZONE, [*WORDS, "--workdir=gs://bucket/a/./x"], "--workdir=gs://bucket/a/./x: must be without"),
    (ZONE, [*WORDS, "--workdir=gs://bucket/a//x/"], "--workdir=gs://bucket/a//x/: must be without"),
    (ZONE, [*WORDS, "--dataset=folder:photos"], "--dataset=folder:photos: lies on this machine"),
    (ZONE, [*WORDS, "--initial_encoder=photos"], "--initial_encoder=photos: lies on this machine"),
])  # fmt: skip
def test_what_cannot_work_is_refused_before_there_is_a_tpu(flags, words, message, tmp_path, monkeypatch):
    (tmp_path / "photos").mkdir()
    monkeypatch.chdir(tmp_path)
    read(config_of(), [*WORDS, "--dataset=photos"])  # a dataset, whatever folders there are
    with pytest.raises(ConfigError, match=f"^{message}"):
        read(cli.parse(LaunchConfig, flags), words)


@pytest.mark.parametrize(
    ("kind", "is_pod", "devices"),
    [("v2-8", 0, 8), ("v3-32", 1, 32), ("v4-8", 0, 4), ("v4-64", 1, 32), ("v5litepod-1", 0, 1), ("v6e-16", 1, 16)],
)
def test_the_size_of_a_tpu(kind, is_pod, devices):
    config = config_of(accelerator_type=kind)
    assert (config.is_pod, config.devices) == (is_pod, devices)


def test_the_archive_has_the_code_the_flags_and_what_pip_installs(tmp_path):
    config = config_of(version="tpu-vm-tf-2.15.1-pod-pjrt", accelerator_type="v3-32")
    training = read(config, WORDS)
    archive.write(tmp_path / "code.tar.gz", config, training)
    assert (tmp_path / "code.tar.gz").stat().st_mode & 0o077 == 0
    with tarfile.open(tmp_path / "code.tar.gz") as found:
        names, secret = found.getnames(), found.getmember("feed.secret")
        assert (secret.mode, secret.size) == (0o600, 64)
        texts = [found.extractfile(name).read().decode() for name in ("run.flags", "requirements.txt")]
    assert {"cpc_tf/__init__.py", "cpc_tf/launch/host.sh", "cpc_tf/pretrain/task.py"} <= set(names)
    assert not [name for name in names if "__pycache__" in name]
    flags, requirements = (text.splitlines() for text in texts)
    assert cli.parse(TASKS["pretrain"].config, flags) == training.config
    assert {"tensorflow==2.15.1", "numpy==1.26.4"} <= set(requirements)


def test_a_wheel_ships_the_same_requirements(tmp_path, monkeypatch):
    wanted = archive.requirements(config_of()).splitlines()
    extra = ['numpy==1.26.4; extra == "classic"', 'protobuf==3.20.3; python_version < "3.11" and extra == "classic"']
    extra += ["numpy>=1.26", 'tensorflow==2.15.1; extra == "classic"', 'tensorflow==2.21.0; extra == "current"']
    monkeypatch.setattr(archive, "PACKAGE", tmp_path / "cpc_tf")
    monkeypatch.setattr(archive.importlib.metadata, "requires", lambda name: extra)
    found = archive.requirements(config_of()).splitlines()
    assert found == ["numpy==1.26.4", 'protobuf==3.20.3; python_version < "3.11"', "tensorflow==2.15.0"]
    assert set(found) <= set(wanted)


@pytest.mark.parametrize(("message", "kind"), [
    ("Insufficient reserved capacity. Contact customer support to increase your reservation.", "capacity"),
    ("Quota exceeded for quota metric 'Requests' and limit 'Requests per minute' of service 'tpu'", "busy"),
    ("ERROR: (gcloud.compute.tpus) You do not currently have an active account selected.", "permission"),
    ("Cloud TPU API has not been used in project 1 before or it is disabled.", "permission"),
    ("gcloud crashed (ConnectionError): Max retries exceeded with url", "connection"),
    ("INVALID_ARGUMENT: accelerator type", ""),
])  # fmt: skip
def test_the_kind_of_a_failure(message, kind):
    """Those that launches meet in run_test.py are not repeated."""
    assert gcloud.kind_of(message) == kind


def test_without_gcloud_a_line_says_where_it_is(monkeypatch, tmp_path):
    training = read(config_of(), WORDS)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="^gcloud: not installed; see https://cloud.google.com/sdk"):
        launch(config_of(), training)
    assert gcloud.call(["gcloud", "version"]).why == "cannot be started (No such file or directory)"
