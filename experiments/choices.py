"""Settings for labels.py at 128 px, chosen on training images held out from all labels: one changed at a time.

    python -m experiments.thirds --pictures=../shared/data/imagenette-224 --output=runs/thirds
    python -m experiments.choices --thirds=runs/thirds --work=runs/choices
    python -m experiments.choices --thirds=runs/thirds --work=runs/choices --fractions=0.1 --features=pixels

As many trials for the encoder as for the baseline. The labels are as many as labels.py has for the same fraction, of a
seed that it does not use. Writes experiments/results/choices.json and prints its table.
"""

from __future__ import annotations

import math
import pathlib
import sys
from collections.abc import Sequence

from absl import app, flags

from experiments import study

DATASET = "imagenette-224, a third held out"
SEED = 100
KEPT = 2 / 3  # of the training images have labels here, the others are tested on
SIDES = {
    "CPC": "flags/imagenette/efficient_128px.flags",
    "pixels": "flags/imagenette/efficient_pixels_128px.flags",
}
VIEWS = "--cached_views=8"  # maps of 16 would take 4 GB
# Fraction of the labels -> (features, what is changed, flags after the preset), the presets first, both sides in turn.
CHOICES = {
    0.01: [
        ("CPC", "500 steps of fine-tuning", ["--finetune_steps=500"]),
        ("pixels", "3,000 steps", []),
        ("CPC", "the paper's Adam", ["--finetune_steps=500", "--encoder_adam=paper"]),
        ("pixels", "6,000 steps", ["--train_steps=6000"]),
        ("CPC", "1,500 steps of fine-tuning", ["--finetune_steps=1500"]),
        ("pixels", "the paper's augmentation", ["--augment=full"]),
        ("CPC", "latents of the patch grid", ["--finetune_steps=500", "--endpoint=latents"]),
        ("pixels", "dropout 0.5", ["--dropout=0.5"]),
        ("CPC", "no blocks in the classifier", ["--finetune_steps=500", "--head_blocks=0"]),
        ("pixels", "crops of 60 % or more", ["--crop_area=0.6"]),
        ("CPC", "the paper's augmentation", ["--finetune_steps=500", "--augment=full"]),
        ("pixels", "rate 0.02", ["--learning_rate=0.02"]),
        # Two that change what the others do not, together.
        (
            "CPC",
            "the paper's augmentation, its Adam",
            ["--finetune_steps=500", "--augment=full", "--encoder_adam=paper"],
        ),
        ("pixels", "6,000 steps, the paper's augmentation", ["--train_steps=6000", "--augment=full"]),
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


def runs(
    thirds: str,
    work: str,
    encoder: str,
    fractions: Sequence[float] = tuple(CHOICES),
    features: Sequence[str] = tuple(SIDES),
) -> list[study.Run]:
    """The trials, fewer labels first."""
    chosen = [(part, *choice) for part in fractions for choice in CHOICES[part] if choice[0] in features]
    return [_run(thirds, work, encoder, *choice) for choice in chosen]


def _run(thirds: str, work: str, encoder: str, part: float, side: str, choice: str, more: list[str]) -> study.Run:
    name = "".join(c if c.isalnum() else "_" for c in choice)
    workdir = f"{work}/{side.lower()}_{part:g}/{name}"
    command = [
        "cpc_tf.efficient",
        f"--flagfile={SIDES[side]}",
        f"--dataset=folder:{thirds}",
        f"--encoder={encoder if side == 'CPC' else 'pixels'}",
        f"--label_fraction={math.ceil(1000 * part / KEPT) / 1000:g}",
        f"--seed={SEED}",
        *(["--held_out=0"] if side == "CPC" else []),
        *more,
        f"--workdir={workdir}",
    ]
    fields = {"dataset": DATASET, "labels": part, "features": side, "choice": choice, "seed": SEED}
    return study.Run(fields, [(command, f"{workdir}/result.json")])


def table(records: Sequence[dict]) -> str:
    """A Markdown table, a line for each trial, top-1 in percent of each phase."""
    lines = ["| labels | features | what is changed | top-1, frozen | fine-tuned or supervised |", "|---" * 5 + "|"]
    for record in records:
        phases = record["phases"]
        frozen = f"{100 * phases['frozen']['top1']:.1f}" if "frozen" in phases else "-"
        parts = f"{100 * record['labels']:g} %", record["features"], record["choice"], frozen
        lines.append(f"| {' | '.join(parts)} | {100 * record['top1']:.1f} |")
    return "\n".join(lines)


def main(_) -> None:
    """Runs what is missing; prints the table."""
    values = flags.FLAGS
    if not pathlib.Path(values.thirds, "val").is_dir():
        sys.exit(f"--thirds={values.thirds}: has no folder 'val'; `python -m experiments.thirds` makes it")
    fractions = [float(part) for part in values.fractions] or list(CHOICES)
    todo = runs(values.thirds, values.work, values.encoder, fractions, values.features)
    print(table(study.carry_out("choices", todo, values.cores)))


if __name__ == "__main__":
    flags.DEFINE_string("work", "runs/choices", "folder of the runs")
    flags.DEFINE_string("thirds", None, "what experiments.thirds made", required=True)
    flags.DEFINE_string("encoder", "network:modules/imagenette_128px", "the module")
    flags.DEFINE_multi_enum("fractions", [], [f"{part:g}" for part in CHOICES], "which labels; none: all")
    flags.DEFINE_multi_enum("features", [*SIDES], [*SIDES], "whose trials")
    flags.DEFINE_integer("cores", 0, "runs at a time; 0: as many as there are cores")
    app.run(main)
