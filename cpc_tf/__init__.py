"""CPC v2 in TensorFlow: Henaff et al., "Data-Efficient Image Recognition with CPC", ICML 2020.

`load_encoder`, `pretrain`, `classify`, `predict` and `embed` are the functions for Python; docs/python.md shows them.
"""

from __future__ import annotations

import importlib
import os
import platform
import sys
from typing import Any

from cpc_tf import termination


def _is_program() -> bool:
    """Returns whether this process is `cpc-tf`, `python -m cpc_tf.COMMAND` or `python -m export`."""
    if sys.argv[:1] == ["-m"]:  # while Python looks for the module
        words = getattr(sys, "orig_argv", [])  # Python 3.9 has none
        after = words[words.index("-m") + 1 :] if "-m" in words else []
        return after[:1] != [] and after[0].partition(".")[0] in (__name__, "export")
    return bool(sys.argv) and os.path.basename(sys.argv[0]).split(".")[0] == "cpc-tf"


if sys.platform == "win32":
    refusal = "cpc_tf runs on Linux and macOS; on Windows use it inside WSL 2, as docs/install.md says"
    if _is_program():
        print(f"error: {refusal}", file=sys.stderr)
        sys.exit(2)
    raise ImportError(refusal)
if _is_program():
    termination.watch()  # a signal ends it from here on, also during the imports that follow

__version__ = "0.1.0"

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
    if _EXPORTED[name] == __name__:
        return importlib.import_module(f"cpc_tf.{name}")
    return getattr(importlib.import_module(_EXPORTED[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTED})


# GPUs: memory is taken as it is needed, so that several processes can share one. Processes that we start inherit it.
os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
# oneDNN's convolutions on every x86 processor: TensorFlow takes them only where there is AVX-512; its own are slower.
if platform.machine() in ("x86_64", "AMD64"):
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
from cpc_tf import notices  # noqa: E402 a signal is heeded before

notices.hide()
