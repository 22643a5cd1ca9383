"""Keeps what TensorFlow writes to stderr while it is imported from burying our own lines.

From 2.16 on the first of its notices come before it looks at TF_CPP_MIN_LOG_LEVEL.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib.abc
import importlib.util
import os
import sys
import tempfile
from collections.abc import Iterator


class QuietImport(importlib.abc.MetaPathFinder):
    """Imports one package with the process's stderr shut. If the import fails, what it wrote is shown after all.

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
    with contextlib.ExitStack() as stack:
        try:
            stderr, aside = os.dup(2), stack.enter_context(tempfile.TemporaryFile())
        except OSError:  # there is no stderr, or no room
            yield
            return
        stack.callback(os.close, stderr)
        if not faulthandler.is_enabled():
            # An import that ends the process, as on a processor without the instructions, at least says where.
            faulthandler.enable(stderr)
            stack.callback(faulthandler.disable)
        os.dup2(aside.fileno(), 2)
        try:
            yield
        except BaseException:
            aside.seek(0)
            os.write(stderr, aside.read())
            raise
        finally:
            os.dup2(stderr, 2)
