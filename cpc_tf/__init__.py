"""CPC v2 in TensorFlow: Henaff et al., "Data-Efficient Image Recognition with CPC", ICML 2020.

`load_encoder`, `pretrain`, `classify`, `train_classifier`, `predict` and `embed` are the functions
for Python; docs/python.md shows them.
"""

from __future__ import annotations

import importlib
import os
import platform
import sys
from typing import Any

__version__ = "0.1.0"
WINDOWS = "cpc_tf runs on Linux and macOS; on Windows use it inside WSL 2, as docs/install.md says"

# Name -> its module, which is imported at the first use: it imports TensorFlow.
# __init__.pyi has the same names for type checkers.
_EXPORTED = {
    "ConfigError": "cpc_tf.core.settings",
    "Encoder": "cpc_tf.encoders.features",
    "classify": "cpc_tf.use.api",
    "load_encoder": "cpc_tf.encoders.side_by_side",
    "Model": "cpc_tf.use.model",
    "RunEnded": "cpc_tf.core.settings",
    "embed": "cpc_tf.use.api",
    "predict": "cpc_tf.use.api",
    "pretrain": "cpc_tf.use.api",
    "train_classifier": "cpc_tf.use.api",
}
__all__ = [*_EXPORTED]


def prepare_environment() -> None:
    """Sets TensorFlow's environment variables where the user has not, before it looks at its
    devices.
    """
    # Without the notices of oneDNN, CUDA and TensorRT, which look like errors. What fails raises an
    # error.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # GPUs: memory is taken as it is needed, so that several processes can share one.
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    # oneDNN's convolutions on every x86 processor: TensorFlow takes them only where there is
    # AVX-512; its own are slower.
    if platform.machine() in ("x86_64", "AMD64"):
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")


def __getattr__(name: str) -> Any:
    if name not in _EXPORTED:
        raise AttributeError(f"module 'cpc_tf' has no attribute '{name}'")
    if sys.platform == "win32":
        raise ImportError(WINDOWS)
    prepare_environment()
    return getattr(importlib.import_module(_EXPORTED[name]), name)


# Two packages have the names of functions. Python sets a package on its parent at its first import,
# and never again: they are imported now, empty as they are, and from here on `cpc_tf.classify` is
# the function, while `from cpc_tf.classify.run import ...` finds the package.
for _name in ("classify", "pretrain"):
    importlib.import_module(f"cpc_tf.{_name}")
    del globals()[_name]


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTED})
