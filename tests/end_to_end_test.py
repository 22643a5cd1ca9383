"""Pre-train, whatever stops it -> export -> hub.KerasLayer -> linear, through the binaries, as a
user would.
"""

import json
import os
import pathlib
import re
import resource
import signal
import time

import pytest
import tensorflow as tf
import tensorflow_hub as hub

from tests import processes, samples
from tests.training import killed_run

STEPS = 100

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    return tmp_path_factory.mktemp("end_to_end")


def _words(room, name):
    folders = [f"--data_dir={room}/data", f"--workdir={room}/{name}"]
    return [
        "cpc_tf.pretrain",
        *samples.PRETRAIN_SMALLEST,
        f"--train_steps={STEPS}",
        "--checkpoint_every=20",
        *folders,
    ]


def _run(*words):
    done = processes.run(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def _ended(process):
    """(exit status, the line that says why) of a process that ends early in one line."""
    _, errors = process.communicate(timeout=600)
    assert "Traceback" not in errors
    (line,) = [line for line in errors.splitlines() if line.startswith(("error: ", "stopped by "))]
    return process.returncode, line


@pytest.fixture(scope="module")
def uninterrupted(room):
    _run(*_words(room, "uninterrupted"))
    return f"{room}/uninterrupted"


def test_interrupted_run_resumes_bit_for_bit(room, uninterrupted):
    words, checkpoints = _words(room, "stopped"), room / "stopped/checkpoints"
    process = processes.start(*words)
    processes.wait_for(process, "steps of")
    process.send_signal(signal.SIGTERM)
    status, line = _ended(process)
    assert (status, checkpoints.exists()) == (128 + signal.SIGTERM, False)
    assert re.search(r"^stopped by SIGTERM: .*; run the same command to resume$", line)

    process = processes.start(*words)
    while not (room / "stopped/patches.png").exists() and process.poll() is None:
        time.sleep(0.01)
    limit = 50_000  # bytes of a file: less than a checkpoint
    if hasattr(resource, "prlimit"):  # Linux
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (limit, limit))
        status, line = _ended(process)
        assert (status, list(checkpoints.glob("*"))) == (4, [])
        assert "/checkpoints" in line
        assert "cannot be written" in line
        process = processes.start(*words)

    processes.wait_for(process, "loss")
    process.send_signal(signal.SIGINT)
    status, line = _ended(process)
    assert status == 128 + signal.SIGINT
    step = int(
        re.search(r"^stopped by SIGINT: saved step (\d+) in .*; run the same command", line)[1]
    )
    assert (checkpoints / f"step_{step:08d}.index").exists()
    assert 0 < step < STEPS

    _run(*words)
    ours, theirs = (killed_run.outcome(room / name) for name in ("stopped", "uninterrupted"))
    assert not killed_run.differences(ours, theirs)
    records = (room / "stopped/metrics.jsonl").read_text().splitlines()
    assert [json.loads(record)["step"] for record in records] == list(range(1, STEPS + 1))


def test_result_tells_what_was_run(uninterrupted):
    result = json.loads(pathlib.Path(uninterrupted, "result.json").read_text())
    assert (result["step"], result["images"], result["dataset"]) == (STEPS, 40, "photos/40")
    assert pathlib.Path(uninterrupted, "patches.png").read_bytes().startswith(b"\x89PNG")
    assert any(name.startswith("events") for name in os.listdir(f"{uninterrupted}/events"))


def test_other_settings_in_the_same_workdir_are_refused(room, uninterrupted):
    status, line = _ended(processes.start(*_words(room, "uninterrupted"), "--learning_rate=0.5"))
    assert status == 2
    assert line.startswith(
        f"error: --learning_rate=0.5: --workdir={uninterrupted} holds a run with --learning_rate=0"
    )


def test_export_then_hub_then_linear(room, uninterrupted):
    module, workdir = f"{room}/hub", f"{room}/linear"
    _run("export", f"--workdir={uninterrupted}", f"--output={module}")
    assert hub.KerasLayer(module)(tf.zeros([2, 64, 64, 3])).shape == [2, 32]
    colours = samples.write_pictures(room / "colours", {"train": 20, "val": 4}, side=24)
    flags = [
        f"--dataset=folder:{colours}",
        "--test_split=val",
        f"--data_dir={room}/data",
        "--train_epochs=60",
    ]
    flags += ["--cached_views=1", "--augment=none", "--batch_size=20"]
    done = _run("cpc_tf.linear", *flags, f"--encoder={module}", f"--workdir={workdir}")
    result = json.loads(pathlib.Path(workdir, "result.json").read_text())
    assert (result["num_classes"], result["num_train_labels"], result["steps"]) == (3, 60, 180)
    assert 0.6 < result["top1"] <= 1
    for baseline in ("random", "pixels"):
        assert (
            json.loads(pathlib.Path(workdir, baseline, "result.json").read_text())["top1"] > 1 / 3
        )
    assert "random encoder" in done.stdout
    for picture in ("linear.png", "predictions.png", "map.png"):
        assert pathlib.Path(workdir, picture).read_bytes().startswith(b"\x89PNG")
