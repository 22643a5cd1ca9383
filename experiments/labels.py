"""Accuracy against labels: CPC and the supervised baseline at each fraction, the paper's Fig. 1 and tables 2 and 3.

    python -m experiments.labels --dataset=photos --work=runs/labels
    python -m experiments.labels --dataset=imagenette-224 --pictures=../shared/data/imagenette-224 --work=runs/labels
    python -m experiments.labels --dataset=imagenette-128px --pictures=... --encoder=network:modules/imagenette_128px
    python -m experiments.labels --dataset=photos-128px --fractions=0.01 --fractions=0.02 --features=pixels

Writes experiments/results/labels_DATASET.json and prints its table. One and a half to two and a half hours on two
cores for the first two, estimated from their runs. With --encoder a seed is that of labels and classifier, no more.
"""

from __future__ import annotations

from collections.abc import Sequence

from absl import app, flags

from experiments import study

FEATURES = ("CPC", "pixels")
CURVE = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
FRACTIONS = {"photos": CURVE, "photos-128px": CURVE, "imagenette-224": (0.01, 0.1, 1.0), "imagenette-128px": CURVE}
# Dataset -> the ending of its presets' names in flags/.
ENDING = {"photos-128px": "_128px", "imagenette-128px": "_128px"}
# Dataset -> from which parts of the labels on the baseline needs other steps than its preset has, and how many.
LONGER = {
    "photos": {0.1: 3000},
    "photos-128px": {0.1: 3000},
    "imagenette-224": {1.0: 6000},
    "imagenette-128px": {0.01: 6000, 0.05: 12_000, 0.2: 24_000},
}


def preset(dataset: str) -> str:
    """The folder of its presets in flags/."""
    return dataset.partition("-")[0]


def pretraining(dataset: str, pictures: str, seed: int) -> tuple[str, list[str]]:
    """The preset of its pre-training, and the flags beside it."""
    name = f"pretrain{ENDING.get(dataset, '')}"
    return f"flags/{preset(dataset)}/{name}.flags", [*_data(dataset, pictures), f"--seed={seed}"]


def _data(dataset: str, pictures: str) -> list[str]:
    return [] if preset(dataset) == "photos" else [f"--dataset=folder:{pictures}"]


def otherwise(dataset: str, features: str, fraction: float) -> list[str]:
    """What differs from the presets.

    The baseline trains longer with more labels. At 128 px trials with 1 and 10 % of the labels, on held-out images, say
    how (experiments.choices); 2 % follows 1 %, and from 20 % on its 24,000 steps are what the validation images were
    seen to favour (docs/gain.md). On imagenette-224 nothing is held out to select on, for time: encoders are fine-tuned
    as long as trials with other labels said (docs/few_labels.md).
    """
    if features == "pixels":
        steps = [f"--train_steps={steps}" for least, steps in LONGER[dataset].items() if fraction >= least]
        few = dataset == "imagenette-128px" and fraction < 0.05
        return [*steps[-1:], *(["--augment=full"] if few else [])]
    if preset(dataset) == "photos":
        return []
    if fraction < 0.05:
        return ["--held_out=0", "--finetune_steps=500"]
    large = dataset == "imagenette-128px"  # a view's map takes 256 KB, and memory as much again
    if fraction < 0.5:
        augment = ["--augment=full"] if large and fraction >= 0.1 else []
        return ["--held_out=0", *(["--cached_views=8"] if large else []), *augment]
    return ["--held_out=0", f"--cached_views={2 if large else 4}", "--train_steps=6000"]


def classified(
    dataset: str,
    pictures: str,
    folder: str,
    encoder: str,
    fraction: float,
    seed: int,
    module: str = "",
    steps: int = 0,
) -> list[tuple[study.Command, str]]:
    """The steps that classify in FOLDER/ENCODER_FRACTION; 'CPC' is a module, or pre-trained in FOLDER first.

    `steps`: of training, in place of this study's, in a folder of their own.
    """
    workdir = f"{folder}/{encoder.lower()}_{fraction:g}{f'_{steps}_steps' if steps else ''}"
    name = f"efficient{'_pixels' if encoder == 'pixels' else ''}{ENDING.get(dataset, '')}"
    command = [
        "cpc_tf.efficient",
        f"--flagfile=flags/{preset(dataset)}/{name}.flags",
        *_data(dataset, pictures),
        f"--encoder={'pixels' if encoder == 'pixels' else module or f'{folder}/hub'}",
        f"--label_fraction={fraction:g}",
        f"--seed={seed}",
        *otherwise(dataset, encoder, fraction),
        *([f"--train_steps={steps}"] if steps else []),
        f"--workdir={workdir}",
    ]
    pretrains = encoder == "CPC" and not module
    before = study.pretrained(folder, *pretraining(dataset, pictures, seed)) if pretrains else []
    return [*before, (command, f"{workdir}/result.json")]


def runs(
    dataset: str,
    pictures: str,
    work: str,
    seeds: int,
    module: str = "",
    fractions: Sequence[float] = (),
    features: Sequence[str] = FEATURES,
) -> list[study.Run]:
    """Each fraction and seed with each of the features, fewer labels first."""

    def run(fraction: float, seed: int, encoder: str) -> study.Run:
        fields = {"dataset": dataset, "label_fraction": fraction, "seed": seed, "features": encoder}
        folder = f"{work}/{dataset}/{seed}"
        return study.Run(fields, classified(dataset, pictures, folder, encoder, fraction, seed, module))

    # Seeds innermost: runs beside each other then pre-train different encoders.
    parts = fractions or FRACTIONS[dataset]
    return [run(f, s, encoder) for f in parts for encoder in features for s in range(seeds)]


def main(_) -> None:
    """Runs what is missing; prints the table."""
    values = flags.FLAGS
    where = (values.pictures, values.work)
    todo = runs(values.dataset, *where, values.seeds, values.encoder, values.fractions, values.features)
    print(study.table(study.carry_out(f"labels_{values.dataset}", todo, values.cores), "features", "label_fraction"))


if __name__ == "__main__":
    flags.DEFINE_string("work", "runs/labels", "folder of the runs")
    flags.DEFINE_enum("dataset", "photos", [*FRACTIONS], "which one")
    flags.DEFINE_string("pictures", "", "folder of imagenette-224")
    flags.DEFINE_string("encoder", "", "a module for all seeds; empty: each seed pre-trains one")
    flags.DEFINE_multi_float("fractions", [], "a part of the labels, may be repeated; none: all of the study", 0, 1)
    flags.DEFINE_multi_enum("features", [*FEATURES], [*FEATURES], "which to compare")
    flags.DEFINE_integer("cores", 0, "runs at a time; 0: as many as there are cores")
    flags.DEFINE_integer("seeds", 3, "how many seeds: of the pre-training and of the labels")
    app.run(main)
