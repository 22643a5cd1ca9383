"""Detectors on encoders pre-trained without labels, trained on labels, and new; as the paper's
table of VOC.

    python -m studies detection --only=dataset=collages
    python -m studies detection --only=dataset=collages-128px --only=features=CPC

Encoders learn from the images of `photos` (for collages) or of imagenette-224 (the others). At half
the size they are those of studies/label_curve. At 128 px a seed is that of the detector alone, and
one encoder trained on labels is compared. 'CPC, adapted' is the module after more pre-training,
without labels, on the crops of `photos` or the images of bccd-voc. 'CPC, two phases' trains the
detector for half of the same epochs on the frozen encoder, then both; that is done twice, since the
length of the second phase is chosen on held-out images first. Beside the encoders a run takes five
minutes on a core, at 128 px a quarter to half an hour, with two phases twice that.
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
ADAPTED = "CPC, adapted"
# its preset
ADAPTING = {
    "collages-128px": "photos/pretrain_128px",
    "bccd-voc-128px": "bccd/pretrain_128px",
}
TWO_PHASES = "CPC, two phases"
# half of the preset's
FROZEN_EPOCHS = {
    "collages": 3,
    "bccd-voc": 5,
    "collages-128px": 9,
    "bccd-voc-128px": 10,
}
LABEL_STEPS = 12_000  # that encoders learn from all labels at 128 px


def runs(places: runner.Places) -> list[runner.Run]:
    """All encoders of a dataset with the first seed, then with the others; then what two phases
    need beside these.
    """
    found = []
    for dataset in SETTINGS:
        encoders = [*ENCODERS, ADAPTED] if dataset in ADAPTING else ENCODERS
        seeds = range(1 if dataset == "bccd-voc" else 3)
        found += [(dataset, encoder, seed) for seed in seeds for encoder in encoders]
    found += [
        (dataset, encoder, seed)
        for dataset in SETTINGS
        for seed in range(3)
        for encoder in ("CPC", TWO_PHASES)
    ]
    return [_run(places, *each) for each in dict.fromkeys(found)]


def _run(places: runner.Places, dataset: str, encoder: str, seed: int) -> runner.Run:
    source, preset = SETTINGS[dataset]
    large = dataset.endswith("-128px")
    own = 0 if large else seed  # seed of the encoder
    folder = f"{places.work}/label_curve/{source}/{own}"
    named = "".join(c if c.isalnum() else "_" for c in encoder.lower())
    workdir = f"{places.work}/detection/{dataset}/{seed}/{named}"
    images = [f"--dataset=voc:{places.boxes}"] if dataset.startswith("bccd") else []
    given = "random"
    before = []
    if encoder in ("CPC", TWO_PHASES) and large:
        given = runner.MODULE
    elif encoder in ("CPC", TWO_PHASES):
        given = f"graph:{folder}/hub"
        before = runner.pretrained(folder, *label_curve.pretraining(source, places.pictures, own))
    elif encoder == ADAPTED:
        adapted = f"{places.work}/detection/{dataset}/adapted"
        more = [*images, f"--initial_encoder={runner.MODULE}"]
        given = f"{adapted}/hub"
        before = runner.pretrained(adapted, f"flags/{ADAPTING[dataset]}.flags", more)
    elif encoder == "supervised":
        steps = LABEL_STEPS if large else 0
        learning = label_curve.classified(
            source, places.pictures, folder, "pixels", 1.0, own, steps
        )
        hub = f"{folder}/hub_labels"
        export = ["export", f"--workdir={os.path.dirname(learning[-1][1])}", f"--output={hub}"]
        given = hub if large else f"graph:{hub}"
        before = [*learning, (export, f"{hub}/encoder.json")]
    more = [f"--flagfile=flags/{preset}.flags", *images, f"--encoder={given}", f"--seed={seed}"]
    more += [f"--frozen_epochs={FROZEN_EPOCHS[dataset]}"] if encoder == TWO_PHASES else []
    last = (["cpc_tf.detect", *more, f"--workdir={workdir}"], f"{workdir}/result.json")
    return runner.Run({"dataset": dataset, "features": encoder, "seed": seed}, [*before, last])


def table(records: Sequence[dict]) -> str:
    """Mean average precision, over 11 points and over all."""
    return "\n\n".join(
        tables.table(records, ["features"], "dataset", metric) for metric in ("map11", "map_all")
    )
