"""Settings for studies/label_curve at 128 px, chosen on held-out training images: one changed at a
time.

    python -m studies.thirds ../shared/data/imagenette-224 runs/thirds
    python -m studies choices --only=labels=0.1 --only=features=pixels

The encoder has as many trials as the baseline, which then tries other networks. There are as many
labels as studies/label_curve has for the same fraction, of a seed that it does not use.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cpc_tf.core.texts import markdown_table
from studies import runner
from studies.tables import spread

DATASET = "imagenette-224, a third held out"
SEED = 100
KEPT = 2 / 3  # of the training images have labels here, the others are tested on
SIDES = {"CPC": "efficient_128px", "pixels": "efficient_pixels_128px"}  # preset
SHORT = "--finetune_steps=500"
NAMES = {"base_deep": "a deeper", "base_wide": "a wider"}
VIEWS = "--cached_views=8"  # maps of 16 would take 4 GB
# Fraction of the labels -> (features, what is changed, flags after the preset), the presets first,
# both sides in turn.
CHOICES = {
    0.01: [
        ("CPC", "500 steps of fine-tuning", [SHORT]),
        ("pixels", "3,000 steps", []),
        ("CPC", "the paper's Adam", [SHORT, "--encoder_adam=paper"]),
        ("pixels", "6,000 steps", ["--train_steps=6000"]),
        ("CPC", "1,500 steps of fine-tuning", ["--finetune_steps=1500"]),
        ("pixels", "the paper's augmentation", ["--augment=full"]),
        ("CPC", "latents of the patch grid", [SHORT, "--endpoint=latents"]),
        ("pixels", "dropout 0.5", ["--dropout=0.5"]),
        ("CPC", "no blocks in the classifier", [SHORT, "--head_blocks=0"]),
        ("pixels", "crops of 60 % or more", ["--crop_area=0.6"]),
        ("CPC", "the paper's augmentation", [SHORT, "--augment=full"]),
        ("pixels", "rate 0.02", ["--learning_rate=0.02"]),
        # Two changes together.
        (
            "CPC",
            "the paper's augmentation, its Adam",
            [SHORT, "--augment=full", "--encoder_adam=paper"],
        ),
        (
            "pixels",
            "6,000 steps, the paper's augmentation",
            ["--train_steps=6000", "--augment=full"],
        ),
    ],
    0.1: [
        ("CPC", "1,500 steps of fine-tuning", [VIEWS]),
        ("pixels", "6,000 steps", ["--train_steps=6000"]),
        ("CPC", "the paper's Adam", [VIEWS, "--encoder_adam=paper"]),
        ("pixels", "12,000 steps", ["--train_steps=12000"]),
        ("CPC", "latents of the patch grid", [VIEWS, "--endpoint=latents"]),
        ("pixels", "the paper's augmentation", ["--train_steps=6000", "--augment=full"]),
        ("CPC", "the paper's augmentation", [VIEWS, "--augment=full"]),
        ("pixels", "dropout 0.5", ["--train_steps=6000", "--dropout=0.5"]),
    ],
}


# The paper compares the best network of each class, so the baseline may have another one than the
# encoder has. These have the steps and the augmentation that the trials above chose.
NETWORKS = {
    part: [
        ("pixels", f"{what} network ({name})", [*flags, f"--backbone={name}"])
        for name, what in NAMES.items()
    ]
    for part, flags in {
        0.01: ["--train_steps=6000", "--augment=full"],
        0.1: ["--train_steps=12000"],
    }.items()
}


def runs(places: runner.Places) -> list[runner.Run]:
    """The trials, fewer labels first."""
    return [
        _run(places.work, part, *choice)
        for part in CHOICES
        for choice in (*CHOICES[part], *NETWORKS[part])
    ]


def _run(work: str, part: float, side: str, choice: str, more: list[str]) -> runner.Run:
    name = "".join(c if c.isalnum() else "_" for c in choice)
    workdir = f"{work}/choices/{side.lower()}_{part:g}/{name}"
    command = [
        "cpc_tf.efficient",
        f"--flagfile=flags/imagenette/{SIDES[side]}.flags",
        f"--dataset=folder:{work}/thirds",
        f"--encoder={runner.MODULE if side == 'CPC' else 'pixels'}",
        f"--label_fraction={math.ceil(1000 * part / KEPT) / 1000:g}",
        f"--seed={SEED}",
        *(["--held_out=0"] if side == "CPC" else []),
        *more,
        f"--workdir={workdir}",
    ]
    fields = {"dataset": DATASET, "labels": part, "features": side, "choice": choice, "seed": SEED}
    return runner.Run(fields, [(command, f"{workdir}/result.json")])


def table(records: Sequence[dict]) -> str:
    """A line for each trial, grouped by labels and side: top-1 in percent of each phase."""
    rows = []
    for record in sorted(records, key=lambda record: (record["labels"], record["features"])):
        frozen = spread(
            record["phases"][name]["top1"] for name in ("frozen",) if name in record["phases"]
        )
        side = "CPC" if record["features"] == "CPC" else "baseline"
        trial = f"{side}, {100 * record['labels']:g} %"
        rows.append([trial, record["choice"], frozen, spread([record["top1"]])])
    return markdown_table(["top-1, %", "changed", "frozen", "fine-tuned or supervised"], rows)
