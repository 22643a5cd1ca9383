"""What a record of a result must hold to be shown."""

from __future__ import annotations

from typing import Any

Number = (int, float)
# Kind -> what a record must have, of which type. 'top1' and the like must be fractions, see fault.
REQUIRED = {
    "pretrain": {"dataset": str, "encoder": str, "step": Number, "loss": Number},
    "linear": {"dataset": str, "encoder": str, "num_classes": int, "top1": Number, "top5": Number},
    "efficient": {
        "dataset": str,
        "encoder": str,
        "num_train_labels": int,
        "label_fraction": Number,
        "top1": Number,
        "top5": Number,
    },
    "detect": {"dataset": str, "encoder": str},
}
FRACTIONS = ("top1", "top5", "map11", "map_all", "knn")
POSITIVE = ("num_train_labels", "label_fraction", "num_classes")
OPTIONAL = {
    "backbone": str,
    "rung": str,
    "policy": str,
    "features": str,
    "class_names": list,
    "phases": dict,
    "search": list,
    "commands": list,
    "seed": int,
    "parameters": Number,
    "images": Number,
    "wall_seconds": Number,
    "images_per_second": Number,
    "feature_std": Number,
    "effective_rank": Number,
    "gradient_norm": Number,
    "accuracy": Number,
    "bound": Number,
    "steps": Number,
    "machine": str,
    "date": str,
}


def fault(record: Any) -> str:
    """Why a record is none of ours, or ''."""
    if not isinstance(record, dict):
        return "not a record of names and values"
    kind = record.get("kind")
    if not isinstance(kind, str) or kind not in REQUIRED:
        return f"kind {kind!r} is not known here (known: {', '.join(REQUIRED)})"
    if kind == "detect" and not {"map11", "map_all"} & set(record):
        return "a detection with neither map11 nor map_all"
    for name, wanted in [*REQUIRED[kind].items(), *OPTIONAL.items()]:
        value = record.get(name)
        if name not in record and name not in REQUIRED[kind]:
            continue
        good = is_number(value) if wanted is Number else isinstance(value, wanted) and not isinstance(value, bool)
        if not good:
            return f"{name} is {_short(value)}"
    for name in FRACTIONS:
        if name in record and not (is_number(record[name]) and 0 <= record[name] <= 1):
            return f"{name} is {_short(record[name])}, not a fraction from 0 to 1"
    for name in POSITIVE:
        if name in record and not (is_number(record[name]) and record[name] > 0):
            return f"{name} is {_short(record[name])}"
    lists = [*record.get("phases", {}).values(), *record.get("search", [])]
    if not all(isinstance(x, dict) for x in lists):
        return "its phases or its search are not records"
    texts = [*record.get("class_names", []), *record.get("commands", [])]
    return "" if all(isinstance(x, str) for x in texts) else "class_names or commands are not texts"


def _short(value: Any) -> str:
    text = "missing" if value is None else repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def is_number(value: Any) -> bool:
    """Whether it is a finite number, and none beyond all use."""
    return isinstance(value, Number) and not isinstance(value, bool) and -1e30 < value < 1e30  # false for NaN, too
