"""A whole comparison: images in, figures out, nothing done twice."""

import json
import pathlib
import sys

import pytest

from cpc_tf.compare import run
from cpc_tf.compare.config import CompareConfig
from cpc_tf.core.settings import ConfigError, replace
from tests import samples


def settings(root, **more):
    return replace(
        CompareConfig(),
        pictures=f"{root}/in",
        workdir=f"{root}/out",
        objectives="rotation",
        trials=1,
        **more,
    )


@pytest.mark.slow
def test_comparison_is_done_once(tmp_path, monkeypatch):
    samples.write_pictures(tmp_path / "in", {"": 18}, names=("a", "b"))
    monkeypatch.setattr(run.pace, "seconds_of_step", lambda *_: 30.0)
    result = run.compare(settings(tmp_path, minutes=1.0))
    assert {row["name"] for row in result["encoders"]} == {
        "Rotation",
        "untrained",
        "imagenette_128px",
        "pixels",
    }
    trained = json.loads((tmp_path / "out/rotation_short/training/result.json").read_text())
    assert trained["step"] == 2
    assert (tmp_path / "out/comparison.png").exists()

    monkeypatch.setattr(run, "_call", lambda *_: pytest.fail("it trains again"))
    assert run.compare(settings(tmp_path, minutes=1.0)) == result
    with pytest.raises(ConfigError, match="--minutes=2.0: .*holds a comparison with --minutes=1.0"):
        run.compare(settings(tmp_path, minutes=2.0))


def test_diverged_training_is_left_out_and_named(tmp_path, monkeypatch):
    """Hours of other trainings are not lost."""
    samples.write_pictures(tmp_path / "in", {"": 18}, names=("a", "b"))
    monkeypatch.setattr(run, "_fitting_steps", lambda *_: 2)
    program = "import sys; print('the loss is nan'); sys.exit(3)"
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{program}"\n')
    python.chmod(0o755)
    monkeypatch.setattr(run.sys, "executable", str(python))
    result = run.compare(settings(tmp_path))
    assert {row["name"] for row in result["encoders"]} == {"imagenette_128px", "pixels"}
    assert result["diverged"] == ["Rotation, the setting for short runs"]
    text = (tmp_path / "out/comparison.md").read_text()
    assert "Diverged, and not in the table: Rotation, the setting for short runs." in text


def test_other_images_are_refused_on_resume(tmp_path, monkeypatch):
    """Else figures of two sets of images would stand in one table."""
    samples.write_pictures(tmp_path / "in", {"": 18}, names=("a", "b"))
    monkeypatch.setattr(run, "_train", lambda *_: None)
    monkeypatch.setattr(run, "_measure", lambda *_: sys.exit("stopped"))
    with pytest.raises(SystemExit, match="stopped"):
        run.compare(settings(tmp_path))
    with pytest.raises(SystemExit, match="stopped"):
        run.compare(settings(tmp_path))
    next((tmp_path / "in/a").iterdir()).rename(tmp_path / "in/b/moved.png")
    with pytest.raises(ConfigError, match="--pictures=.*have changed since the comparison"):
        run.compare(settings(tmp_path))


def test_dry_run_trains_nothing(tmp_path, capsys):
    samples.write_pictures(tmp_path / "in", {"": 18}, names=("a", "b"))
    assert run.compare(settings(tmp_path, minutes=90.0, dry_run=True)) == {}
    printed = capsys.readouterr().out
    assert "1 training runs on 36 images, 0 of them done; 1:30:00" in printed
    assert "  Rotation, the setting for short runs\n" in printed
    assert not (tmp_path / "out").exists()


def test_too_few_images_of_a_class_are_refused(tmp_path):
    samples.write_pictures(tmp_path / "in", {"": 6}, names=("a", "b"))
    with pytest.raises(
        ConfigError, match="class a has 6 labelled images; each class needs about 15"
    ):
        run.compare(settings(tmp_path))


def test_failed_training_is_named(tmp_path):
    log = tmp_path / "rotation_short/log.txt"
    with pytest.raises(run.Failed, match="cpc_tf.pretrain failed .*--steps_to_predict=0"):
        run._call("cpc_tf.pretrain", ["--steps_to_predict=0"], str(log))
    assert pathlib.Path(log).exists()
