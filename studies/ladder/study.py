"""From CPC v1 to v2: linear top-1 of the rungs of Fig. 3, pre-trained equally long.

    python -m studies ladder --only=dataset=imagenette-224

On imagenette-224 at 64 px by the paper's protocol: no norm before LN, and a classifier that learns
with the augmentation of the encoder (appendix B). Beside the rungs stands an untrained copy of the
last one. On `photos`, the embedded photographs, as it was measured first: batch norm before LN, and
a classifier that learns without augmentation.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import NamedTuple

from cpc_tf.core.texts import markdown_table
from studies import runner
from studies.tables import spread

FLAGS = pathlib.Path(__file__).parents[2] / "flags"
SEEDS = 3
OURS = "small_patches"  # the rung that Fig. 3 does not have
UNTRAINED = "untrained"  # an untrained copy of its encoder
RUNGS = ("v1", "MC", "BU", "LN", "RC", "HP", "LP", "PA", OURS)


class Ladder(NamedTuple):
    """The ladder on a dataset: the folder of its presets in flags/, the preset of its classifier,
    and how the classifier learned.
    """

    presets: str
    linear: str
    classifier: str


LADDERS = {
    "imagenette-224": Ladder("imagenette_ladder", "imagenette_ladder/linear", "augmented"),
    "photos": Ladder("ablation", "photos/linear", "plain"),
}


def runs(places: runner.Places) -> list[runner.Run]:
    """The ladder on imagenette-224, then that on `photos`: all rungs with the first seed, then with
    the others. First of each seed come the ends between which the rungs lie.
    """
    of_imagenette = [UNTRAINED, OURS, "v1", *RUNGS[1:-1]]
    return [
        _run(places, dataset, rung, seed)
        for dataset, rungs in (("imagenette-224", of_imagenette), ("photos", RUNGS))
        for seed in range(SEEDS)
        for rung in rungs
    ]


def _run(places: runner.Places, dataset: str, rung: str, seed: int) -> runner.Run:
    """A rung's encoder and the classifier on it."""
    presets, linear, classifier = LADDERS[dataset]
    trained = OURS if rung == UNTRAINED else rung
    name = f"{RUNGS.index(trained) + 1}_{trained.lower()}"  # 1_v1, 2_mc, ...
    folder = f"{places.work}/ladder/{dataset}/{seed}/{name}"
    images = [] if dataset == "photos" else [f"--dataset=folder:{places.pictures}"]

    pretraining = f"flags/{presets}/pretrain_{name}.flags"
    steps = runner.pretrained(folder, pretraining, [*images, f"--seed={seed}"])

    learned = [f"--flagfile=flags/{linear}.flags", *images]
    if dataset != "photos":  # there all classifiers have the seed 0
        learned.append(f"--seed={seed}")
    if rung == UNTRAINED:
        steps.append(runner.linear(folder, learned, UNTRAINED, kind="random:"))
    else:
        steps.append(runner.linear(folder, learned, classifier))

    fields = {"dataset": dataset, "rung": rung, "classifier": classifier, "seed": seed}
    return runner.Run(fields, steps)


def top1(record: dict) -> float:
    """Top-1 on what the encoder saw: one channel at a time, if the classifier was tested so,
    too.
    """
    return record.get("by_channel", record)["top1"]


def table(records: Sequence[dict]) -> str:
    """Top-1 of each rung of each ladder; in colour beside it, where the encoder saw one channel."""
    rows = []
    for rung in (UNTRAINED, *RUNGS):
        row = [rung]
        for dataset in LADDERS:
            own = [r for r in records if (r["dataset"], r["rung"]) == (dataset, rung)]
            in_colour = [record["top1"] for record in own if "by_channel" in record]
            row += [spread(map(top1, own)), spread(in_colour)]
        rows.append(row)
    columns = [title for dataset in LADDERS for title in (f"`{dataset}`", "in colour")]
    return markdown_table(["top-1, %", *columns], rows)
