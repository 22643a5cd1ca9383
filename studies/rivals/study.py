"""Which pre-training for these pictures? Every objective at equal encoder, pictures and time on one core.

    python -m studies rivals --pictures=FOLDER --minutes=30
    python -m studies rivals --pictures=FOLDER --minutes=3 --only=encoder=small

FOLDER has train/CLASS and val/CLASS. An objective's length in steps is what fits into the minutes, by the seconds of a
step that `prepare` measures first. Two trials of the learning rate each, the same for all; the better one by neighbours
among held-out training pictures counts. Settings are those of the papers, but for banks, queues and clusters, which are
scaled to some thousands of pictures, and for the optimizer, which is one for all.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from collections.abc import Sequence

from studies import runner, tables

RATES = (0.003, 0.001)
ENCODERS = {
    "base": (128, 144, ["--patch_size=32", "--patch_stride=24"]),
    "small": (64, 72, []),
}  # image, resize, patches
SUPERVISED, UNTRAINED = "labels", "untrained"
PATCHES = ("cpc", "relative_position")  # see a grid of patches; the others whole images
# Objective, in the order of the paper's tables -> its settings.
OBJECTIVES = {
    "cpc": [],
    "instance_bank": ["--bank_negatives=1024"],
    "instance": [],
    "local_aggregation": ["--background=128", "--clusters_of_each=200"],
    "moco": ["--queue_length=4096"],
    "pirl": ["--pirl_negatives=1024"],
    "rotation": ["--augment=none"],
    "relative_position": ["--augment=colour_drop"],
    "deep_cluster": ["--clusters=100"],
    "exemplar": ["--exemplar_dim=1024"],
    "byol": ["--byol_hidden=1024"],
    "vicreg": ["--vicreg_dim=1024"],
}
TRIED = 40  # steps that `prepare` times; the first half is not counted


def training(places: runner.Places, encoder: str, objective: str) -> list[str]:
    """Returns module and flags of a training but for its length, rate and directory."""
    if objective == SUPERVISED:
        preset = f"flags/imagenette/efficient_pixels{'_128px' if encoder == 'base' else ''}.flags"
        data = [f"--flagfile={preset}", f"--dataset=folder:{places.pictures}", "--encoder=pixels", "--label_fraction=1"]
        return ["cpc_tf.efficient", *data]
    side, resize, patches = ENCODERS[encoder]
    preset = "flags/imagenette/pretrain_128px.flags" if encoder == "base" else "flags/imagenette/pretrain.flags"
    whole = [f"--patch_size={side}", f"--patch_stride={side}"]
    geometry = [f"--image_size={side}", f"--resize={resize}", *(patches if objective in PATCHES else whole)]
    data = [f"--flagfile={preset}", f"--dataset=folder:{places.pictures}", "--probe_every=0"]
    return ["cpc_tf.pretrain", *data, f"--objective={objective}", *geometry, *OBJECTIVES[objective]]


def _seconds_file(places: runner.Places) -> pathlib.Path:
    return pathlib.Path(places.work, "rivals", "seconds.json")


def seconds(places: runner.Places) -> dict[str, float]:
    """Returns {'ENCODER OBJECTIVE': seconds of a step}, as far as they were measured on this machine."""
    path = _seconds_file(places)
    return json.loads(path.read_text()) if path.exists() else {}


def prepare(places: runner.Places, only: dict[str, str]) -> None:
    """Measures the seconds of a step of each objective, unless it did, on one core; prints what the study costs."""
    found, path = seconds(places), _seconds_file(places)
    path.parent.mkdir(parents=True, exist_ok=True)
    encoders = [each for each in ENCODERS if only.get("encoder", each) == each]
    objectives = [each for each in [*OBJECTIVES, SUPERVISED] if only.get("objective", each) == each]
    for name in (f"{encoder} {objective}" for encoder in encoders for objective in objectives):
        if name in found:
            continue
        folder = path.parent / "speed" / name.replace(" ", "_")
        flags = [*training(places, *name.split()), f"--train_steps={TRIED}", f"--workdir={folder}"]
        command = [sys.executable, "-m", *flags]
        core = str(runner.slots(1)[0].cores[0])
        subprocess.run(["taskset", "-c", core, *command], check=True, capture_output=True)
        records = next(folder.rglob("metrics.jsonl"))
        lines = [json.loads(line) for line in records.read_text().splitlines()]
        spent = lines[-1]["wall_seconds"] - lines[-2]["wall_seconds"]
        found[name] = spent / (lines[-1]["step"] - lines[-2]["step"])
        path.write_text(json.dumps(found, indent=1) + "\n")
        print(f"rivals: {name}: {found[name]:.2f} s a step", flush=True)
    hours = len(encoders) * len(objectives) * len(RATES) * (places.minutes + 5) / 60
    print(f"rivals: about {hours:.1f} core-hours, less what is recorded", flush=True)


def runs(places: runner.Places) -> list[runner.Run]:
    """Both trials of all objectives, beside the untrained encoder and one that learned from all labels as long."""
    known, found = seconds(places), []
    for encoder in ENCODERS:
        for trial in range(len(RATES)):
            for objective in [*OBJECTIVES, SUPERVISED]:
                steps = max(1, round(60 * places.minutes / known.get(f"{encoder} {objective}", 1.0)))
                found.append(_run(places, encoder, objective, trial, steps))
        found.append(_run(places, encoder, UNTRAINED, 0, 0))
    return found


def _run(places: runner.Places, encoder: str, objective: str, trial: int, train_steps: int) -> runner.Run:
    fields = {"encoder": encoder, "objective": objective, "trial": trial, "minutes": places.minutes}
    name = f"{objective}_{trial}"
    folder, steps = f"{places.work}/rivals/{encoder}/{places.minutes:g}/{name}", []
    if objective == UNTRAINED:
        module = f"random:{places.work}/rivals/{encoder}/{places.minutes:g}/cpc_0/hub"
    else:
        module = f"{folder}/hub"
        more = [f"--train_steps={train_steps}", f"--learning_rate={RATES[trial]}"]
        train = [*training(places, encoder, objective), *more, f"--workdir={folder}/training"]
        part = ["--part=encoder"] if objective == SUPERVISED else []
        export = ["export", f"--workdir={folder}/training", *part, f"--output={folder}/hub"]
        steps = [(train, f"{folder}/training/result.json"), (export, f"{folder}/hub/encoder.json")]
    result = f"{folder}/read_off/result.json"
    read_off = [f"--module={module}", f"--pictures={places.pictures}", "--test=val", f"--output={result}"]
    return runner.Run(fields, [*steps, (["studies.read_off", *read_off], result)])


def table(found: Sequence[dict]) -> str:
    """The better trial of each objective: neighbours, and logistic regression with parts of the labels."""
    columns = ["knn", "0.01", "0.1", "1"]
    lines = []
    for encoder in ENCODERS:
        for objective in [*OBJECTIVES, UNTRAINED, SUPERVISED]:
            trials = [r for r in found if (r["encoder"], r["objective"]) == (encoder, objective)]
            if trials:
                best = max(trials, key=lambda record: record["held_out_knn"])
                lines.append([encoder, objective, len(trials), *(f"{100 * best[name]:.1f}" for name in columns)])
    titles = ["encoder", "objective", "trials", "neighbours", "1 %", "10 %", "100 %"]
    return tables.markdown(titles, lines)
