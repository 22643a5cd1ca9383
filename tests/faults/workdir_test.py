"""Directories of runs that something happened to: full disks, files of the wrong kind, leftovers, second processes."""

import json
import os
import pathlib
import resource
import signal
import subprocess
import sys

import pytest
import tensorflow as tf

from cpc_tf import cli
from cpc_tf.data import catalog
from cpc_tf.export.run import written_aside
from cpc_tf.files import NotWritten, read_json, write_file
from cpc_tf.settings import ConfigError
from cpc_tf.tasks import TASKS
from cpc_tf.training.checkpoint import Checkpoints
from cpc_tf.training.lock import locked
from cpc_tf.training.workdir import OutOfMemory, Workdir, open_run, read_config
from tests import samples

PRETRAIN = TASKS["pretrain"]


@pytest.fixture
def config(tmp_path):
    return cli.parse(PRETRAIN.config, [*samples.PRETRAIN, f"--workdir={tmp_path}/run", f"--data_dir={tmp_path}/data"])


@pytest.fixture
def run(config):
    """A run that was begun and finished, with a checkpoint; its directory."""
    workdir = Workdir(config, "pretrain")
    workdir.begin(0)
    workdir.record(4, {"loss": 1.0, "wall_seconds": 1.0})
    Checkpoints(workdir.path, tf.train.Checkpoint(value=tf.Variable(4.0))).save(4)
    workdir.finish({"loss": 1.0})
    return pathlib.Path(workdir.path)


