"""The registry of tasks, and which task a run is of."""

import pytest

from cpc_tf import cli
from cpc_tf.settings import ConfigError
from cpc_tf.tasks import TASKS, read_task
from cpc_tf.training.workdir import Workdir


def test_the_binaries_that_the_documents_name_are_tasks():
    assert set(TASKS) >= {"pretrain", "linear", "efficient", "detect"}
    assert [task.name for task in TASKS.values()] == list(TASKS)


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_the_task_of_a_run(task, tmp_path):
    Workdir(cli.parse(task.config, [f"--workdir={tmp_path}"]), task.name).begin(0)
    assert read_task(str(tmp_path)) is task


@pytest.mark.parametrize("content", [None, "{", "[]", "{}", '{"task": "cooking"}', '{"task": ["linear"]}'])
def test_no_run_of_a_known_task_is_one_line(content, tmp_path):
    if content:
        (tmp_path / "run.json").write_text(content)
    (tmp_path / "run.flags").write_text("--recipe=soup\n")
    with pytest.raises(ConfigError, match=r"holds no run of .*linear|run.json(: is damaged| names none of .*linear)"):
        read_task(str(tmp_path))
