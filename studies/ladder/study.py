"""From CPC v1 to v2: linear top-1 of the rungs of Fig. 3 on the embedded photographs, pre-trained
equally long.

    python -m studies ladder

Each encoder has two classifiers: one that learned with the augmentation of the encoder, as in
appendix B, and one that learned without. A run takes a few minutes on a core.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from studies import runner, tables

PRESETS = pathlib.Path(__file__).parents[2] / "flags" / "ablation"
SEEDS = 3
OURS = "small_patches"  # the rung that Fig. 3 does not have
# How the classifier learned -> its preset.
CLASSIFIERS = {"augmented": "flags/ablation/linear.flags", "plain": "flags/photos/linear.flags"}


def runs(places: runner.Places) -> list[runner.Run]:
    """All rungs with both classifiers and the first seed, then with the others."""
    found = []
    for seed in range(SEEDS):
        for classifier, linear in CLASSIFIERS.items():
            for preset in sorted(PRESETS.glob("pretrain_*.flags")):
                name = preset.stem[len("pretrain_") :]  # 1_v1, 2_mc, ...
                rung = name.partition("_")[2]
                rung = rung if rung in ("v1", OURS) else rung.upper()
                folder = f"{places.work}/ladder/{seed}/{name}"
                steps = runner.pretrained(
                    folder, f"flags/ablation/{preset.name}", [f"--seed={seed}"]
                )
                steps.append(runner.linear(folder, [f"--flagfile={linear}"], classifier))
                found.append(
                    runner.Run({"rung": rung, "classifier": classifier, "seed": seed}, steps)
                )
    return found


def top1(record: dict) -> float:
    """Top-1 on what the encoder saw: one channel at a time, if the classifier was tested so,
    too.
    """
    return record.get("by_channel", record)["top1"]


def table(records: Sequence[dict]) -> str:
    """Top-1 of each rung."""
    return tables.table(
        [{**record, "top1": top1(record)} for record in records], ["rung"], "classifier"
    )
