"""Accuracy against labels: CPC and the supervised baseline at each fraction, the paper's Fig. 1 and tables 2 and 3.

    python -m experiments.labels --dataset=photos --work=runs/labels
    python -m experiments.labels --dataset=imagenette-224 --pictures=../shared/data/imagenette-224 --work=runs/labels
    python -m experiments.labels --dataset=imagenette-128px --pictures=... --encoder=network:modules/imagenette_128px

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
# What differs from the presets: what takes longer to learn than they give it, and on imagenette-224 no selection, for
# time: it is fine-tuned as long as trials with other labels said (docs/few_labels.md).
OTHERWISE = {
    ("imagenette-224", "CPC", 0.01): ["--held_out=0", "--finetune_steps=500"],
    ("imagenette-224", "CPC", 0.1): ["--held_out=0"],
    ("imagenette-224", "CPC", 1.0): ["--held_out=0", "--cached_views=4", "--train_steps=6000"],
    ("imagenette-224", "pixels", 1.0): ["--train_steps=6000"],
    ("photos", "pixels", 0.1): ["--train_steps=3000"],
    ("photos", "pixels", 0.2): ["--train_steps=3000"],
    ("photos", "pixels", 0.5): ["--train_steps=3000"],
    ("photos", "pixels", 1.0): ["--train_steps=3000"],
}
for _fraction in CURVE:
    _like = 0.01 if _fraction < 0.05 else 0.1 if _fraction < 0.5 else 1.0
    for _features in FEATURES:
        OTHERWISE["imagenette-128px", _features, _fraction] = OTHERWISE.get(("imagenette-224", _features, _like), [])
        if _features == "pixels" and _fraction >= 0.1:  # twice the preset's: 4 points better (docs/gain.md)
            OTHERWISE["imagenette-128px", _features, _fraction] = ["--train_steps=6000"]
        OTHERWISE["photos-128px", _features, _fraction] = OTHERWISE.get(("photos", _features, _fraction), [])


def preset(dataset: str) -> str:
    """The folder of its presets in flags/."""
    return dataset.partition("-")[0]


def pretraining(dataset: str, pictures: str, seed: int) -> tuple[str, list[str]]:
    """The preset of its pre-training, and the flags beside it."""
    name = f"pretrain{ENDING.get(dataset, '')}"
    return f"flags/{preset(dataset)}/{name}.flags", [*_data(dataset, pictures), f"--seed={seed}"]


def _data(dataset: str, pictures: str) -> list[str]:
    return [] if preset(dataset) == "photos" else [f"--dataset=folder:{pictures}"]


def classified(
    dataset: str, pictures: str, folder: str, encoder: str, fraction: float, seed: int, module: str = ""
) -> list:
    """The steps that classify in FOLDER/ENCODER_FRACTION; 'CPC' is a module, or pre-trained in FOLDER first."""
    workdir = f"{folder}/{encoder.lower()}_{fraction:g}"
    name = f"efficient{'_pixels' if encoder == 'pixels' else ''}{ENDING.get(dataset, '')}"
    command = [
        "cpc_tf.efficient",
        f"--flagfile=flags/{preset(dataset)}/{name}.flags",
        *_data(dataset, pictures),
        f"--encoder={'pixels' if encoder == 'pixels' else module or f'{folder}/hub'}",
        f"--label_fraction={fraction:g}",
        f"--seed={seed}",
        *OTHERWISE.get((dataset, encoder, fraction), []),
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
    fractions = [float(fraction) for fraction in values.fractions]
    seeds, features = values.seeds, values.features
    todo = runs(values.dataset, values.pictures, values.work, seeds, values.encoder, fractions, features)
    print(study.table(study.carry_out(f"labels_{values.dataset}", todo, values.cores), "features", "label_fraction"))


if __name__ == "__main__":
    flags.DEFINE_string("work", "runs/labels", "folder of the runs")
    flags.DEFINE_enum("dataset", "photos", [*FRACTIONS], "which one")
    flags.DEFINE_string("pictures", "", "folder of imagenette-224")
    flags.DEFINE_string("encoder", "", "a module for all seeds; empty: each seed pre-trains one")
    flags.DEFINE_list("fractions", [], "parts of the labels; empty: all of the study")
    flags.DEFINE_multi_enum("features", [*FEATURES], [*FEATURES], "which to compare")
    flags.DEFINE_integer("cores", 0, "runs at a time; 0: as many as there are cores")
    flags.DEFINE_integer("seeds", 3, "how many seeds: of the pre-training and of the labels")
    app.run(main)
