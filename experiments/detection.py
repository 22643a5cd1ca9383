"""Detectors on three encoders: pre-trained without labels, trained on labels, and new; as the paper's table of VOC.

    python -m experiments.detection --dataset=collages --work=runs/labels
    python -m experiments.detection --dataset=bccd-voc --boxes=../shared/data/bccd-voc \
      --pictures=../shared/data/imagenette-224 --work=runs/labels
    python -m experiments.detection --dataset=collages-128px --pictures=... --encoder=network:modules/imagenette_128px

Encoders come from the pictures of `photos` (collages) or of imagenette-224 (the others), and, but for 128 px, from the
runs of experiments.labels if these stand in the same --work. With --encoder a seed is that of the detector, no more,
and one encoder trained on labels is compared. What makes that one different can be told by two more, untrained copies
of the module that learn from all labels: its norm on whole images, and on patches. 'CPC, adapted' is the module whose
pre-training goes on, without labels, on the crops of `photos` or the images of bccd-voc to train on. Writes
experiments/results/detection_DATASET.json and prints its table. Five minutes a run and core beside the encoders, at
128 px a quarter to half an hour.
"""

from __future__ import annotations

import os
import sys
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
# Trained on labels with CPC's network and norm -> on what: whole images, or its patch grid.
WITH_ITS_NORM = {"supervised, layer norm": "feature_map", "supervised, patches": "latents"}
# How long encoders learn from all labels at 128 px.
LABEL_STEPS = 12_000
ADAPTED = "CPC, adapted"
# Its preset.
ADAPTING = {"collages-128px": "photos/pretrain_128px", "bccd-voc-128px": "bccd/pretrain_128px"}


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
    images = [f"--dataset=voc:{boxes}"] if boxes else []
    if encoder == "CPC":
        given = module or f"{folder}/hub"
        before = [] if module else study.pretrained(folder, *labels.pretraining(source, pictures, trained))
    elif encoder == "supervised":
        steps = LABEL_STEPS if source == "imagenette-128px" else 0
        learning = labels.classified(source, pictures, folder, "pixels", 1.0, trained, steps=steps)
        given, export = _exported(os.path.dirname(learning[-1][1]), f"{folder}/hub_labels", module)
        before = [*learning, export]
    elif encoder == ADAPTED:
        adapted, begun = f"{work}/{dataset}/adapted", f"--initial_encoder={module.removeprefix('network:')}"
        before = study.pretrained(adapted, f"flags/{ADAPTING[dataset]}.flags", [*images, begun])
        given = f"network:{adapted}/hub"
    elif encoder in WITH_ITS_NORM:
        endpoint = WITH_ITS_NORM[encoder]
        given, export = _exported(f"{folder}/labels_{endpoint}", f"{folder}/hub_labels_{endpoint}", module)
        before = [_from_labels(pictures, folder, endpoint, module), export]
    workdir = f"{work}/{dataset}/{seed}/{''.join(c if c.isalnum() else '_' for c in encoder.lower())}"
    command = [
        "cpc_tf.detect",
        f"--flagfile=flags/{preset}.flags",
        *images,
        f"--encoder={given}",
        f"--seed={seed}",
        f"--workdir={workdir}",
    ]
    fields = {"dataset": dataset, "features": encoder, "seed": seed}
    return study.Run(fields, [*before, (command, f"{workdir}/result.json")])


def _exported(run: str, hub: str, module: str) -> tuple[str, tuple[study.Command, str]]:
    """The --encoder of a run on labels, in the same form as the module's, and the step that exports it."""
    export = (["export", f"--workdir={run}", f"--output={hub}"], f"{hub}/encoder.json")
    return f"network:{hub}" if module.startswith("network:") else hub, export


def _from_labels(pictures: str, folder: str, endpoint: str, module: str) -> tuple[study.Command, str]:
    """The step that trains an untrained copy of the module on all labels."""
    run = f"{folder}/labels_{endpoint}"
    command = [
        "cpc_tf.efficient",
        "--flagfile=flags/imagenette/efficient_128px.flags",
        f"--dataset=folder:{pictures}",
        f"--encoder=random:{module.removeprefix('network:')}",
        f"--endpoint={endpoint}",
        "--label_fraction=1",
        "--held_out=0",
        *("--head_blocks=0", "--dropout=0.2", "--batch_size=32"),  # the baseline's
        *("--cached_views=0", "--train_steps=1", f"--finetune_steps={LABEL_STEPS}"),  # nothing is frozen
        f"--workdir={run}",
    ]
    return command, f"{run}/result.json"


def main(_) -> None:
    """Runs what is missing; prints the table."""
    given = flags.FLAGS
    fitting = given.encoder and SETTINGS[given.dataset][0] == "imagenette-128px"
    if set(given.features) & WITH_ITS_NORM.keys() and not fitting:
        sys.exit(f"--features={' and '.join(WITH_ITS_NORM)}: copies of --encoder, for the datasets at 128 px")
    if ADAPTED in given.features and given.dataset not in ADAPTING:
        sys.exit(f"--features={ADAPTED}: has presets for --dataset={' and '.join(ADAPTING)}, not {given.dataset}")
    if ADAPTED in given.features and not given.encoder:
        sys.exit(f"--features={ADAPTED}: goes on with the module of --encoder, which is empty")
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
    choices = [*ENCODERS, *WITH_ITS_NORM, ADAPTED]
    flags.DEFINE_multi_enum("features", [*ENCODERS], choices, "encoders to compare")
    flags.DEFINE_integer("cores", 0, "runs at a time; 0: as many as there are cores")
    flags.DEFINE_integer("seeds", 3, "how many seeds: of the encoder and of the detector")
    app.run(main)
