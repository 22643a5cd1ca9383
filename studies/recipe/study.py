"""Which recipe of CPC gives the best features on a tenth of the release's budget, at equal
core-seconds?

    python -m studies recipe --cores=1

One thing is changed at a time. A trial with a dearer step has fewer of them: `python -m
studies.recipe.cost` measures what an image costs. Tested on held-out training images, so that the
validation images stay unseen; the winner is trained in full by studies/release.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cpc_tf.core.texts import markdown_table
from studies import runner

PRESET = "flags/imagenette/release.flags"
EPOCHS = 17  # a tenth of the release's
READINGS = {
    "knn": "20 neighbours",
    "0.01": "linear, 1 %",
    "0.1": "linear, 10 %",
    "1": "linear, 100 %",
}
DENSE_GRID = "--patch_stride=16 --steps_to_ignore=2 --steps_to_predict=3 --context_blocks=4"
LARGE_PATCHES = "--resize=180 --image_size=160 --patch_size=40 --patch_stride=30"


class Trial(NamedTuple):
    """What is changed.

    Attributes:
      flags: after the preset.
      cost: CPU seconds of an image, divided by those of the release's recipe.
      share: of the core-seconds of the other trials.
    """

    flags: str = ""
    cost: float = 1.0
    share: float = 1.0

    @property
    def epochs(self) -> float:
        """How long it is trained."""
        return round(EPOCHS * self.share / self.cost, 1)


# In the order of their importance. The first line is the recipe of the release.
TRIALS = {
    "nothing": Trial(),
    "rate 0.004": Trial("--learning_rate=0.004"),
    "batch of 64": Trial("--batch_size=64", cost=0.86),
    "milder augmentation": Trial("--augment=small_patches", cost=0.82),
    "narrower, 512 latents": Trial("--encoder=base_512", cost=0.9),
    "twice as deep": Trial("--encoder=base_deep", cost=1.29),
    "patches of 40 px of 160": Trial(LARGE_PATCHES, cost=1.8),
    "patches overlap by half, 7x7": Trial(DENSE_GRID, cost=1.96),
    "constant rate": Trial("--schedule=constant"),
    "average 0.9999": Trial("--average_decay=0.9999"),
    "half as long": Trial(share=0.5),
}


def training(places: runner.Places, trial: Trial) -> list[str]:
    """Returns the module and the flags of a trial's training, without length and directory."""
    data = f"--dataset=folder:{places.pictures}"
    return ["cpc_tf.pretrain", f"--flagfile={PRESET}", data, *trial.flags.split()]


def runs(places: runner.Places) -> list[runner.Run]:
    """A pre-training for each trial, exported and read off on held-out images."""
    found = []
    for name, trial in TRIALS.items():
        folder = f"{places.work}/recipe/{name.replace(' ', '_').replace(',', '')}"
        length = [f"--dataset=folder:{places.pictures}", f"--train_epochs={trial.epochs:g}"]
        made = runner.pretrained(folder, PRESET, [*length, *trial.flags.split()])
        result = f"{folder}/read_off.json"
        read_off = [
            "studies.read_off",
            f"--module={folder}/hub",
            f"--pictures={places.pictures}",
            "--whole=true",
            "--test=held_out",
            f"--output={result}",
        ]
        fields = {"changed": name, "epochs": trial.epochs}
        found.append(runner.Run(fields, [*made, (read_off, result)]))
    return found


def table(records: Sequence[dict]) -> str:
    """A line for each trial, top-1 in percent."""
    rows = []
    for record in records:
        figures = [f"{100 * record[reading]:.1f}" for reading in READINGS]
        rows.append([record["changed"], f"{record['epochs']:g}", *figures])
    return markdown_table(["changed", "epochs", *READINGS.values()], rows)