def refused(action, match):
    with pytest.raises(ConfigError, match=match) as error:
        action()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", ["{", "", "{}", "[]", '{"kind": "linear"}', "\xff", '{"kind": ["pretrain"]}'])
def test_a_damaged_result_is_made_anew(config, run, content, caplog):
    assert Workdir(config, "pretrain").result() == {"kind": "pretrain", "loss": 1.0}
    (run / "result.json").write_bytes(content.encode("latin-1"))
    assert Workdir(config, "pretrain").result() is None
    assert "made anew" in caplog.text


def test_a_result_that_lacks_what_is_needed_is_made_anew(config, run):
    assert Workdir(config, "pretrain").result(lambda found: "phases" in found) is None


@pytest.mark.parametrize("content", [b"\xff\xfe", b"--recipe=soup\n", b"--seed=many\n", b"\0"])
def test_damaged_settings_are_one_line(config, run, content):
    (run / "run.flags").write_bytes(content)
    refused(lambda: Workdir(config, "pretrain"), "run.flags")
    refused(lambda: read_config(str(run), PRETRAIN.config), "run.flags")


def test_checkpoints_of_nobody_knows_which_run_are_refused(config, run):
    (run / "run.flags").unlink()
    refused(lambda: Workdir(config, "pretrain"), "has checkpoints but no run.flags")


@pytest.mark.parametrize("name", ["checkpoints", "events"])
def test_a_file_in_place_of_a_folder_is_refused(config, tmp_path, name):
    write_file(f"{tmp_path}/run/{name}", "")
    refused(lambda: Workdir(config, "pretrain"), f"{name}: should be a folder; move it away")


@pytest.mark.parametrize("name", ["run.flags", "metrics.jsonl", "result.json"])
def test_a_folder_in_place_of_a_file_is_refused(config, tmp_path, name):
    (tmp_path / "run" / name).mkdir(parents=True)
    refused(lambda: Workdir(config, "pretrain"), f"{name}: should be a file; move it away")


TAILS = {
    **{text: text for text in ("{", "[]", '{"step": "8"}', '{"loss": 1.0}', '{"step": 8, "loss": null}', "null")},
    **{"no text": "\xff", "deep": "[" * 99_999},
}


@pytest.mark.parametrize("tail", TAILS)
def test_records_end_where_they_are_damaged(config, run, tail):
    with open(run / "metrics.jsonl", "ab") as file:
        file.write(TAILS[tail].encode("latin-1") + b'\n{"step": 9}\n')
    assert [record["step"] for record in Workdir(config, "pretrain").records()] == [4]


def test_a_directory_that_cannot_be_made_is_refused_before_anything_is_built(config, tmp_path):
    (tmp_path / "run").write_text("")
    refused(lambda: PRETRAIN.run(config), "--workdir=.*cannot be written to")


def test_a_second_process_is_refused_before_anything_is_built(config, tmp_path):
    with locked(f"{tmp_path}/run"):
        refused(lambda: PRETRAIN.run(config), f"--workdir=.*process {os.getpid()} .* is at work there")


def test_what_killed_processes_left_is_removed(config, run):
    left = ["result.json.17.tmp", "checkpoints/step_00000008.data-00000-of-00001", "checkpoints/worker_9/step.index"]
    left += ["checkpoints/step_00000008.index.tempstate123", "checkpoints/step_00000008_temp/part-00000-of-00001.data"]
    for name in left:
        write_file(f"{run}/{name}", "")
    write_file(f"{run}/notes.txt", "mine")
    with open_run(config, "pretrain") as (workdir, _):
        Checkpoints(workdir.path).drop_unfinished()
        workdir.begin(4)
    found = {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}
    assert not found & set(left)
    assert found >= {"notes.txt", "checkpoints/step_00000004.index", "run.flags"}
    assert not (run / "checkpoints/step_00000008_temp").exists()


def test_what_killed_exports_left_is_removed(tmp_path):
    left, new, other = (tmp_path / name for name in ("hub.17.tmp", "hub.18.tmp", "hub.old.tmp"))
    for path in (left, new, other):
        path.mkdir()
        (path / "saved_model.pb").write_text("")
    for path in (left / "saved_model.pb", left, other):
        os.utime(path, (0, 0))
    with written_aside(f"{tmp_path}/hub") as aside:
        assert aside
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hub", "hub.18.tmp", "hub.old.tmp"]


@pytest.mark.parametrize("error", [MemoryError(), tf.errors.ResourceExhaustedError(None, None, "OOM\nmore")])
def test_too_little_memory_is_one_line(config, error):
    said = r"^out of memory \(.*\); a smaller --batch_size"
    with pytest.raises(OutOfMemory, match=said) as ended, open_run(config, "pretrain"):
        raise error
    assert ended.value.status == 5


def test_what_cannot_be_written_is_one_line_and_leaves_nothing(tmp_path):
    (tmp_path / "file").write_text("whole")
    with pytest.raises(NotWritten, match="cannot be written .*; what was saved before is whole") as error:
        write_file(f"{tmp_path}/file/below", "x")
    assert error.value.status == 4
    (tmp_path / "folder").mkdir()
    with pytest.raises(NotWritten):
        write_file(f"{tmp_path}/folder", "x")
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


def test_a_full_disk_is_one_line_and_the_rerun_goes_on(tmp_path):
    """No file may grow beyond a limit that is less than a checkpoint."""
    catalog.open_source("photos/40", f"{tmp_path}/data", "unlabelled", 100)
    command = [sys.executable, "-m", "cpc_tf.pretrain", *samples.PRETRAIN, "--train_steps=8"]
    command += [f"--workdir={tmp_path}/run", f"--data_dir={tmp_path}/data"]

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))

    full = subprocess.run(command, preexec_fn=limit, capture_output=True, text=True, timeout=300)
    assert full.returncode == 4, full.stderr
    (line,) = [line for line in full.stderr.splitlines() if line.startswith("error: ")]
    assert "cannot be written" in line
    assert "Traceback" not in full.stderr
    assert not list(tmp_path.glob("run/checkpoints/*"))
    again = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert again.returncode == 0, again.stderr
    assert read_json(f"{tmp_path}/run/result.json")["step"] == 8
    assert json.loads((tmp_path / "run/metrics.jsonl").read_text().splitlines()[-1])["step"] == 8
