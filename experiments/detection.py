"""Detectors on three encoders: pre-trained without labels, trained on labels, and new; as the paper's table of VOC.

    python -m experiments.detection --dataset=collages --work=runs/labels
    python -m experiments.detection --dataset=bccd-voc --boxes=../shared/data/bccd-voc \
      --pictures=../shared/data/imagenette-224 --work=runs/labels
    python -m experiments.detection --dataset=collages-128px --pictures=... --encoder=network:modules/imagenette_128px

Encoders come from the pictures of `photos` (collages) or of imagenette-224 (the others), and from the runs of
experiments.labels if these stand in the same --work. With --encoder a seed is that of the detector, no more, and one
encoder trained on labels is compared. Writes experiments/results/detection_DATASET.json and prints its table. Five
minutes a run and core beside the encoders, at 128 px nine (collages) and sixteen.
"""

from __future__ import annotations

from collections.abc import Sequence

from absl import app, flags

from experiments import labels, study

# What is detected -> what encoders are trained on, and the preset.
SETTINGS = {
    "collages": ("photos", "collages/detect"),
    "bccd-voc": ("imagenette-224", "bccd/detect"),
    "collages-128px": ("imagenette-128px", "collages/detect_128px"),
    "bccd-voc-128px": ("imagenette-128px", "bccd/detect_128px"),
}
ENCODERS = ("CPC", "supervised", "random")


def runs(
    dataset: str,
    boxes: str,
    pictures: str,
    work: str,
    seeds: int,
    module: str = "",
    encoders: Sequence[str] = ENCODERS,
) -> list[study.Run]:
    """All encoders with the first seed, then with the others."""
    return [_run(dataset, boxes, pictures, work, e, seed, module) for seed in range(seeds) for e in encoders]


def _run(dataset: str, boxes: str, pictures: str, work: str, encoder: str, seed: int, module: str) -> study.Run:
    source, preset = SETTINGS[dataset]
    trained = 0 if module else seed  # seed of the encoder
    folder = f"{work}/{source}/{trained}"
    given, before = "random", []
    if encoder == "CPC":
        given = module or f"{folder}/hub"
        before = [] if module else study.pretrained(folder, *labels.pretraining(source, pictures, trained))
    elif encoder == "supervised":
        hub, run = f"{folder}/hub_labels", f"{folder}/pixels_1"
        given = f"network:{hub}" if module.startswith("network:") else hub
        export = (["export", f"--workdir={run}", f"--output={hub}"], f"{hub}/encoder.json")
        before = [*labels.classified(source, pictures, folder, "pixels", 1.0, trained), export]
    workdir = f"{work}/{dataset}/{seed}/{encoder.lower()}"
    command = [
        "cpc_tf.detect",
        f"--flagfile=flags/{preset}.flags",
        *([f"--dataset=voc:{boxes}"] if boxes else []),
        f"--encoder={given}",
        f"--seed={seed}",
        f"--workdir={workdir}",
    ]
    fields = {"dataset": dataset, "features": encoder, "seed": seed}
    return study.Run(fields, [*before, (command, f"{workdir}/result.json")])


def main(_) -> None:
    """Runs what is missing; prints the table."""
    given = flags.FLAGS
    where = (given.boxes, given.pictures, given.work)
    todo = runs(given.dataset, *where, given.seeds, given.encoder, given.features)
    records = study.carry_out(f"detection_{given.dataset}", todo, given.cores)
    for metric in ("map11", "map_all"):
        print(study.table(records, "features", "dataset", metric))


if __name__ == "__main__":
    flags.DEFINE_string("work", "runs/labels", "folder of the runs")
    flags.DEFINE_enum("dataset", "collages", list(SETTINGS), "which one")
    flags.DEFINE_string("boxes", "", "folder of bccd-voc")
    flags.DEFINE_string("pictures", "", "folder of imagenette-224")
    flags.DEFINE_string("encoder", "", "a module for all seeds; empty: each seed pre-trains one")
    flags.DEFINE_multi_enum("features", [*ENCODERS], [*ENCODERS], "encoders to compare")
    flags.DEFINE_integer("cores", 0, "runs at a time; 0: as many as there are cores")
    flags.DEFINE_integer("seeds", 3, "how many seeds: of the encoder and of the detector")
    app.run(main)
