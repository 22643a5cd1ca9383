"""The registry of tasks: the packages of cpc_tf that have a module `task`."""

from __future__ import annotations

import importlib.util
import os
import pkgutil

import tensorflow as tf

import cpc_tf
from cpc_tf.files import read_json
from cpc_tf.registry import Task
from cpc_tf.settings import ConfigError


def _find() -> dict[str, Task]:
    names = [f"cpc_tf.{item.name}.task" for item in pkgutil.iter_modules(cpc_tf.__path__) if item.ispkg]
    found = [importlib.import_module(name).TASK for name in names if importlib.util.find_spec(name)]
    return {task.name: task for task in found}


TASKS = _find()


def read_task(workdir: str) -> Task:
    """Returns the task of the run in a directory. Raises ConfigError if there is no run of a known task."""
    path = os.path.join(workdir, "run.json")
    if not tf.io.gfile.exists(path):
        raise ConfigError(f"--workdir={workdir}: holds no run of {', '.join(TASKS)}")
    name = read_json(path).get("task")
    if name not in [*TASKS]:  # a list, since the name may be of any type
        raise ConfigError(f"--workdir={workdir}: its run.json names none of {', '.join(TASKS)}")
    return TASKS[name]
