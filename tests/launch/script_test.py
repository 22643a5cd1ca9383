"""What a launch refuses before there is a TPU, and what it fills in."""

import shlex
import subprocess

import pytest

from cpc_tf.core import cli
from cpc_tf.core.settings import ConfigError
from cpc_tf.launch import script
from cpc_tf.launch.config import LaunchConfig
from cpc_tf.launch.script import fill, launch, read, requirements
from tests.launch.cloud import WORDS, config_of

ZONE = ["--zone=europe-west4-a"]


@pytest.mark.parametrize(("flags", "words", "message"), [
    (["--name=Mine"], WORDS, "--name=Mine: must be small letters"),
    (["--zone=europe"], WORDS, "--zone=europe: must be a zone, e.g. europe-west4-a"),
    (["--accelerator_type=v9-8"], WORDS, "--accelerator_type=v9-8: must be one of v2, v3, v4, v5p, v5litepod, v6e"),
    (["--accelerator_type=v3"], WORDS, "--accelerator_type=v3: must be one of"),
    (["--version=tpu-vm-tf-2.18.0"], WORDS, "--version=tpu-vm-tf-2.18.0: must be an image with TensorFlow 2.15"),
    (["--ssh_flags='"], WORDS, "--ssh_flags=': No closing quotation"),
    (["--accelerator_type=A100:8"], WORDS, "--accelerator_type=A100:8: must be one of .*, or with --f"),
    (["--format=skypilot", "--accelerator_type=v3-32"], WORDS, "--accelerator_type=v3-32: has several hosts"),
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
def test_what_cannot_work_is_refused_before_there_is_a_tpu(
    flags, words, message, tmp_path, monkeypatch
):
    (tmp_path / "photos").mkdir()
    monkeypatch.chdir(tmp_path)
    read(config_of(), [*WORDS, "--dataset=photos"])  # a dataset, whatever folders there are
    with pytest.raises(ConfigError, match=f"^{message}"):
        read(cli.parse(LaunchConfig, flags), words)


@pytest.mark.parametrize(
    ("kind", "is_pod", "devices"),
    [
        ("v2-8", 0, 8),
        ("v3-32", 1, 32),
        ("v4-8", 0, 4),
        ("v4-64", 1, 32),
        ("v5litepod-1", 0, 1),
        ("v6e-16", 1, 16),
    ],
)
def test_the_size_of_a_tpu(kind, is_pod, devices):
    config = config_of(accelerator_type=kind)
    assert (config.is_pod, config.devices) == (is_pod, devices)


def test_what_a_user_writes_is_quoted_for_the_shell():
    odd = "$(touch made) 'x\" `y`"
    config = config_of(
        project=odd, output=odd, create_flags=shlex.quote(odd), ssh_flags=shlex.quote(odd)
    )
    text = fill(config, read(config, [*WORDS[:-1], f"--workdir=gs://bucket/{odd}"]))
    commands = "create() { :; }; gcloud() { printf '<%s>' \"$@\"; }; mkdir() { :; }"
    words = (
        text[text.index("workdir=") : text.index("pack() (")]
        + f"{commands}; delete; on_host 0 x; fetch"
    )
    # What is said of it in the end, without the rest of the script.
    done = subprocess.run(["bash", "-euc", words], capture_output=True, text=True, check=True)
    assert done.stdout.count(f"<--project={odd}>") == 2
    assert (done.stdout.count(f"<{odd}>"), done.stdout.count(f"<gs://bucket/{odd}>")) == (2, 1)


def test_a_name_is_of_one_run_and_two_runs_share_no_tpu():
    first, again, other = (
        read(config_of(name=""), [*WORDS, f"--workdir=gs://b/{name}"]) for name in ("x", "x/", "y")
    )
    assert first.name == again.name != other.name
    assert LaunchConfig(name=first.name)


def test_a_script_is_written_or_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    training = read(config_of(), WORDS)
    launch(config_of(dry_run=True), training)
    assert not list(tmp_path.iterdir())
    launch(config_of(script=str(tmp_path / "launch.sh")), training)
    assert (
        (tmp_path / "launch.sh").read_text()
        == capsys.readouterr().out
        == fill(config_of(), training)
    )
    with pytest.raises(ConfigError, match="^--script=/: cannot be written"):
        launch(config_of(script="/"), training)
    with pytest.raises(
        ConfigError, match="^gcloud: not installed; see https://cloud.google.com/sdk"
    ):
        launch(config_of(), training)


def test_a_wheel_ships_the_same_requirements(tmp_path, monkeypatch):
    wanted = requirements(config_of()).splitlines()
    extra = [
        'numpy==1.26.4; extra == "classic"',
        'protobuf==3.20.3; python_version < "3.11" and extra == "classic"',
    ]
    extra += [
        "numpy>=1.26",
        'tensorflow==2.15.1; extra == "classic"',
        'tensorflow==2.21.0; extra == "current"',
    ]
    monkeypatch.setattr(script, "_PACKAGE", tmp_path / "cpc_tf")
    monkeypatch.setattr(script.importlib.metadata, "requires", lambda name: extra)
    found = requirements(config_of(version="tpu-vm-tf-2.15.0-pjrt")).splitlines()
    assert found == [
        "numpy==1.26.4",
        'protobuf==3.20.3; python_version < "3.11"',
        "tensorflow==2.15.0",
    ]
    assert set(found) <= set(wanted)
