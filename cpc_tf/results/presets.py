"""The presets that the report names: which one measures what is missing, and how long it trains."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable

from cpc_tf import cli
from cpc_tf.results.blocks import Gap
from cpc_tf.results.methods import dataset_name

FLAGS = pathlib.Path(__file__).parents[2] / "flags"


def own_preset(dataset: str, *names: str) -> str:
    """The first of the presets of these names that is made for a dataset, e.g. 'flags/photos/linear.flags'; else ''."""
    folders = [folder.name for folder in FLAGS.glob("*") if dataset_name(dataset).startswith(folder.name)]
    paths = [f"flags/{max(folders, key=len)}/{name}.flags" for name in names] if folders else []
    return next((path for path in paths if (FLAGS.parent / path).exists()), "")


def gap(what: str, preset: str, dataset: str, flag: str = "") -> Gap:
    """What is missing on a dataset; a preset, if there is one, measures it with a flag."""
    flags = " ".join(filter(None, [f"--dataset={dataset}" if ":" in dataset else "", flag]))
    return Gap(f"Not measured: {what}.", f"{preset} with {flags}" if preset and flags else preset)


def shorter(config_class: type, preset: str, steps: int, images: int) -> str:
    """'10 steps, the preset trains 625' of a run on so many images that is shorter than by a preset, else ''."""
    full = cli.parse(config_class, _lines(preset)).training.steps(images) if preset and images else 0
    return f"{steps:,} steps, the preset trains {full:,}" if 0 < steps < full else ""


def in_short_runs(short: Iterable[str], sentence: str) -> str:
    """A sentence about runs that begins with how short (see `shorter`) some of them are."""
    lengths = "; ".join(dict.fromkeys(filter(None, short)))
    return f"In short runs ({lengths}): {sentence[0].lower()}{sentence[1:]}" if lengths else sentence


def _lines(preset: str) -> list[str]:
    """The flags of a preset and of those that it builds upon, wherever the process runs."""
    lines = [line for line in (FLAGS.parent / preset).read_text().splitlines() if line.startswith("--")]
    nested = "--flagfile="
    return [f for line in lines for f in (_lines(line[len(nested) :]) if line.startswith(nested) else [line])]
