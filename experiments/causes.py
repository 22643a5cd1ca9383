"""What limits CPC on small images: one setting changed at a time, at equal time on one core.

    python -m experiments.causes --pictures=../shared/data/imagenette-224 --work=runs/causes
    python -m experiments.causes --pictures=... --draw=docs/images/causes.png

Writes experiments/results/causes.json and prints its table. An hour a run and core; the rungs of 'passes' take what
their passes take. What is read off: experiments/read_off.py, on training images held out from its classifiers.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

from absl import app, flags
from matplotlib.figure import Figure as Canvas

from cpc_tf.files import write_file
from cpc_tf.results import plots
from experiments import study

IMAGES = 9469  # of a pass through the training set of imagenette-224
PRESET = "flags/imagenette/pretrain_128px.flags"
READINGS = {"knn": "20 neighbours", "0.01": "linear, 1 %", "0.1": "linear, 10 %", "1": "linear, 100 %"}


class Rung(NamedTuple):
    """One value of a setting; `speed`: images/s on one core, for as many passes as fit into the time; or `passes`."""

    cause: str
    name: str
    flags: Sequence[str]
    speed: float
    passes: float = 0

    def epochs(self, minutes: float) -> float:
        """How many passes through the images it trains for."""
        return self.passes or round(self.speed * 60 * minutes / IMAGES, 1)


def _geometry(resize: int, image: int, patch: int, stride: int) -> list[str]:
    return [f"--resize={resize}", f"--image_size={image}", f"--patch_size={patch}", f"--patch_stride={stride}"]


REFERENCE = Rung("reference", "the preset", [], 75)
RUNGS = [
    REFERENCE,
    Rung("width of the latents", "256", ["--encoder=base_256"], 110),
    Rung("width of the latents", "512", ["--encoder=base_512"], 95),
    Rung("picture / patch", "64 / 16 px", ["--encoder=base_16px", *_geometry(72, 64, 16, 12)], 75),
    Rung("picture / patch", "96 / 24 px", ["--encoder=base_24px", *_geometry(108, 96, 24, 18)], 75),
    Rung("patch grid", "7 x 7 by 16 px", ["--patch_stride=16", "--steps_to_ignore=2", "--steps_to_predict=3"], 38),
    Rung("rate", "0.001", ["--learning_rate=0.001"], 75),
    Rung("rate", "0.004", ["--learning_rate=0.004"], 75),
    Rung("rate", "0.002, constant", ["--schedule=constant"], 75),
    Rung("images of negatives", "8", ["--batch_size=8", "--learning_rate=0.001"], 60),
    Rung("images of negatives", "128", ["--batch_size=128", "--learning_rate=0.004"], 70),
    Rung("augmentation", "none", ["--augment=none"], 75),
    Rung("augmentation", "the paper's", ["--augment=full"], 70),
    Rung("encoder", "small, 64 / 16 px", ["--encoder=small", *_geometry(72, 64, 16, 12)], 180),
    Rung("encoder", "medium, 64 / 16 px", ["--encoder=medium", *_geometry(72, 64, 16, 12)], 20),
    Rung("norm", "none", ["--norm=none"], 80),
    Rung("norm", "channel", ["--norm=channel"], 70),
    Rung("context network", "5 blocks of 256", ["--context_blocks=5", "--context_dim=256"], 50),
    Rung("passes", "10", [], 75, 10),
    Rung("passes", "60", [], 75, 60),
    Rung("passes", "200", [], 75, 200),
]


def run(rung: Rung, pictures: str, work: str, minutes: float, seed: int) -> study.Run:
    """The rung with a seed: pre-trained, exported, read off."""
    folder = "/".join([work, *("".join(c if c.isalnum() else "_" for c in name) for name in rung[:2]), str(seed)])
    epochs = rung.epochs(minutes)
    more = [
        f"--dataset=folder:{pictures}",
        *rung.flags,
        f"--train_epochs={epochs:g}",
        "--probe_every=0",
        f"--seed={seed}",
    ]
    result = f"{folder}/read_off.json"
    command = ["experiments.read_off", f"--module={folder}/hub", f"--pictures={pictures}", f"--output={result}"]
    fields = {"cause": rung.cause, "rung": rung.name, "seed": seed, "passes": epochs}
    return study.Run(fields, [*study.pretrained(folder, PRESET, more), (command, result)])


def with_bound(result: dict) -> dict:
    """What was read off, and where pre-training ended."""
    trained = json.loads((pathlib.Path(result["module"]).parent / "pretrain" / "result.json").read_text())
    return {**result, "bound": trained["bound"]}


def table(records: Sequence[dict]) -> str:
    """A Markdown table, a line for each rung; means of the seeds."""
    lines = [
        "| cause | rung | passes | bound | " + " | ".join(READINGS.values()) + " |",
        "|---" * (len(READINGS) + 4) + "|",
    ]
    for cause, name in dict.fromkeys((record["cause"], record["rung"]) for record in records):
        own = [record for record in records if (record["cause"], record["rung"]) == (cause, name)]
        means = [100 * _mean(own, reading) for reading in READINGS]
        values = [f"{own[0]['passes']:g}", f"{_mean(own, 'bound'):.2f}", *(f"{mean:.1f}" for mean in means)]
        lines.append(f"| {cause} | {name} | " + " | ".join(values) + " |")
    return "\n".join(lines)


def draw(records: Sequence[dict]) -> bytes:
    """Each rung's distance from the reference, in points, a panel for each reading."""
    reference = [record for record in records if record["cause"] == REFERENCE.cause]
    others = list(dict.fromkeys((r["cause"], r["rung"]) for r in records if r["cause"] != REFERENCE.cause))[::-1]

    def fill(canvas: Canvas, theme: plots.Theme) -> None:
        for axis, (reading, title) in zip(canvas.subplots(1, len(READINGS), sharey=True), READINGS.items()):
            zero = _mean(reference, reading)
            for y, pair in enumerate(others):
                own = [r[reading] for r in records if (r["cause"], r["rung"]) == pair]
                gains = [100 * (value - zero) for value in own]
                axis.barh(y, sum(gains) / len(gains), color=theme.named["cpc" if sum(gains) > 0 else "pixels"])
                axis.plot(gains, [y] * len(gains), ".", color=theme.named["ink"])
            axis.axvline(0, color=theme.named["ink"], linewidth=1)
            axis.set(title=f"{title}\nreference {100 * zero:.1f} %", xlabel="points")
            axis.set_yticks(range(len(others)), [f"{cause}: {name}" for cause, name in others])

    return plots.png(fill, 12, 1.5 + 0.3 * len(others), dpi=90)


def _mean(records: Sequence[dict], name: str) -> float:
    return sum(record[name] for record in records) / len(records)


def main(_) -> None:
    """Runs what is missing; prints the table, and draws it."""
    values = flags.FLAGS
    rungs = [rung for rung in RUNGS if not values.causes or rung.cause in values.causes]
    todo = [run(r, values.pictures, values.work, values.minutes, seed) for seed in values.seeds for r in rungs]
    records = study.carry_out("causes", todo, values.cores, with_bound)
    print(table(records))
    if values.draw:
        write_file(values.draw, draw(records))


if __name__ == "__main__":
    flags.DEFINE_string("work", "runs/causes", "folder of the runs")
    flags.DEFINE_string("pictures", None, "folder of imagenette-224", required=True)
    flags.DEFINE_float("minutes", 60, "length of each pre-training on one core", lower_bound=0.1)
    flags.DEFINE_multi_integer("seeds", [0], "seeds")
    flags.DEFINE_list("causes", [], "causes to look at; none: all")
    flags.DEFINE_integer("cores", 0, "runs at a time; 0: as many as there are cores")
    flags.DEFINE_string("draw", "", "picture to write")
    app.run(main)
