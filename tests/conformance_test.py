"""Every task, and pre-training with every objective: two steps, stopped and resumed, exported, reported.

A new task needs tests/TASK/tiny.flags, in which PICTURES, BOXES and MODULE stand for what is made here. A new objective
needs nothing.
"""

import json
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf import cli
from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.export.run import EXPORTERS, ExportConfig, export
from cpc_tf.objectives import OBJECTIVES
from cpc_tf.results.runs import collect
from cpc_tf.tasks import TASKS, read_task
from cpc_tf.training.checkpoint import Checkpoints
from cpc_tf.training.workdir import read_config
from tests import modules, samples
from tests.conftest import make_tiny

LENGTH = ["--batch_size=2", "--train_steps=2", "--steps_per_loop=1", "--checkpoint_every=1", "--strategy=single"]
CASES = {name: (task, []) for name, task in TASKS.items() if name != "pretrain"}
for name, objective in OBJECTIVES.items():
    one_patch = ["--patch_size=32"] if objective.VIEW.whole else []
    CASES[f"pretrain-{name}"] = (TASKS["pretrain"], [f"--objective={name}", *one_patch])

pytestmark = [pytest.mark.usefixtures("tiny_encoder"), pytest.mark.slow]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        make_tiny(patch)
        return write_root(tmp_path_factory.mktemp("conformance"))


def write_root(root):
    """A folder with everything that tiny.flags can name."""
    samples.write_pictures(root / "PICTURES", {"train": 4, "val": 2}, side=32)
    samples.write_boxes(root / "BOXES")
    modules.write_module(root / "MODULE", EncoderConfig(encoder="small"))
    return root


def tiny_flags(root, task):
    """The flags of a run of seconds of a task."""
    text = pathlib.Path(__file__).with_name(task.name).joinpath("tiny.flags").read_text()
    for name in ("PICTURES", "BOXES", "MODULE"):
        text = text.replace(name, str(root / name))
    return [line for line in text.splitlines() if line.startswith("--")]


def settings(root, case, workdir):
    task, more = CASES[case]
    lines = [*tiny_flags(root, task), *LENGTH, f"--data_dir={root}/cache", *more, f"--workdir={workdir}"]
    return cli.parse(task.config, lines, recorded=True)  # settings that are no flags among them


def weights(workdir):
    """All tensors of the last checkpoints below a directory."""
    found = {}
    for folder in sorted(pathlib.Path(workdir).rglob("checkpoints")):
        reader = tf.train.load_checkpoint(str(max(folder.glob("*.index"))).removesuffix(".index"))
        for name in reader.get_variable_to_shape_map():
            if not name.startswith("_CHECKPOINTABLE"):
                found[str(folder.relative_to(workdir)), name] = reader.get_tensor(name)
    return found


def without_time(result):
    return {key: x for key, x in result.items() if key not in ("wall_seconds", "images_per_second", "waiting")}


@pytest.fixture
def killed(tmp_path, monkeypatch):
    """Where a run in tmp_path/run leaves what it would have left, had it been killed after its first checkpoint."""
    save = Checkpoints.save

    def saving(checkpoints, *arguments, **options):
        save(checkpoints, *arguments, **options)
        if not (tmp_path / "killed").exists():
            shutil.copytree(tmp_path / "run", tmp_path / "killed")

    monkeypatch.setattr(Checkpoints, "save", saving)
    return tmp_path / "killed"


@pytest.mark.parametrize("case", CASES)
def test_conforms(case, root, tmp_path, monkeypatch, killed):
    task, _ = CASES[case]
    config = settings(root, case, tmp_path / "run")
    result = task.run(config)
    assert json.loads((tmp_path / "run/result.json").read_text()) == json.loads(json.dumps(result))
    assert result["kind"] == task.name
    assert read_task(config.workdir) is task
    assert read_config(config.workdir, task.config) == config

    whole = (tmp_path / "run").rename(tmp_path / "whole")
    assert not (killed / "result.json").exists()
    killed.rename(config.workdir)
    assert without_time(task.run(config)) == without_time(result)
    resumed, undisturbed = weights(config.workdir), weights(whole)
    assert resumed.keys() == undisturbed.keys()
    for name, value in undisturbed.items():
        np.testing.assert_array_equal(resumed[name], value, err_msg=str(name))

    runs, problems = collect(config.workdir, TASKS)
    assert ([run["kind"] for run in runs], list(problems)) == ([task.name], [])
    task.report(runs, config.data.dataset)
    if task.name in EXPORTERS:
        # The check in a process of its own is that of tests/export and of tests/end_to_end_test.py.
        checked = {"difference": 0, "variables": 0, "detections": 0, "same": 1}
        monkeypatch.setattr("cpc_tf.export.run.verify", lambda *_: checked)
        export(ExportConfig(workdir=config.workdir, output=str(tmp_path / "hub")))
        assert (tmp_path / "hub/saved_model.pb").exists()


def test_what_is_exported_are_tasks():
    assert set(EXPORTERS) < set(TASKS)
