"""What datasets are called: names that tell those of one page apart."""

from __future__ import annotations

import os
from collections.abc import Iterable

# Datasets on which our figures and the paper's can be compared directly.
IMAGENET = ("imagenet2012", "imagenet")
PATHS = ("folder", "voc")  # --dataset=KIND:PATH


def dataset_name(dataset: str) -> str:
    """What a --dataset is called: 'photos' for 'photos/15200', a folder by its last part; 'voc/2007' as it is."""
    kind, _, path = dataset.partition(":")
    if kind in PATHS:
        return path.rstrip("/").split("/")[-1] or dataset
    return "photos" if dataset.startswith("photos/") else dataset


def dataset_id(dataset: str) -> str:
    """What tells a --dataset from all others: of a folder its whole path; all of 'photos/N' have the same labels."""
    kind, _, path = dataset.partition(":")
    if kind not in PATHS or not path:
        return dataset_name(dataset)
    return f"{kind}:{path.rstrip('/') if '://' in path else os.path.realpath(os.path.expanduser(path))}"


def titles(datasets: Iterable[str]) -> dict[str, str]:
    """{--dataset: name} such that different datasets have different names: of folders as much of the path as it takes.

    '/birds/images' and '/cars/images' are 'birds/images' and 'cars/images'; alone, each is 'images'.
    """
    ids = {dataset: dataset_id(dataset) for dataset in datasets}
    names = {each: _names(each) for each in ids.values()}

    def shortest(own: str) -> str:
        others = {name for other, known in names.items() if other != own for name in known}
        return next((name for name in names[own] if name not in others), names[own][-1])

    return {dataset: shortest(own) for dataset, own in ids.items()}


def _names(identifier: str) -> list[str]:
    """What a dataset can be called, the shortest first."""
    kind, _, path = identifier.partition(":")
    if kind not in PATHS or not path:
        return [identifier]
    parts = path.strip("/").split("/")
    ends = ["/".join(parts[-length:]) for length in range(1, len(parts) + 1)]
    return [*ends, path, *(f"{kind}:{end}" for end in ends), identifier]


def of_several(datasets: Iterable[str]) -> set[str]:
    """The names (see `dataset_name`) that more than one of these datasets have."""
    names = [dataset_name(each) for each in {dataset_id(dataset) for dataset in datasets}]
    return {name for name in names if names.count(name) > 1}
