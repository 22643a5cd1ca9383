"""Encoders made by one command, beside the module that comes with the code.

    python -m studies release --only="encoder=700 epochs"
    python -m studies release

One is trained four times as long as the module, two by the module's recipe with a seed each.

What is read off (studies/read_off) is the feature map of whole images. Training images that are
held out from the classifiers decide whether an encoder replaces the module, the validation images
say how good it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from cpc_tf.core.texts import markdown_table
from studies import runner

RELEASE = "flags/imagenette/release.flags"
# encoder -> its preset and seed
ENCODERS = {
    "seed 0": (RELEASE, 0),
    "seed 1": (RELEASE, 1),
    "700 epochs": ("flags/imagenette/release_long.flags", 0),
}
READINGS = {
    "knn": "20 neighbours",
    "0.01": "linear, 1 %",
    "0.1": "linear, 10 %",
    "1": "linear, 100 %",
}


def runs(places: runner.Places) -> list[runner.Run]:
    """The module, then the others, each read off on held-out and on validation images."""
    found = [_read_off("the module", runner.MODULE, f"{places.work}/release/module", [], places)]
    for encoder, (preset, seed) in ENCODERS.items():
        folder = f"{places.work}/release/{encoder.removeprefix('seed ').replace(' ', '_')}"
        more = [f"--dataset=folder:{places.pictures}", f"--seed={seed}"]
        made = runner.pretrained(folder, preset, more)
        found.append(_read_off(encoder, f"{folder}/hub", folder, made, places))
    return [run for pair in found for run in pair]


def _read_off(
    encoder: str,
    module: str,
    folder: str,
    made: Sequence[tuple[runner.Command, str]],
    places: runner.Places,
) -> list[runner.Run]:
    pair = []
    for test in ("held_out", "val"):
        result = f"{folder}/{test}/read_off.json"
        command = [
            "studies.read_off",
            f"--module={module}",
            f"--pictures={places.pictures}",
            "--whole=true",
        ]
        step = [*command, f"--test={test}", f"--output={result}"], result
        pair.append(runner.Run({"encoder": encoder, "tested_on": test}, [*made, step]))
    return pair


def table(records: Sequence[dict]) -> str:
    """A line for each encoder and kind of test images."""
    rows = [
        [
            record["encoder"],
            record["tested_on"],
            *(f"{100 * record[reading]:.1f}" for reading in READINGS),
        ]
        for record in records
    ]
    return markdown_table(["encoder", "tested on", *READINGS.values()], rows)
