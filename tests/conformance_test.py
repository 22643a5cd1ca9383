"""Every task, and pre-training with every objective: two steps, resumed on one device; tasks on
two, and exported.

`classify` is not among them: it does not train in steps; tests/classify shows its run and its
export. A new task needs tests/TASK/tiny.flags, in which PICTURES, BOXES and MODULE stand for what
is made here. A new objective needs nothing.
"""

import functools
import json
import pathlib
import shutil
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.core import cli
from cpc_tf.core.commands import TASKS, Command
from cpc_tf.core.settings import ConfigError, Settings, replace, restored_settings
from cpc_tf.efficient import classifier, inputs
from cpc_tf.encoders import networks
from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.export.run import EXPORTERS
from cpc_tf.objectives.config import OBJECTIVES, settings_class
from cpc_tf.pretrain import run as pretrain_run
from cpc_tf.report.page import REPORTS
from cpc_tf.report.runs import collect
from cpc_tf.training.checkpoint import Checkpoints
from cpc_tf.training.workdir import read_config, read_task
from tests import modules, samples
from tests.evaluation import traffic
from tests.export.conftest import made

LENGTH = [
    "--batch_size=4",
    "--train_steps=2",
    "--steps_per_loop=1",
    "--checkpoint_every=1",
    "--strategy=single",
]
# of a result
TIMES = (
    "wall_seconds",
    "cpu_seconds",
    "between_wall_seconds",
    "between_cpu_seconds",
    "images_per_second",
    "waiting",
    "read_gb",
)
ROUNDING = 1e-4  # allowed `difference` of several devices to one
CASES = {name: (task, []) for name, task in TASKS.items() if name not in ("pretrain", "classify")}
CASES["efficient-uda"] = (
    TASKS["efficient"],
    ["--encoder=pixels", "--backbone=small", "--propagation=uda", "--augment=full"],
)
for name in OBJECTIVES:
    objective = settings_class(name)
    one_patch = [] if objective.PATCHES else ["--patch_size=32"]
    encoder = [f"--encoder=small_{objective.NEEDS}"] if objective.NEEDS else []
    no_probe = [] if name == "cpc" else ["--probe_every=0"]  # it is the same for all
    small = [f"--{field}={value}" for field, value in samples.OF_OBJECTIVE.get(name, {}).items()]
    CASES[f"pretrain-{name}"] = (
        TASKS["pretrain"],
        [f"--objective={name}", *one_patch, *encoder, *no_probe, *small],
    )
CASES["pretrain-sum"] = (TASKS["pretrain"], ["--objective=cpc+deep_cluster", "--probe_every=0"])
OF_TASKS = [*(name for name in CASES if name in TASKS), "pretrain-cpc"]  # a case of each

# What an evaluation does outside of the replicas from one batch to the next: no weight is read,
# written or sent there.
HANDED_OUT = {"IteratorGetNext", "StridedSlice", "GatherV2", "Minimum", "Range", "Fill"}
# numbers of the largest one in a program of an evaluation: a detector's anchors
CONSTANTS = {"detect": 6144}

pytestmark = pytest.mark.slow


def make_smallest(patch):
    """Makes 'small' one block of 16 channels."""
    one = networks.Architecture(
        (networks.Stack(1, 4, 16, 2),), stem_kernel=3, stem_width=8, stem_pool=False
    )
    patch.setitem(networks.ARCHITECTURES, "small", one)


@pytest.fixture(scope="module", autouse=True)
def _smallest():
    with pytest.MonkeyPatch.context() as patch:
        make_smallest(patch)
        yield


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return write_root(tmp_path_factory.mktemp("conformance"))


def write_root(root):
    """A folder with everything that tiny.flags can name."""
    samples.write_pictures(root / "PICTURES", {"train": 8, "val": 2}, side=32)
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
    file = root / f"{task.name}.flags"  # a file may have settings of another objective
    file.write_text("\n".join(tiny_flags(root, task)))
    lines = [
        f"--flagfile={file}",
        *LENGTH,
        f"--data_dir={root}/cache",
        *more,
        f"--workdir={workdir}",
    ]
    return cli.parse(task.config, lines)  # settings that are no flags among them


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
    return {name: value for name, value in result.items() if name not in TIMES}


def numbers(result, *name):
    """All numbers of a result but those of time: {path of names: number}."""
    if isinstance(result, dict):
        result = {key: value for key, value in result.items() if key not in TIMES}
        return {
            path: x
            for key, value in result.items()
            for path, x in numbers(value, *name, key).items()
        }
    return {name: result} if isinstance(result, (int, float)) else {}


def difference(ours, theirs):
    """The largest difference between the last checkpoints of two directories, to the tensor's
    largest value.

    Or to 0.1, if that is larger: of a bias that the loss does not depend on, all is rounding.
    """
    ours, theirs = weights(ours), weights(theirs)
    assert ours.keys() == theirs.keys()
    return max(
        np.abs(ours[name] - value).max() / np.abs(value).max(initial=0.1)
        for name, value in theirs.items()
    )


class Whole(NamedTuple):
    """A run from start to end on one device."""

    task: Command
    config: Settings
    result: dict[str, Any]
    killed: pathlib.Path  # what would be left, had it been killed after its first checkpoint
    later: pathlib.Path  # the same before its last step, which is one of the last phase


