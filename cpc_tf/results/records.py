"""What a record of a result must hold to be shown."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from cpc_tf.encoders.identity import Identity


def is_number(value: Any) -> bool:
    """Whether it is a finite number, and none beyond all use."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -1e30 < value < 1e30  # NaN: false


def _is_identity(value: Any) -> bool:
    if not isinstance(value, dict) or "trained_by" not in value:
        return False
    known = dataclasses.asdict(Identity.from_json(value))
    numbers = [known.pop("seed"), known.pop("parameters")]
    return all(isinstance(x, str) for x in known.values()) and all(x is None or is_number(x) for x in numbers)


# The kinds of values that the tasks' required and optional fields name.
CHECKS = {
    "a text": lambda value: isinstance(value, str),
    "a number": is_number,
    "a positive number": lambda value: is_number(value) and value > 0,
    "an integer": lambda value: is_number(value) and isinstance(value, int),
    "a positive integer": lambda value: is_number(value) and isinstance(value, int) and value > 0,
    "a fraction from 0 to 1": lambda value: is_number(value) and 0 <= value <= 1,
    "a list of texts": lambda value: isinstance(value, list) and all(isinstance(x, str) for x in value),
    "a list of records": lambda value: isinstance(value, list) and all(isinstance(x, dict) for x in value),
    "records by name": lambda value: isinstance(value, dict) and all(isinstance(x, dict) for x in value.values()),
    "an identity": _is_identity,
}
# Fields that any record may have; those of one task stand in its TASK.
OPTIONAL = {
    **dict.fromkeys(("features", "backbone", "rung", "policy", "run"), "a text"),
    **dict.fromkeys(("steps", "wall_seconds"), "a number"),
    **dict.fromkeys(("num_classes", "num_train_labels"), "a positive integer"),
    **{"label_fraction": "a positive number", "seed": "an integer"},
    **{"class_names": "a list of texts", "identity": "an identity"},
}


def fault(record: Any, tasks: Mapping[str, Any]) -> str:
    """Why a record cannot be shown, or ''.

    Args:
      record: the content of a result.json.
      tasks: kind of result -> its Task.
    """
    if not isinstance(record, dict):
        return "not a record of names and values"
    kind = record.get("kind")
    if not isinstance(kind, str) or kind not in tasks:
        return f"kind {kind!r} is not known here (known: {', '.join(tasks)})"
    required = {"dataset": "a text", "encoder": "a text", **tasks[kind].required}
    for name, wanted in {**OPTIONAL, **tasks[kind].optional, **required}.items():
        if (name in record or name in required) and not CHECKS[wanted](record.get(name)):
            text = "missing" if record.get(name) is None else repr(record[name])
            return f"{name} is {text if len(text) <= 40 else text[:37] + '...'}, not {wanted}"
    return ""
