"""The registry of tasks, and which task a run is of."""

import pytest

from cpc_tf import cli
from cpc_tf.settings import ConfigError
from cpc_tf.tasks import TASKS, read_task
from cpc_tf.training.workdir import Workdir


def test_the_binaries_that_the_documents_name_are_tasks():
    assert set(TASKS) >= {"pretrain", "linear", "efficient", "detect"}
    assert [task.name for task in TASKS.values()] == list(TASKS)


def begun(task, tmp_path):
    workdir = str(tmp_path / "run")
    Workdir(cli.parse(task.config, [f"--workdir={workdir}"]), task.name).begin(0)
    return workdir, tmp_path / "run"


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_the_task_of_a_run(task, tmp_path):
    workdir, _ = begun(task, tmp_path)
    assert read_task(workdir) is task


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"task": "cooking"}'])
def test_a_run_of_no_known_task_is_one_line(content, tmp_path):
    workdir, path = begun(TASKS["linear"], tmp_path)
    (path / "run.json").write_text(content)
    with pytest.raises(ConfigError, match="run.json(: is damaged| names none of .*linear)") as error:
        read_task(workdir)
    assert "\n" not in str(error.value)


def test_no_run(tmp_path):
    with pytest.raises(ConfigError, match="--workdir=.*holds no run of .*linear"):
        read_task(str(tmp_path))
    (tmp_path / "run.flags").write_text("--recipe=soup\n")
    with pytest.raises(ConfigError, match="--workdir=.*holds no run of .*linear"):
        read_task(str(tmp_path))
