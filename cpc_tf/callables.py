"""Packages that can be called: `cpc_tf.pretrain` is run by `python -m`, imported from, and called as a function."""

from __future__ import annotations

import importlib
import sys
import types


class _Callable(types.ModuleType):
    @property
    def __wrapped__(self):
        """The function, which help and signatures are taken from."""
        module, name = self.__dict__["__function__"]
        return getattr(importlib.import_module(module), name)

    def __call__(self, *arguments, **settings):
        return self.__wrapped__(*arguments, **settings)


def callable_package(package: str, module: str) -> None:
    """Makes a package that is being imported callable, as the function of its own name in a module.

    Args:
      package: such as 'cpc_tf.pretrain'.
      module: such as 'cpc_tf.api.runs'; imported at the first call.
    """
    found = sys.modules[package]
    found.__function__ = (module, package.rpartition(".")[2])
    found.__class__ = _Callable
