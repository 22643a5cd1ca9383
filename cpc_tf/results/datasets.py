"""Names of datasets that are unique on one page."""

from __future__ import annotations

import os
from collections.abc import Iterable

# Datasets on which our figures and the paper's can be compared directly.
IMAGENET = ("imagenet2012", "imagenet")
PATHS = ("folder", "voc")  # --dataset=KIND:PATH


def dataset_name(dataset: str) -> str:
    """Returns a short name: 'photos' for 'photos/15200', the last component of a folder, others unchanged."""
    kind, _, path = dataset.partition(":")
    if kind in PATHS:
        return path.rstrip("/").split("/")[-1] or dataset
    return "photos" if dataset.startswith("photos/") else dataset


def dataset_id(dataset: str) -> str:
    """Returns a unique name: a folder's whole path; 'photos' for all 'photos/N', which have the same labels."""
    kind, _, path = dataset.partition(":")
    if kind not in PATHS or not path:
        return dataset_name(dataset)
    return f"{kind}:{path.rstrip('/') if '://' in path else os.path.realpath(os.path.expanduser(path))}"


def titles(datasets: Iterable[str]) -> dict[str, str]:
    """Returns {--dataset: unique name}, with as many components of a folder's path as needed.

    '/birds/images' and '/cars/images' become 'birds/images' and 'cars/images'; alone, each is 'images'.
    """
    ids = {dataset: dataset_id(dataset) for dataset in datasets}
    names = {each: _names(each) for each in ids.values()}

    def shortest(own: str) -> str:
        others = {name for other, known in names.items() if other != own for name in known}
        return next((name for name in names[own] if name not in others), names[own][-1])

    return {dataset: shortest(own) for dataset, own in ids.items()}


def _names(identifier: str) -> list[str]:
    """Returns possible names of a dataset, the shortest first."""
    kind, _, path = identifier.partition(":")
    if kind not in PATHS or not path:
        return [identifier]
    parts = path.strip("/").split("/")
    ends = ["/".join(parts[-length:]) for length in range(1, len(parts) + 1)]
    return [*ends, path, *(f"{kind}:{end}" for end in ends), identifier]


def of_several(datasets: Iterable[str]) -> set[str]:
    """Returns the names (see `dataset_name`) that more than one of these datasets has."""
    names = [dataset_name(each) for each in {dataset_id(dataset) for dataset in datasets}]
    return {name for name in names if names.count(name) > 1}
