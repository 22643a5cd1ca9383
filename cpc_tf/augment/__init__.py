"""Patch-based augmentation of appendix A: `draw` a recipe, then `apply` it."""

import importlib
from typing import Any

# Function -> its module, imported at the first use: the settings of this package are read without
# TensorFlow.
_EXPORTED = {
    name: "cpc_tf.augment.recipe"
    for name in ("Recipe", "draw", "idle", "LIBRARY", "apply", "at_test", "grey")
}
__all__ = [*_EXPORTED]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTED:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(importlib.import_module(_EXPORTED[name]), name)
