"""Keeps TensorFlow's start-up notices away; TensorFlow 2.16+ writes them at any TF_CPP_MIN_LOG_LEVEL."""

from __future__ import annotations

import faulthandler
import importlib.abc
import importlib.util
import os
import sys
import tempfile


def hide() -> None:
    """Makes the first import of TensorFlow in this process quiet, whoever does it.

    Notices are shown if TF_CPP_MIN_LOG_LEVEL is set to another level than 3.
    """
    if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") == "3" and "tensorflow" not in sys.modules:
        sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder):
    """Finds TensorFlow once, for a loader that is quiet."""

    def find_spec(self, name, path, target=None):
        if name != "tensorflow":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, loader):
        self._loader = loader

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._loader
        _quietly(lambda: self._loader.exec_module(module))


def _quietly(load) -> None:
    """Calls `load` with stderr put aside.

    If it fails, what was written there is printed. If it aborts, as on a CPU without the needed instructions, a
    traceback is.
    """
    try:
        stderr, notices = os.dup(2), tempfile.TemporaryFile()  # noqa: SIM115 closed below
    except OSError:  # no stderr, or a full disk
        return load()
    traces = not faulthandler.is_enabled()
    if traces:
        faulthandler.enable(stderr)
    os.dup2(notices.fileno(), 2)
    try:
        load()
    except BaseException:
        notices.seek(0)
        os.write(stderr, notices.read())
        raise
    finally:
        os.dup2(stderr, 2)
        if traces:
            faulthandler.disable()
        os.close(stderr)
        notices.close()
