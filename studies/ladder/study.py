"""From CPC v1 to v2: linear top-1 of the eight rungs of Fig. 3 on the embedded photographs, pre-trained equally long.

    python -m studies ladder

A run takes a few minutes on a core.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from studies import runner, tables

PRESETS = pathlib.Path(__file__).parents[2] / "flags" / "ablation"
SEEDS = 3


def runs(places: runner.Places) -> list[runner.Run]:
    """All rungs with the first seed, then with the others."""
    found = []
    for seed in range(SEEDS):
        for preset in sorted(PRESETS.glob("pretrain_*.flags")):
            name = preset.stem[len("pretrain_") :]  # 1_v1, 2_mc, ...
            rung = name.split("_")[1]
            folder = f"{places.work}/ladder/{seed}/{name}"
            steps = runner.pretrained(folder, f"flags/ablation/{preset.name}", [f"--seed={seed}"])
            steps.append(runner.linear(folder, ["--flagfile=flags/photos/linear.flags"]))
            found.append(runner.Run({"rung": rung if rung == "v1" else rung.upper(), "seed": seed}, steps))
    return found


def table(records: Sequence[dict]) -> str:
    """Top-1 of each rung."""
    return tables.table(records, ["rung"], "dataset")
