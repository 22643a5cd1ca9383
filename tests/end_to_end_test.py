"""Pre-train -> stop -> resume -> export -> hub.KerasLayer -> linear, through the binaries, as a user would."""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_hub as hub

from tests import samples

# Kills before the signal that saves: those of tests/training/killed_test.py are enough for a day.
# More of them: CPC_TF_KILLS=10 python -m pytest tests/end_to_end_test.py
KILLS = int(os.environ.get("CPC_TF_KILLS", "0"))
STEPS = 60
LESS = ["--directions=1"]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    return tmp_path_factory.mktemp("end_to_end")


def _command(module, *flags):
    return [sys.executable, "-m", module, *flags]


def _pretrain(room, name):
    folders = [f"--data_dir={room}/data", f"--workdir={room}/{name}"]
    return _command("cpc_tf.pretrain", *samples.PRETRAIN, *LESS, f"--train_steps={STEPS}", *folders)


def _run(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def _records(workdir):
    path = pathlib.Path(workdir, "metrics.jsonl")
    return len(path.read_text().splitlines()) if path.exists() else 0


def _stop_after(command, workdir, records, number):
    """Starts a run, sends it a signal once it has written so many records, and returns its exit status."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 300
    while _records(workdir) < records and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(random.random() * 0.05)  # anywhere between two records: in a step, or in the middle of a checkpoint
    process.send_signal(number)
    return process.wait(timeout=300)


def _final(workdir):
    reader = tf.train.load_checkpoint(f"{workdir}/checkpoints/step_{STEPS:08d}")
    names = [name for name in reader.get_variable_to_shape_map() if not name.startswith("_CHECKPOINTABLE")]
    return {name: reader.get_tensor(name) for name in names}


@pytest.fixture(scope="module")
def uninterrupted(room):
    _run(_pretrain(room, "uninterrupted"))
    return f"{room}/uninterrupted"


def test_stopped_at_a_random_step_the_weights_are_the_same_bit_for_bit(room, uninterrupted):
    workdir, command = f"{room}/killed", _pretrain(room, "killed")
    # Records come every two steps: all together stay clear of the run's end.
    most = max(1, STEPS // 2 // (KILLS + 2))
    for _ in range(KILLS):
        more = random.randint(1, most)
        assert _stop_after(command, workdir, _records(workdir) + more, signal.SIGKILL) == -signal.SIGKILL
    assert _stop_after(command, workdir, _records(workdir) + random.randint(1, most), signal.SIGTERM) in (143, 0)
    _run(command)
    ours, theirs = _final(workdir), _final(uninterrupted)
    assert ours.keys() == theirs.keys()
    assert len(ours) > 200
    for name, value in theirs.items():
        np.testing.assert_array_equal(ours[name], value, err_msg=name)
    steps = [json.loads(line)["step"] for line in pathlib.Path(workdir, "metrics.jsonl").read_text().splitlines()]
    assert steps == list(range(2, STEPS + 1, 2))


def test_result_tells_what_was_run(uninterrupted):
    result = json.loads(pathlib.Path(uninterrupted, "result.json").read_text())
    assert result["step"] == STEPS
    assert result["images"] == 40
    assert result["dataset"] == "photos/40"
    assert result["parameters"] > 218_048
    assert pathlib.Path(uninterrupted, "patches.png").read_bytes().startswith(b"\x89PNG")
    assert any(name.startswith("events") for name in os.listdir(f"{uninterrupted}/events"))


def test_other_settings_in_the_same_workdir_are_one_line(room, uninterrupted):
    done = subprocess.run([*_pretrain(room, "uninterrupted"), "--learning_rate=0.5"], capture_output=True, text=True)
    assert done.returncode == 2
    lines = [line for line in done.stderr.splitlines() if line]
    assert lines == [
        f"error: --learning_rate=0.5: --workdir={uninterrupted} holds a run with --learning_rate=0.001; "
        "take another --workdir, or the same settings to resume it"
    ]


def test_export_then_hub_then_linear(room, uninterrupted):
    module, workdir = f"{room}/hub", f"{room}/linear"
    _run(_command("export", f"--workdir={uninterrupted}", f"--output={module}"))
    assert hub.KerasLayer(module)(tf.zeros([2, 64, 64, 3])).shape == [2, 256]
    colours = samples.write_pictures(room / "colours", {"train": 20, "val": 4}, side=64)
    flags = [f"--dataset=folder:{colours}", "--test_split=val", f"--data_dir={room}/data", "--train_epochs=60"]
    flags += ["--cached_views=1", "--augment=none", "--batch_size=20"]
    command = _command("cpc_tf.linear", *flags, f"--encoder={module}", f"--workdir={workdir}")
    done = _run(command)
    result = json.loads(pathlib.Path(workdir, "result.json").read_text())
    assert result["num_classes"] == 3
    assert result["num_train_labels"] == 60
    assert result["steps"] == 180
    assert 0.6 < result["top1"] <= 1
    for baseline in ("random", "pixels"):
        assert json.loads(pathlib.Path(workdir, baseline, "result.json").read_text())["top1"] > 1 / 3
    assert "random encoder" in done.stdout
    for picture in ("linear.png", "predictions.png", "map.png"):
        assert pathlib.Path(workdir, picture).read_bytes().startswith(b"\x89PNG")
