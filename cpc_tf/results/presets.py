"""The presets that the report names: which one measures what is missing, and how long it trains."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable
from typing import Any

from cpc_tf import cli
from cpc_tf.results.methods import dataset_name

FLAGS = pathlib.Path(__file__).parents[2] / "flags"
GENERAL = ("imagenette", "bccd")
"""The folders whose presets the README gives for own pictures, and for own boxes."""


def own_preset(dataset: str, *names: str) -> str:
    """The first of the presets of these names that is made for a dataset, e.g. 'flags/photos/linear.flags'; else ''."""
    folders = [folder.name for folder in FLAGS.glob("*") if dataset_name(dataset).startswith(folder.name)]
    return _first(max(folders, key=len), names) if folders else ""


def how(dataset: str, *names: str, flag: str = "") -> str:
    """The preset to measure something with, and the flags that differ from it.

    Args:
      dataset: the value of --dataset.
      *names: of presets, the first that exists is taken.
      flag: what differs beside --dataset.
    """
    own = own_preset(dataset, *names)
    preset = own or next(filter(None, (_first(folder, names) for folder in GENERAL)))
    differ = [f"--dataset={dataset}"] * (not own or preset.startswith("flags/imagenette/")) + [flag] * bool(flag)
    return f"{preset}{' with ' if differ else ''}{' '.join(differ)}"


def settings(config_class: type, preset: str) -> Any:
    """The settings that a preset holds, wherever the process runs."""
    return cli.parse(config_class, _lines(preset))


def in_short_runs(lengths: Iterable[tuple[int, int]]) -> str:
    """How a sentence about runs begins if some are shorter than their preset's.

    Args:
      lengths: (steps of a run, steps of the preset, 0 if unknown).
    """
    short = [f"{steps:,} steps, the preset trains {full:,}" for steps, full in lengths if 0 < steps < full]
    return f"In short runs ({'; '.join(dict.fromkeys(short))}): " if short else ""


def _first(folder: str, names: tuple[str, ...]) -> str:
    return next((f"flags/{folder}/{name}.flags" for name in names if (FLAGS / folder / f"{name}.flags").exists()), "")


def _lines(preset: str) -> list[str]:
    """The lines of a preset and of those that it builds upon."""
    nested = "--flagfile="
    lines = (FLAGS.parent / preset).read_text().splitlines()
    return [
        inner
        for line in lines
        for inner in (_lines(line[len(nested) :]) if line.startswith(nested) else [line])
        if inner.startswith("--")
    ]