@pytest.fixture(scope="module")
def run_whole(root, tmp_path_factory):
    """Runs a case once."""

    @functools.cache
    def run(case):
        task, _ = CASES[case]
        folder, save, saved = tmp_path_factory.mktemp("whole"), Checkpoints.save, []
        config = settings(root, case, folder / "run")

        def saving(*arguments, **options):
            save(*arguments, **options)
            saved.append(folder / f"killed{len(saved)}")
            shutil.copytree(folder / "run", saved[-1])

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Checkpoints, "save", saving)
            return Whole(task, config, task(config), saved[0], saved[-2])

    return run


@pytest.mark.parametrize("case", CASES)
def test_conforms(case, run_whole, tmp_path):
    task, config, result, killed, _ = run_whole(case)
    assert json.loads(pathlib.Path(config.workdir, "result.json").read_text()) == json.loads(
        json.dumps(result)
    )
    assert result["kind"] == task.name
    assert read_task(config.workdir) is task
    begun = read_config(config.workdir, task.config)
    assert begun == restored_settings(config, begun)  # and what the run derived
    assert not (killed / "result.json").exists()
    shutil.copytree(killed, tmp_path / "resumed")
    assert without_time(task(replace(config, workdir=str(tmp_path / "resumed")))) == without_time(
        result
    )
    resumed, undisturbed = weights(tmp_path / "resumed"), weights(config.workdir)
    assert resumed.keys() == undisturbed.keys()
    for name, value in undisturbed.items():
        np.testing.assert_array_equal(resumed[name], value, err_msg=str(name))

    runs, problems = collect(config.workdir, REPORTS)
    assert ([run["kind"] for run in runs], list(problems)) == ([task.name], [])
    REPORTS[task.name].report(runs, config.data.dataset)
    if case in (*OF_TASKS, "pretrain-sum") and task.name in EXPORTERS["all"]:
        made(config.workdir, part="all").reference()  # tests/export shows that each kind is saved


@pytest.fixture
def a_picture_more(root):
    """What adds an image to those that a run learns from, with a box where others have boxes."""
    copies = []

    def add():
        for folder, ends in (("PICTURES/train/red", ["png"]), ("BOXES", ["png", "xml"])):
            for end in ends:
                at = (
                    root
                    / folder
                    / (
                        {"png": "JPEGImages", "xml": "Annotations"}[end]
                        if folder == "BOXES"
                        else ""
                    )
                )
                copies.append(at / f"more.{end}")
                shutil.copy(at / f"0.{end}", copies[-1])

    yield add
    for path in copies:
        path.unlink()


@pytest.mark.parametrize("case", OF_TASKS)
def test_run_keeps_its_data_and_finishes_only_once(
    case, run_whole, a_picture_more, tmp_path, capsys, monkeypatch
):
    task, config, result, killed, _ = run_whole(case)
    finished = replace(config, workdir=f"{config.workdir}/", steps_per_loop=2)
    if task.name != "pretrain":  # whose result is that of its last step
        monkeypatch.setattr("cpc_tf.training.loop.train", None)
        assert json.loads(json.dumps(task(finished))) == json.loads(json.dumps(result))
        assert "already finished" in capsys.readouterr().out
    a_picture_more()
    shutil.copytree(killed, tmp_path / "killed")
    for left, state in (
        (finished.workdir, "a finished run, which"),
        (tmp_path / "killed", "a run that"),
    ):
        with pytest.raises(
            ConfigError, match=f"holds {state} began .*: 1 file was added: .*more.png; put"
        ):
            task(replace(config, workdir=str(left)))


@pytest.mark.parametrize("case", [*OF_TASKS, "efficient-uda"])
def test_resume_on_two_devices_equals_one_device(
    case, run_whole, tmp_path, two_replicas, monkeypatch
):
    """Of each objective and phase tests/training/contract_test.py compares two replicas with
    one.
    """
    whole = run_whole(case)
    monkeypatch.setattr("cpc_tf.training.session.strategy_of", lambda *_: two_replicas)
    for module, rows in (
        (classifier, "ENCODED"),
        (inputs, "ENCODED"),
        (pretrain_run, "PROBE_ROWS"),
    ):
        # so that an evaluation has several batches of one size
        monkeypatch.setattr(module, rows, 1)
    config = replace(
        whole.config, **({"test_batch_size": 1} if whole.task.name == "detect" else {})
    )
    shutil.copytree(whole.later, tmp_path / "two")
    with traffic.watched() as seen:
        result = whole.task(replace(config, workdir=str(tmp_path / "two")))
    assert {"GatherV2"} <= seen.between_batches() <= HANDED_OUT
    for graph in seen.graphs:
        assert traffic.largest_constant(graph) <= CONSTANTS.get(whole.task.name, 16)
        first, second = traffic.devices_of_variables(graph).values()
        assert first == second > 0
    assert numbers(result) == pytest.approx(numbers(whole.result), rel=1e-3)
    assert difference(tmp_path / "two", whole.config.workdir) < ROUNDING


def test_what_is_exported_are_tasks():
    assert all(set(exporters) <= set(TASKS) for exporters in EXPORTERS.values())
