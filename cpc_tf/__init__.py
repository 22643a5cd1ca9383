"""CPC v2 in TensorFlow: Henaff et al., "Data-Efficient Image Recognition with CPC", ICML 2020.

`load_encoder`, `pretrain`, `classify`, `predict` and `embed` are the functions for Python; docs/python.md shows them.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

__version__ = "0.1.0"
WINDOWS = "cpc_tf runs on Linux and macOS; on Windows use it inside WSL 2, as docs/install.md says"

# Name -> its module, which is imported at the first use: it imports TensorFlow. A package is its own function.
# __init__.pyi has the same names for type checkers.
_EXPORTED = {
    "ConfigError": "cpc_tf.settings",
    "Encoder": "cpc_tf.api.encoder",
    "classify": "cpc_tf.api.runs",
    "load_encoder": "cpc_tf.api.encoder",
    "Model": "cpc_tf.api.model",
    "RunEnded": "cpc_tf.settings",
    "embed": "cpc_tf",
    "predict": "cpc_tf",
    "pretrain": "cpc_tf",
}
__all__ = [*_EXPORTED]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTED:
        raise AttributeError(f"module 'cpc_tf' has no attribute '{name}'")
    if sys.platform == "win32":
        raise ImportError(WINDOWS)
    if _EXPORTED[name] == __name__:
        return importlib.import_module(f"cpc_tf.{name}")
    return getattr(importlib.import_module(_EXPORTED[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTED})
