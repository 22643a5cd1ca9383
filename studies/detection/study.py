"""Detectors on encoders pre-trained without labels, trained on labels, and new; as the paper's table of VOC.

    python -m studies detection --only=dataset=collages
    python -m studies detection --only=dataset=collages-128px,features=CPC

Encoders learn from the images of `photos` (for collages) or of imagenette-224 (the others). At half the size they are
those of studies/label_curve. At 128 px a seed is that of the detector alone, and one encoder trained on labels is
compared. 'supervised, layer norm' and 'supervised, patches' are untrained copies of the module that learn from all
labels, on whole images and on patches. 'CPC, adapted' is the module after more pre-training, without labels, on the
crops of `photos` or the images of bccd-voc. Beside the encoders a run takes five minutes on a core, at 128 px a quarter
to half an hour.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from studies import runner, tables
from studies.label_curve import study as label_curve

# Dataset of boxes -> what encoders are trained on, and the preset.
SETTINGS = {
    "collages": ("photos", "collages/detect"),
    "bccd-voc": ("imagenette-224", "bccd/detect"),
    "collages-128px": ("imagenette-128px", "collages/detect_128px"),
    "bccd-voc-128px": ("imagenette-128px", "bccd/detect_128px"),
}
ENCODERS = ("CPC", "supervised", "random")
# Trained on labels with CPC's network and norm -> the endpoint that is classified.
WITH_ITS_NORM = {"supervised, layer norm": "feature_map", "supervised, patches": "latents"}
ADAPTED = "CPC, adapted"
ADAPTING = {"collages-128px": "photos/pretrain_128px", "bccd-voc-128px": "bccd/pretrain_128px"}  # its preset
LABEL_STEPS = 12_000  # that encoders learn from all labels at 128 px


def runs(places: runner.Places) -> list[runner.Run]:
    """All encoders of a dataset with the first seed, then with the others."""
    seeds = {"collages": 3, "bccd-voc": 1, "collages-128px": 3, "bccd-voc-128px": 3}
    more = {"collages-128px": [ADAPTED, *WITH_ITS_NORM], "bccd-voc-128px": [ADAPTED]}
    return [
        _run(places, dataset, encoder, seed)
        for dataset in SETTINGS
        for seed in range(seeds[dataset])
        for encoder in [*ENCODERS, *more.get(dataset, [])]
    ]


def _run(places: runner.Places, dataset: str, encoder: str, seed: int) -> runner.Run:
    source, preset = SETTINGS[dataset]
    large = dataset.endswith("-128px")
    own = 0 if large else seed  # seed of the encoder
    folder = f"{places.work}/label_curve/{source}/{own}"
    workdir = f"{places.work}/detection/{dataset}/{seed}/{''.join(c if c.isalnum() else '_' for c in encoder.lower())}"
    images = [f"--dataset=voc:{places.boxes}"] if dataset.startswith("bccd") else []
    given, before = "random", []
    if encoder == "CPC" and large:
        given = runner.MODULE
    elif encoder == "CPC":
        given = f"graph:{folder}/hub"
        before = runner.pretrained(folder, *label_curve.pretraining(source, places.pictures, own))
    elif encoder == ADAPTED:
        adapted = f"{places.work}/detection/{dataset}/adapted"
        more = [*images, f"--initial_encoder={runner.MODULE}"]
        given, before = f"{adapted}/hub", runner.pretrained(adapted, f"flags/{ADAPTING[dataset]}.flags", more)
    elif encoder != "random":
        if endpoint := WITH_ITS_NORM.get(encoder):
            learning, hub = [_from_labels(places.pictures, folder, endpoint)], f"{folder}/hub_labels_{endpoint}"
        else:
            steps = LABEL_STEPS if large else 0
            learning = label_curve.classified(source, places.pictures, folder, "pixels", 1.0, own, steps)
            hub = f"{folder}/hub_labels"
        export = ["export", f"--workdir={os.path.dirname(learning[-1][1])}", f"--output={hub}"]
        given, before = hub if large else f"graph:{hub}", [*learning, (export, f"{hub}/encoder.json")]
    more = [f"--flagfile=flags/{preset}.flags", *images, f"--encoder={given}", f"--seed={seed}"]
    last = (["cpc_tf.detect", *more, f"--workdir={workdir}"], f"{workdir}/result.json")
    return runner.Run({"dataset": dataset, "features": encoder, "seed": seed}, [*before, last])


def _from_labels(pictures: str, folder: str, endpoint: str) -> tuple[runner.Command, str]:
    """The step that trains an untrained copy of the module on all labels."""
    workdir = f"{folder}/labels_{endpoint}"
    command = [
        "cpc_tf.efficient",
        "--flagfile=flags/imagenette/efficient_128px.flags",
        f"--dataset=folder:{pictures}",
        f"--encoder=random:{runner.MODULE}",
        f"--endpoint={endpoint}",
        "--label_fraction=1",
        "--held_out=0",
        *("--head_blocks=0", "--dropout=0.2", "--batch_size=32"),  # the baseline's
        *("--cached_views=0", "--train_steps=1", f"--finetune_steps={LABEL_STEPS}"),  # nothing is frozen
        f"--workdir={workdir}",
    ]
    return command, f"{workdir}/result.json"


def table(records: Sequence[dict]) -> str:
    """Mean average precision, over 11 points and over all."""
    return "\n\n".join(tables.table(records, ["features"], "dataset", metric) for metric in ("map11", "map_all"))
