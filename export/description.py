"""What a module's JSON file says of the run that it comes from. Names, but no paths of this machine."""

from __future__ import annotations

import os
from importlib import metadata
from typing import Any

import tensorflow as tf

from cpc_tf.training.workdir import read_json


def origin(dataset: str, workdir: str, step: int) -> dict[str, Any]:
    """'dataset', 'run', 'step' and 'versions'."""
    versions = {name: metadata.version(name) for name in ("tensorflow", "tensorflow-hub")}
    dataset = without_folders(dataset) if ":" in dataset else dataset  # others are names, such as voc/2007
    return {"dataset": dataset, "run": without_folders(workdir), "step": step, "versions": versions}


def without_folders(place: str) -> str:
    """The last part of a path, with what stands before a colon: 'folder:birds' of 'folder:/home/me/birds'."""
    kind, colon, path = place.rpartition(":")
    return kind + colon + os.path.basename(path.rstrip("/"))


def result_of(workdir: str) -> dict[str, Any]:
    """The run's result.json; empty if it has not ended."""
    path = os.path.join(workdir, "result.json")
    return read_json(path) if tf.io.gfile.exists(path) else {}
