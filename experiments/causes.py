"""What limits CPC on small images: one setting changed at a time, at equal time on one core.

    python -m experiments.causes --pictures=../shared/data/imagenette-224 --work=runs/causes
    python -m experiments.causes --minutes=15 --draw=docs/images/causes.png
    python -m experiments.causes --pictures=... --speeds

Writes experiments/results/causes.json and prints its table; --draw draws what is there and runs nothing. Each run
trains on one core for --minutes; the rungs of 'passes' take what their passes take. A rung's passes follow from its
speed below, as --speeds measured it, not from the clock: so a run is the same on any machine. What is read off:
experiments/read_off.py, on training images held out from its classifiers.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile
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
    """One value of a setting; `speed`: images/s on one core; `passes`: how many, not by time."""

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


# Those that may matter most first. Speeds: measured, AMD EPYC, 2026-11-22 (norms: 2026-11-23, by ratio to the preset).
REFERENCE = Rung("reference", "the preset", [], 91)
RUNGS = [
    REFERENCE,
    Rung("augmentation", "the paper's", ["--augment=full"], 87),
    Rung("rate", "0.004", ["--learning_rate=0.004"], 91),
    Rung("picture / patch", "64 / 16 px", ["--encoder=base_16px", *_geometry(72, 64, 16, 12)], 97),
    Rung("width of the latents", "256", ["--encoder=base_256"], 138),
    Rung("images of negatives", "128", ["--batch_size=128", "--learning_rate=0.004"], 85),
    Rung("encoder", "small, 64 / 16 px", ["--encoder=small", *_geometry(72, 64, 16, 12)], 174),
    Rung("patch grid", "7 x 7 by 16 px", ["--patch_stride=16", "--steps_to_ignore=2", "--steps_to_predict=3"], 49),
    Rung("augmentation", "none", ["--augment=none"], 95),
    Rung("rate", "0.001", ["--learning_rate=0.001"], 91),
    Rung("rate", "0.002, constant", ["--schedule=constant"], 91),
    Rung("context network", "5 blocks of 256", ["--context_blocks=5", "--context_dim=256"], 53),
    Rung("norm", "none", ["--norm=none"], 91),
    Rung("norm", "channel", ["--norm=channel"], 83),
    Rung("images of negatives", "8", ["--batch_size=8", "--learning_rate=0.001"], 85),
    Rung("encoder", "medium, 64 / 16 px", ["--encoder=medium", *_geometry(72, 64, 16, 12)], 29),
    # The speeds of the following two are estimates: measure them (--speeds) before they run.
    Rung("width of the latents", "512", ["--encoder=base_512"], 95),
    Rung("picture / patch", "96 / 24 px", ["--encoder=base_24px", *_geometry(108, 96, 24, 18)], 75),
    Rung("passes", "10", [], 91, 10),
    Rung("passes", "60", [], 91, 60),
    Rung("passes", "200", [], 91, 200),
]


def run(rung: Rung, pictures: str, work: str, minutes: float, seed: int) -> study.Run:
    """The rung with a seed: pre-trained, exported, read off."""
    names = ("".join(c if c.isalnum() else "_" for c in name) for name in rung[:2])
    folder = "/".join([work, f"{minutes:g}min", *names, str(seed)])
    epochs = rung.epochs(minutes)
    more = [*_pretraining(rung, pictures), f"--train_epochs={epochs:g}", f"--seed={seed}"]
    result = f"{folder}/read_off.json"
    command = ["experiments.read_off", f"--module={folder}/hub", f"--pictures={pictures}", f"--output={result}"]
    fields = {"cause": rung.cause, "rung": rung.name, "seed": seed, "minutes": minutes, "passes": epochs}
    return study.Run(fields, [*study.pretrained(folder, PRESET, more), (command, result)])


def _pretraining(rung: Rung, pictures: str) -> list[str]:
    """Flags after the preset, without the length."""
    return [f"--dataset=folder:{pictures}", *rung.flags, "--probe_every=0"]


def measured_speed(rung: Rung, pictures: str, images: int = 2400) -> float:
    """Images/s of a short pre-training on one core, without its first steps."""
    with tempfile.TemporaryDirectory() as folder:
        batch = next((int(flag.split("=")[1]) for flag in rung.flags if flag.startswith("--batch_size=")), 32)
        steps = images // batch // 3 * 3
        short = ["--train_epochs=0", f"--train_steps={steps}", f"--steps_per_loop={steps // 3}", f"--workdir={folder}"]
        command = ["-m", "cpc_tf.pretrain", f"--flagfile={PRESET}", *_pretraining(rung, pictures), *short]
        core = str(min(os.sched_getaffinity(0)))
        subprocess.run(["taskset", "-c", core, sys.executable, *command], check=True, capture_output=True)
        last = pathlib.Path(folder, "metrics.jsonl").read_text().splitlines()[-1]
        return json.loads(last)["images_per_second"]


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
        for axis, (reading, title) in zip(
            canvas.subplots(1, len(READINGS), sharex=True, sharey=True), READINGS.items()
        ):
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


def chosen_rungs(causes: Sequence[str]) -> list[Rung]:
    """The reference and the rungs of some causes; of all without any.

    Raises:
      ValueError: no rung has such a cause.
    """
    known = {rung.cause for rung in RUNGS}
    for cause in causes:
        if cause not in known:
            raise ValueError(f"--causes: '{cause}' is none of {', '.join(sorted(known))}")
    return [rung for rung in RUNGS if not causes or rung.cause in (REFERENCE.cause, *causes)]


def main(_) -> None:
    """Runs what is missing; prints the table, and draws it."""
    values = flags.FLAGS
    try:
        rungs = chosen_rungs(values.causes)
    except ValueError as error:
        sys.exit(str(error))
    if not values.draw and not os.path.isdir(os.path.join(values.pictures, "train")):
        sys.exit(f"--pictures={values.pictures}: has no folder 'train'")
    if values.speeds:
        for rung in rungs:
            print(f"{rung.cause}, {rung.name}: {measured_speed(rung, values.pictures):.0f} images/s", flush=True)
        return
    todo = [run(r, values.pictures, values.work, values.minutes, seed) for seed in values.seeds for r in rungs]
    found = study.recorded("causes", todo) if values.draw else study.carry_out("causes", todo, values.cores, with_bound)
    records = [record for record in found if any(run.fields.items() <= record.items() for run in todo)]
    if not any(record["cause"] == REFERENCE.cause for record in records):
        sys.exit(f"no record of the reference with --minutes={values.minutes:g}: nothing to compare with")
    print(table(records))
    if values.draw:
        write_file(values.draw, draw(records))


if __name__ == "__main__":
    flags.DEFINE_string("work", "runs/causes", "folder of the runs")
    flags.DEFINE_string("pictures", "", "folder of imagenette-224")
    flags.DEFINE_float("minutes", 60, "length of each pre-training on one core", lower_bound=0.1)
    flags.DEFINE_multi_integer("seeds", [0], "seeds")
    flags.DEFINE_list("causes", [], "causes to look at; none: all")
    flags.DEFINE_integer("cores", 0, "runs at a time; 0: as many as there are cores")
    flags.DEFINE_string("draw", "", "picture of the records to write; nothing is run")
    flags.DEFINE_bool("speeds", False, "measure the speed of each rung instead, in a minute or two each")
    app.run(main)
