"""The presets that the report names: which one measures what is missing, and how long it trains."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable

from cpc_tf import cli
from cpc_tf.results.blocks import Gap
from cpc_tf.results.datasets import PATHS, dataset_name

FLAGS = pathlib.Path(__file__).parents[2] / "flags"
# Folder in flags/ -> the datasets that its presets are made for: of TFDS and embedded ones what stands before '/' or
# ':', of 'folder:PATH' and 'voc:PATH' the last part of the path behind the kind.
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
LARGER = "-128px"  # ending of a study's name of a dataset whose presets' names end likewise
UNKNOWN = "how long they should be is not known here: the presets, flags/, are not installed"


def installed() -> bool:
    """Whether the presets are there: after `pip install` they are not."""
    return any(FLAGS.glob("*/*.flags"))


def own_preset(dataset: str, *names: str) -> str:
    """The first of the presets of these names that is made for a dataset, e.g. 'flags/photos/linear.flags'; else ''."""
    kind, _, path = dataset.partition(":")
    if kind in PATHS and path:
        made_for, ending = f"{kind}:{dataset_name(dataset)}", ""
    else:
        made_for, ending = kind.split("/")[0].removesuffix(LARGER), "_128px" if kind.endswith(LARGER) else ""
    folders = [folder for folder, datasets in MADE_FOR.items() if made_for in datasets]
    paths = [f"flags/{folder}/{name}{ending}.flags" for folder in folders for name in names]
    return next((path for path in paths if (FLAGS.parent / path).exists()), "")


def gap(what: str, preset: str, dataset: str, flag: str = "") -> Gap:
    """What is missing on a dataset; a preset, if there is one, measures it with a flag."""
    flags = " ".join(filter(None, [f"--dataset={dataset}" if ":" in dataset else "", flag]))
    return Gap(f"Not measured: {what}.", f"{preset} with {flags}" if preset and flags else preset)


def shorter(config_class: type, preset: str, steps: int, images: int) -> str:
    """'10 steps, the preset trains 625' of a run on so many images that is shorter than by a preset, else ''.

    Without any presets, that it cannot be told.
    """
    if not installed():
        return UNKNOWN
    full = cli.parse(config_class, _lines(preset)).training.steps(images) if preset and images else 0
    return f"{steps:,} steps, the preset trains {full:,}" if 0 < steps < full else ""


def in_short_runs(short: Iterable[str], sentence: str) -> str:
    """A sentence about runs that begins with how short (see `shorter`) some of them are."""
    lengths = "; ".join(dict.fromkeys(filter(None, short)))
    runs = "runs" if lengths == UNKNOWN else "short runs"
    return f"In {runs} ({lengths}): {sentence[0].lower()}{sentence[1:]}" if lengths else sentence


def _lines(preset: str) -> list[str]:
    """The flags of a preset and of those that it builds upon, wherever the process runs."""
    lines = [line for line in (FLAGS.parent / preset).read_text().splitlines() if line.startswith("--")]
    nested = "--flagfile="
    return [f for line in lines for f in (_lines(line[len(nested) :]) if line.startswith(nested) else [line])]
