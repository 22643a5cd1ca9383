"""What limits CPC on small images: one setting changed at a time, at equal time on one core.

    python -m studies causes

Each run trains for MINUTES; the rungs of 'length' take what their epochs take. A rung's epochs
follow from its speed below, not from the clock, so that a run is the same on any machine. What is
read off (studies/read_off) are training images held out from the classifiers.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MultipleLocator

from cpc_tf.core.texts import markdown_table
from cpc_tf.drawing import plots
from studies import runner

MINUTES = 15
SEEDS = 1
IMAGES = 9469  # in the training set of imagenette-224
PRESET = "flags/imagenette/pretrain_128px.flags"
READINGS = {
    "knn": "20 neighbours",
    "0.01": "linear, 1 %",
    "0.1": "linear, 10 %",
    "1": "linear, 100 %",
}


class Rung(NamedTuple):
    """One value of a setting; `speed`: images/s on one core; `length`: epochs, if they do not
    follow from the time.
    """

    cause: str
    name: str
    flags: Sequence[str]
    speed: float
    length: float = 0

    def epochs(self, minutes: float) -> float:
        """How many epochs it trains for."""
        return self.length or round(self.speed * 60 * minutes / IMAGES, 1)


def _geometry(resize: int, image: int, patch: int, stride: int) -> list[str]:
    return [
        f"--resize={resize}",
        f"--image_size={image}",
        f"--patch_size={patch}",
        f"--patch_stride={stride}",
    ]


# Those that may matter most first. Speeds: measured, AMD EPYC, 2026-11-22 (norms: 2026-11-23, by
# ratio to the preset).
REFERENCE = Rung("reference", "the preset", [], 91)
RUNGS = [
    REFERENCE,
    Rung("augmentation", "the paper's", ["--augment=full"], 87),
    Rung("rate", "0.004", ["--learning_rate=0.004"], 91),
    Rung("image / patch", "64 / 16 px", ["--encoder=base_16px", *_geometry(72, 64, 16, 12)], 97),
    Rung("width of the latents", "256", ["--encoder=base_256"], 138),
    Rung("images of negatives", "128", ["--batch_size=128", "--learning_rate=0.004"], 85),
    Rung("encoder", "small, 64 / 16 px", ["--encoder=small", *_geometry(72, 64, 16, 12)], 174),
    Rung(
        "patch grid",
        "7 x 7 by 16 px",
        ["--patch_stride=16", "--steps_to_ignore=2", "--steps_to_predict=3"],
        49,
    ),
    Rung("augmentation", "none", ["--augment=none"], 95),
    Rung("rate", "0.001", ["--learning_rate=0.001"], 91),
    Rung("rate", "0.002, constant", ["--schedule=constant"], 91),
    Rung("context network", "5 blocks of 256", ["--context_blocks=5", "--context_dim=256"], 53),
    Rung("norm", "none", ["--norm=none"], 91),
    Rung("norm", "channel", ["--norm=channel"], 83),
    Rung("images of negatives", "8", ["--batch_size=8", "--learning_rate=0.001"], 85),
    Rung("encoder", "medium, 64 / 16 px", ["--encoder=medium", *_geometry(72, 64, 16, 12)], 29),
    # The speeds of the following two are estimates: measure them before they run: images_per_second
    # of metrics.jsonl.
    Rung("width of the latents", "512", ["--encoder=base_512"], 95),
    Rung("image / patch", "96 / 24 px", ["--encoder=base_24px", *_geometry(108, 96, 24, 18)], 75),
    Rung("length", "10", [], 91, 10),
    Rung("length", "60", [], 91, 60),
    Rung("length", "200", [], 91, 200),
]


def runs(places: runner.Places) -> list[runner.Run]:
    """All rungs, each pre-trained, exported and read off."""
    return [_run(rung, places, seed) for seed in range(SEEDS) for rung in RUNGS]


def _run(rung: Rung, places: runner.Places, seed: int) -> runner.Run:
    names = ("".join(c if c.isalnum() else "_" for c in name) for name in rung[:2])
    folder = "/".join([places.work, "causes", f"{MINUTES}min", *names, str(seed)])
    epochs = rung.epochs(MINUTES)
    result = f"{folder}/read_off.json"
    more = [
        f"--dataset=folder:{places.pictures}",
        *rung.flags,
        "--probe_every=0",
        f"--train_epochs={epochs:g}",
    ]
    command = [
        "studies.read_off",
        f"--module={folder}/hub",
        f"--pictures={places.pictures}",
        f"--output={result}",
    ]
    fields = {
        "cause": rung.cause,
        "rung": rung.name,
        "seed": seed,
        "minutes": float(MINUTES),
        "epochs": epochs,
    }
    steps = runner.pretrained(folder, PRESET, [*more, f"--seed={seed}"])
    return runner.Run(fields, [*steps, (command, result)])


def keep(result: dict, path: str) -> dict:
    """What was read off, and the bound where pre-training ended."""
    trained = json.loads((pathlib.Path(path).parent / "pretrain" / "result.json").read_text())
    return {**result, "bound": trained["bound"]}


def table(records: Sequence[dict]) -> str:
    """A line for each rung; means of the seeds."""
    rows = []
    for cause, name in dict.fromkeys((record["cause"], record["rung"]) for record in records):
        own = [record for record in records if (record["cause"], record["rung"]) == (cause, name)]
        means = [f"{100 * _mean(own, reading):.1f}" for reading in READINGS]
        rows.append([cause, name, f"{own[0]['epochs']:g}", f"{_mean(own, 'bound'):.2f}", *means])
    return markdown_table(["cause", "rung", "epochs", "bound", *READINGS.values()], rows)


def draw(records: Sequence[dict]) -> bytes:
    """Each rung's distance from the reference, in points, a panel for each reading."""
    reference = [record for record in records if record["cause"] == REFERENCE.cause]
    others = list(
        dict.fromkeys((r["cause"], r["rung"]) for r in records if r["cause"] != REFERENCE.cause)
    )[::-1]

    def fill(canvas: Canvas, theme: plots.Theme) -> None:
        panels = canvas.subplots(1, len(READINGS), sharex=True, sharey=True)
        for axis, (reading, title) in zip(panels, READINGS.items()):
            zero = _mean(reference, reading)
            for y, pair in enumerate(others):
                gains = [
                    100 * (r[reading] - zero) for r in records if (r["cause"], r["rung"]) == pair
                ]
                axis.barh(y, sum(gains) / len(gains), color=theme.named["cpc"])
                axis.plot(gains, [y] * len(gains), ".", color=theme.named["ink"])
            axis.xaxis.set_major_locator(MultipleLocator(2))
            axis.axvline(0, color=theme.named["ink"], linewidth=1)
            axis.set(title=f"{title}\nreference {100 * zero:.1f} %", xlabel="points")
            axis.set_yticks(range(len(others)), [f"{cause}: {name}" for cause, name in others])

    return plots.png(fill, 10, 1.5 + 0.3 * len(others), dpi=108)


def _mean(records: Sequence[dict], name: str) -> float:
    return sum(record[name] for record in records) / len(records)
