"""Which recipe of CPC gives the best features on a tenth of the release's budget, at equal
core-seconds?

    python -m studies recipe --cores=1

One thing is changed at a time. A trial with a dearer step has fewer of them. Tested on held-out
training images, so that the validation images stay unseen; the winner is trained in full by
studies/release.
"""

from __future__ import annotations

from collections.abc import Sequence

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
# What is changed -> flags after the preset. The first line is the recipe of the release.
TRIALS = {
    "nothing": [],
    "rate 0.004": ["--learning_rate=0.004"],
    "rate 0.001": ["--learning_rate=0.001"],
    "batch 64": ["--batch_size=64"],
    "milder augmentation": ["--augment=small_patches"],
    "average 0.9999": ["--average_decay=0.9999"],
    "batch 16": ["--batch_size=16"],
}


def runs(places: runner.Places) -> list[runner.Run]:
    """A pre-training for each trial, exported and read off on held-out images."""
    found = []
    for trial, flags in TRIALS.items():
        folder = f"{places.work}/recipe/{trial.replace(' ', '_')}"
        more = [f"--dataset=folder:{places.pictures}", f"--train_epochs={EPOCHS}", *flags]
        made = runner.pretrained(folder, PRESET, more)
        result = f"{folder}/read_off.json"
        read_off = [
            "studies.read_off",
            f"--module={folder}/hub",
            f"--pictures={places.pictures}",
            "--whole=true",
            "--test=held_out",
            f"--output={result}",
        ]
        found.append(runner.Run({"changed": trial, "epochs": EPOCHS}, [*made, (read_off, result)]))
    return found


def table(records: Sequence[dict]) -> str:
    """A line for each trial, top-1 in percent."""
    rows = []
    for record in records:
        figures = [f"{100 * record[reading]:.1f}" for reading in READINGS]
        rows.append([record["changed"], *figures])
    return markdown_table(["changed", *READINGS.values()], rows)
