"""Compares the length of runs with the preset that is made for their dataset."""

from __future__ import annotations

from collections.abc import Iterable

from cpc_tf import cli, presets
from cpc_tf.results.runs import PATHS, dataset_name

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


def own_preset(dataset: str, *names: str) -> str:
    """Returns the first preset of these names made for a dataset, e.g. 'photos/linear', or ''."""
    kind, _, path = dataset.partition(":")
    if kind in PATHS and path:
        made_for, ending = f"{kind}:{dataset_name(dataset)}", ""
    else:
        made_for, ending = kind.split("/")[0].removesuffix(LARGER), "_128px" if kind.endswith(LARGER) else ""
    folders = [folder for folder, datasets in MADE_FOR.items() if made_for in datasets]
    wanted = [f"{folder}/{name}{ending}" for folder in folders for name in names]
    return next((name for name in wanted if name in presets.names()), "")


def shorter(config_class: type, preset: str, steps: int, images: int) -> str:
    """Returns "10 of the preset's 625 steps" if a run on so many images is shorter than the preset's, else ''."""
    full = cli.parse(config_class, [f"--preset={preset}"]).training.steps(images) if preset and images else 0
    return f"{steps:,} of the preset's {full:,} steps" if 0 < steps < full else ""


def remark(short: Iterable[str], *others: str) -> str:
    """Returns a remark on runs: how short they are (see `shorter`), and others; without empty texts."""
    lengths = [f"short run ({text})" for text in short if text]
    return "; ".join(dict.fromkeys([*lengths, *filter(None, others)]))
