"""The presets that the report names: which one measures what is missing, and how long it trains."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Mapping

from cpc_tf import cli
from cpc_tf.results.blocks import Gap
from cpc_tf.results.methods import dataset_name

FLAGS = pathlib.Path(__file__).parents[2] / "flags"


def own_preset(dataset: str, *names: str) -> str:
    """The first of the presets of these names that is made for a dataset, e.g. 'flags/photos/linear.flags'; else ''."""
    folders = [folder.name for folder in FLAGS.glob("*") if dataset_name(dataset).startswith(folder.name)]
    paths = [f"flags/{max(folders, key=len)}/{name}.flags" for name in names] if folders else []
    return next((path for path in paths if (FLAGS.parent / path).exists()), "")


def gaps(dataset: str, names: Iterable[str], missing: Mapping[str, str]) -> list[Gap]:
    """A gap for each thing that is missing (-> flag beside the preset's), with the preset that measures it, if any."""
    preset, own = own_preset(dataset, *names), f"--dataset={dataset}" if ":" in dataset else ""
    flags = {what: " ".join(filter(None, [own, flag])) for what, flag in missing.items()}
    how = {what: f"{preset} with {flag}" if flag else preset for what, flag in flags.items()}
    return [Gap(f"Not measured: {what}.", how[what] if preset else "") for what in missing]


def full_steps(config_class: type, preset: str, images: int) -> int:
    """How long a run on so many images is by a preset; 0 if there is none."""
    return cli.parse(config_class, _lines(preset)).training.steps(images) if preset and images else 0


def in_short_runs(lengths: Iterable[tuple[int, int]], sentence: str) -> str:
    """A sentence about runs that begins with their lengths (steps, steps by the preset or 0) if some are short."""
    short = {f"{steps:,} steps, the preset trains {full:,}": None for steps, full in lengths if 0 < steps < full}
    return f"In short runs ({'; '.join(short)}): {sentence[0].lower()}{sentence[1:]}" if short else sentence


def _lines(preset: str) -> list[str]:
    """The flags of a preset and of those that it builds upon, wherever the process runs."""
    lines = [line for line in (FLAGS.parent / preset).read_text().splitlines() if line.startswith("--")]
    nested = "--flagfile="
    return [f for line in lines for f in (_lines(line[len(nested) :]) if line.startswith(nested) else [line])]
