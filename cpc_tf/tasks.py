"""The registry of tasks: each package of cpc_tf that has a module `task` is one."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil

import cpc_tf
from cpc_tf.registry import Task


def _find() -> dict[str, Task]:
    names = [f"cpc_tf.{item.name}.task" for item in pkgutil.iter_modules(cpc_tf.__path__) if item.ispkg]
    found = [importlib.import_module(name).TASK for name in names if importlib.util.find_spec(name)]
    return {task.name: task for task in found}


TASKS = _find()
