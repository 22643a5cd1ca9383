"""What a dataset is called on the page, and how its preset's length compares with that of runs on it."""

from __future__ import annotations

import os
from collections.abc import Iterable

from cpc_tf import cli, presets
from cpc_tf.data.sources import names

PATHS = ("folder", "voc", "coco", "yolo")  # --dataset=KIND:PATH
# Folder of presets -> the datasets that its presets are made for: of TFDS and embedded ones the text before '/' or ':',
# of 'folder:PATH' and 'voc:PATH' the kind and the last component of the path.
MADE_FOR = {
    "imagenet": ("imagenet2012", "imagenet2012_subset", "imagenet"),
    "imagenette": (
        *("imagenette", "imagenette-224", "folder:imagenette-224", "folder:imagenette2"),
        *("folder:imagenette2-160", "folder:imagenette2-320"),
    ),
    "photos": ("photos",),
    "collages": ("collages",),
    "voc": ("voc", "voc:VOC2007", "voc:VOC2012"),
    "bccd": ("bccd-voc", "voc:bccd-voc", "voc:BCCD"),
}
LARGER = "-128px"  # ends a study's name of a dataset whose presets' names end likewise


def dataset_name(dataset: str) -> str:
    """Returns a short name: 'photos' for 'photos/15200', that of a folder (see `of_folder`), others unchanged."""
    kind, _, path = dataset.partition(":")
    if kind in PATHS:
        return names.of_folder(path) or dataset
    return "photos" if dataset.startswith("photos/") else dataset


def dataset_id(dataset: str) -> str:
    """Returns a unique name: a folder's whole path; 'photos' for all 'photos/N', which have the same labels."""
    kind, _, path = dataset.partition(":")
    if kind not in PATHS or not path:
        return dataset_name(dataset)
    return f"{kind}:{path.rstrip('/') if '://' in path else os.path.realpath(os.path.expanduser(path))}"


def dataset_titles(datasets: Iterable[str]) -> dict[str, str]:
    """Returns {--dataset: unique name}: the short name, or the unique one if several have the short one."""
    ids = {dataset: dataset_id(dataset) for dataset in datasets}
    short = [dataset_name(each) for each in {*ids.values()}]
    return {d: dataset_name(each) if short.count(dataset_name(each)) == 1 else each for d, each in ids.items()}


def own_preset(dataset: str, *tasks: str) -> str:
    """Returns the first preset of these names made for a dataset, e.g. 'photos/linear', or ''."""
    kind, _, path = dataset.partition(":")
    if kind in PATHS and path:
        made_for, ending = f"{kind}:{dataset_name(dataset)}", ""
    else:
        made_for, ending = kind.split("/")[0].removesuffix(LARGER), "_128px" if kind.endswith(LARGER) else ""
    folders = [folder for folder, datasets in MADE_FOR.items() if made_for in datasets]
    wanted = [f"{folder}/{task}{ending}" for folder in folders for task in tasks]
    return next((name for name in wanted if name in presets.names()), "")


def shorter(config_class: type, preset: str, steps: int, images: int) -> str:
    """Returns "short run (10 of the preset's 625 steps)" if a run on so many images is one, else ''."""
    full = cli.parse(config_class, [f"--preset={preset}"]).training.steps(images) if preset and images else 0
    return f"short run ({steps:,} of the preset's {full:,} steps)" if 0 < steps < full else ""


def remark(*texts: str) -> str:
    """Returns the texts as one, each once, without empty ones."""
    return "; ".join(dict.fromkeys(filter(None, texts)))
