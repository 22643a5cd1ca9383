"""Keeps what TensorFlow writes to stderr while it is imported from burying our own lines.

From 2.16 on the first of its notices come before it looks at TF_CPP_MIN_LOG_LEVEL.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.util
import os
import sys
from collections.abc import Iterator


class QuietImport(importlib.abc.MetaPathFinder):
    """Imports one package with the process's stderr shut; what the import raises is raised.

    Args:
      package: its name.
    """

    def __init__(self, package: str):
        self._package = package

    def find_spec(self, name, path=None, target=None):
        """Hands over to the finders behind this one."""
        if name != self._package:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec and spec.loader:
            execute = spec.loader.exec_module

            def exec_module(module):
                with _stderr_shut():
                    execute(module)

            spec.loader.exec_module = exec_module
        return spec


@contextlib.contextmanager
def _stderr_shut() -> Iterator[None]:
    try:
        kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    except OSError:  # there is no stderr
        yield
        return
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
