"""Label propagation: what pictures without labels add to the loss of a classifier that is trained as a whole.

A method is a module with VIEW, METRICS and `loss`; --propagation names it.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from cpc_tf.efficient.propagation.config import NONE, PropagationConfig


def method(config: PropagationConfig) -> ModuleType | None:
    """Returns the method of --propagation; None: there is none."""
    return None if config.propagation == NONE else importlib.import_module(f"{__name__}.{config.propagation}")
