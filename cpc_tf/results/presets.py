"""Compares the length of runs with the preset that is made for their dataset."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable

from cpc_tf import cli
from cpc_tf.results.runs import PATHS, dataset_name

FLAGS = pathlib.Path(__file__).parents[2] / "flags"
# Folder in flags/ -> the datasets that its presets are made for: of TFDS and embedded ones the text before '/' or ':',
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
UNKNOWN = "length unknown, since the presets (flags/) are not installed"


def own_preset(dataset: str, *names: str) -> str:
    """Returns the first preset of these names made for a dataset, e.g. 'flags/photos/linear.flags', or ''."""
    kind, _, path = dataset.partition(":")
    if kind in PATHS and path:
        made_for, ending = f"{kind}:{dataset_name(dataset)}", ""
    else:
        made_for, ending = kind.split("/")[0].removesuffix(LARGER), "_128px" if kind.endswith(LARGER) else ""
    folders = [folder for folder, datasets in MADE_FOR.items() if made_for in datasets]
    paths = [f"flags/{folder}/{name}{ending}.flags" for folder in folders for name in names]
    return next((path for path in paths if (FLAGS.parent / path).exists()), "")


def shorter(config_class: type, preset: str, steps: int, images: int) -> str:
    """Returns "10 of the preset's 625 steps" if a run on so many images is shorter than the preset's, else ''.

    Returns UNKNOWN if no presets are there, as after `pip install`.
    """
    if not any(FLAGS.glob("*/*.flags")):
        return UNKNOWN
    full = cli.parse(config_class, _lines(preset)).training.steps(images) if preset and images else 0
    return f"{steps:,} of the preset's {full:,} steps" if 0 < steps < full else ""


def remark(short: Iterable[str], *others: str) -> str:
    """Returns a remark on runs: how short they are (see `shorter`), and others; without empty texts."""
    lengths = [text if text == UNKNOWN else f"short run ({text})" for text in short if text]
    return "; ".join(dict.fromkeys([*lengths, *filter(None, others)]))


def _lines(preset: str) -> list[str]:
    """Returns the flags of a preset and of those that it includes, whatever the working directory is."""
    lines = [line for line in (FLAGS.parent / preset).read_text().splitlines() if line.startswith("--")]
    nested = "--flagfile="
    return [f for line in lines for f in (_lines(line[len(nested) :]) if line.startswith(nested) else [line])]
