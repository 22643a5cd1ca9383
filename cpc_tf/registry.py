"""Registries of modules and tasks. A module that is added to a package needs no further registration."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Callable
from types import ModuleType
from typing import Any


def modules(package: str) -> list[ModuleType]:
    """Returns the modules of a package such as 'cpc_tf.objectives' by name, without subpackages."""
    found = pkgutil.iter_modules(importlib.import_module(package).__path__)
    return [importlib.import_module(f"{package}.{item.name}") for item in found if not item.ispkg]


@dataclasses.dataclass(frozen=True)
class Task:
    """A kind of run with a result, which `cpc_tf.report.NAME` shows."""

    name: str  # of the package, of the binary `python -m cpc_tf.NAME`, and the 'kind' of its results
    config: type  # the settings class
    run: Callable[[Any], dict[str, Any]]  # settings -> result, which is also in result.json

    @property
    def module(self) -> str:
        """What `python -m` runs."""
        return f"cpc_tf.{self.name}"
