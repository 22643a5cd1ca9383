"""The registry of tasks: each package of cpc_tf that has a module `task` is one."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import pkgutil

import tensorflow as tf

import cpc_tf
from cpc_tf.files import read_json
from cpc_tf.registry import Task
from cpc_tf.settings import ConfigError
from cpc_tf.training.workdir import read_config


def _find() -> dict[str, Task]:
    names = [f"cpc_tf.{item.name}.task" for item in pkgutil.iter_modules(cpc_tf.__path__) if item.ispkg]
    found = [importlib.import_module(name).TASK for name in names if importlib.util.find_spec(name)]
    return {task.name: task for task in found}


TASKS = _find()


def read_task(workdir: str) -> Task:
    """Of which task the run in a directory is.

    Runs begun by older versions have no run.json: theirs is the 'kind' of their result or, if they are not finished,
    the only task that knows all flags of run.flags.

    Raises:
      ConfigError: there is no run, or none of a known task.
    """
    for file, key in (("run.json", "task"), ("result.json", "kind")):
        path = os.path.join(workdir, file)
        if tf.io.gfile.exists(path):
            name = read_json(path).get(key)
            if name not in [*TASKS]:  # which may be of any type
                raise ConfigError(f"--workdir={workdir}: its {file} names none of {', '.join(TASKS)}")
            return TASKS[name]
    known = []
    for task in TASKS.values():
        with contextlib.suppress(ConfigError):
            read_config(workdir, task.config)
            known.append(task)
    if len(known) != 1:
        raise ConfigError(f"--workdir={workdir}: holds no run of {', '.join(TASKS)}")
    return known[0]
