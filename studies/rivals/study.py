"""Which pre-training for these images? Every objective at equal encoder, images and time on one
core.

    python -m studies rivals --pictures=FOLDER --minutes=30
    python -m studies rivals --pictures=FOLDER --minutes=3 --only=encoder=small

FOLDER has train/CLASS and val/CLASS, or is `photos`, the embedded photographs. An objective's
length in steps is what fits into the minutes, by the CPU seconds of a step that `prepare` measures
first. Two trials of the learning rate each, the same for all; the better one by neighbours among
held-out training images counts, and a detector is trained on it. Settings are those of the papers,
but for banks, queues and clusters, which are scaled to some thousands of images, and for the
optimizer, which is one for all.
"""

from __future__ import annotations

import json
import pathlib
import sys
from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.figure import Figure as Canvas

from cpc_tf.core.files import write_file
from cpc_tf.core.texts import markdown_table
from cpc_tf.drawing import plots
from cpc_tf.objectives.config import settings_class
from studies import read_off, records, runner, timing

RATES = (0.003, 0.001)
# image, resize, patches
ENCODERS = {
    "base": (128, 144, ["--patch_size=32", "--patch_stride=24"]),
    "small": (64, 72, []),
}
PRECISION = "--precision=float32"  # many processors compute bfloat16 slower than float32
DETECTORS = {"base": "detect_128px", "small": "detect"}  # presets of collages
# key of a record -> title
MEASURES = {
    "knn": "neighbours",
    "0.01": "1 %",
    "0.1": "10 %",
    "1": "100 %",
}
# what a record measures: classification or detection
CLASSES = "classes"
BOXES = "boxes"
SUPERVISED = "labels"
UNTRAINED = "untrained"
# objectives on a grid of patches; the others see whole images
PATCHES = {
    "cpc",
    "relative_position",
}
# Objective, in the order of the paper's tables -> its settings.
OBJECTIVES = {
    "cpc": [],
    "instance_bank": ["--instance_bank_negatives=1024"],
    "instance": [],
    "local_aggregation": ["--local_aggregation_background=128", "--local_aggregation_clusters=200"],
    "moco": ["--moco_queue_length=4096"],
    "pirl": ["--pirl_negatives=1024"],
    "cmc": ["--augment=none", "--cmc_negatives=1024"],
    "amdim": ["--amdim_dim=512"],
    "rotation": ["--augment=none"],
    "relative_position": ["--augment=colour_drop"],
    "colorization": ["--augment=none"],
    "deep_cluster": ["--deep_cluster_clusters=100"],
    "exemplar": ["--exemplar_dim=1024"],
    "cpc+rotation": [],  # for Multi-task
    "byol": ["--byol_hidden=1024"],
    "vicreg": ["--vicreg_dim=1024"],
}


def training(places: runner.Places, encoder: str, objective: str) -> list[str]:
    """Returns the module and the flags of a training, without its length, rate and directory."""
    if objective == SUPERVISED:
        preset = f"flags/imagenette/efficient_pixels{'_128px' if encoder == 'base' else ''}.flags"
        data = [f"--flagfile={preset}", f"--dataset={read_off.dataset(places.pictures)}"]
        data += ["--test_split=test"] if places.pictures == "photos" else []
        return ["cpc_tf.efficient", *data, "--encoder=pixels", "--label_fraction=1", PRECISION]
    side, resize, patches = ENCODERS[encoder]
    preset = (
        "flags/imagenette/pretrain_128px.flags"
        if encoder == "base"
        else "flags/imagenette/pretrain.flags"
    )
    if not {*objective.split("+")} & PATCHES:
        patches = [f"--patch_size={side}", f"--patch_stride={side}"]
    geometry = [f"--image_size={side}", f"--resize={resize}", *patches]
    data = [
        f"--flagfile={preset}",
        f"--dataset={read_off.dataset(places.pictures)}",
        "--probe_every=0",
        PRECISION,
    ]
    needs = settings_class(objective).NEEDS
    if needs:  # the same network, on lightness or colours
        data.append(f"--encoder={encoder}_{needs}")
    return ["cpc_tf.pretrain", *data, f"--objective={objective}", *geometry, *OBJECTIVES[objective]]


def _seconds_file(places: runner.Places) -> pathlib.Path:
    return pathlib.Path(places.work, "rivals", "seconds.json")


def seconds(places: runner.Places) -> dict[str, float]:
    """Returns {'ENCODER OBJECTIVE': CPU seconds of a step}, as far as they were measured on this
    machine.
    """
    path = _seconds_file(places)
    return json.loads(path.read_text()) if path.exists() else {}


def prepare(places: runner.Places, only: dict[str, str]) -> None:
    """Times a step of each objective in CPU seconds, unless that was done before, and prints what
    the study costs.

    The seconds are those of one core, and nearly the same beside other work.
    """
    measured = seconds(places)
    path = _seconds_file(places)
    encoders = [each for each in ENCODERS if only.get("encoder", each) == each]
    objectives = [each for each in [*OBJECTIVES, SUPERVISED] if only.get("objective", each) == each]
    for name in (f"{encoder} {objective}" for encoder in encoders for objective in objectives):
        if name in measured:
            continue
        folder = path.parent / "speed" / name.replace(" ", "_")
        try:
            measured[name] = timing.seconds_of_step(training(places, *name.split()), folder)
        except RuntimeError as error:
            sys.exit(f"rivals: {name}: {error}")
        write_file(str(path), json.dumps(measured, indent=1) + "\n")
        print(f"rivals: {name}: {measured[name]:.2f} s a step", flush=True)
    each = len(RATES) * (places.minutes + 2) + (5 if "small" in encoders else 20)
    hours = len(encoders) * len(objectives) * each / 60
    print(f"rivals: about {hours:.1f} core-hours, less what is recorded", flush=True)


def runs(places: runner.Places) -> list[runner.Run]:
    """Returns both trials of all objectives, the untrained encoder, and one that learned from all
    labels for as long.

    Where both trials of an objective are recorded, there is a detector on the better one, too.
    """
    recorded = records.read("rivals")
    wanted = _of(places, recorded)
    # What is recorded of other images and minutes is part of the study, but nothing more of it is
    # run.
    for pictures, minutes in sorted(
        {(record["pictures"], record["minutes"]) for record in recorded}
    ):
        if (pictures, minutes) != (pathlib.Path(places.pictures).name, places.minutes):
            others = _of(places._replace(pictures=pictures, minutes=minutes), recorded)
            wanted += [
                r for r in others if any(r.fields.items() <= record.items() for record in recorded)
            ]
    return wanted


def _of(places: runner.Places, recorded: Sequence[dict]) -> list[runner.Run]:
    measured = seconds(places)
    wanted = []
    for encoder in ENCODERS:
        for trial in range(len(RATES)):
            for objective in [*OBJECTIVES, SUPERVISED]:
                fields = _fields(places, encoder, objective, trial)
                step = measured.get(f"{encoder} {objective}", 1.0)
                # The length of a recorded run is that of the machine that made it.
                steps = _length(recorded, fields) or max(1, round(60 * places.minutes / step))
                wanted.append(_run(places, fields, steps))
        wanted.append(_run(places, _fields(places, encoder, UNTRAINED, 0), 0))
    return [
        *wanted,
        *(run for encoder in ENCODERS for run in _detectors(places, encoder, recorded)),
    ]


def _fields(
    places: runner.Places, encoder: str, objective: str, trial: int, of: str = CLASSES
) -> dict:
    pictures = pathlib.Path(places.pictures).name
    minutes = places.minutes
    fields = {
        "pictures": pictures,
        "encoder": encoder,
        "objective": objective,
        "trial": trial,
        "minutes": minutes,
    }
    return {**fields, "of": of}


def _length(recorded: Sequence[dict], fields: dict) -> int:
    for record in recorded:
        if fields.items() <= record.items():
            return next(
                int(w.partition("=")[2])
                for w in record["settings"][0].split()
                if "train_steps=" in w
            )
    return 0


def _folder(places: runner.Places, fields: dict) -> str:
    of_encoder = f"{places.work}/rivals/{fields['pictures']}/{fields['encoder']}"
    return f"{of_encoder}/{fields['minutes']:g}/{fields['objective']}_{fields['trial']}"


def _module(places: runner.Places, fields: dict) -> str:
    if fields["objective"] == UNTRAINED:
        return f"random:{_folder(places, {**fields, 'objective': 'cpc'})}/hub"
    return f"{_folder(places, fields)}/hub"


def _run(places: runner.Places, fields: dict, train_steps: int) -> runner.Run:
    """Trains an encoder, exports it and evaluates its frozen features."""
    folder = _folder(places, fields)
    module = _module(places, fields)
    steps = []
    if fields["objective"] != UNTRAINED:
        more = [f"--train_steps={train_steps}", f"--learning_rate={RATES[fields['trial']]}"]
        train = [
            *training(places, fields["encoder"], fields["objective"]),
            *more,
            f"--workdir={folder}/training",
        ]
        part = ["--part=encoder"] if fields["objective"] == SUPERVISED else []
        export = ["export", f"--workdir={folder}/training", *part, f"--output={module}"]
        steps = [(train, f"{folder}/training/result.json"), (export, f"{module}/encoder.json")]
    result = f"{folder}/read_off/result.json"
    tested = [
        f"--module={module}",
        f"--pictures={places.pictures}",
        "--test=val",
        f"--output={result}",
    ]
    return runner.Run(fields, [*steps, (["studies.read_off", *tested], result)])


def _detectors(places: runner.Places, encoder: str, recorded: Sequence[dict]) -> list[runner.Run]:
    """Returns a detector on the better trial of each objective whose trials are all recorded."""
    wanted = []
    for objective in [*OBJECTIVES, UNTRAINED, SUPERVISED]:
        trials = [
            _fields(places, encoder, objective, t)
            for t in range(1 if objective == UNTRAINED else len(RATES))
        ]
        made = [
            record for record in recorded for fields in trials if fields.items() <= record.items()
        ]
        if len(made) == len(trials):
            best = max(made, key=lambda record: record["held_out_knn"])["trial"]
            fields = _fields(places, encoder, objective, best, BOXES)
            workdir = f"{_folder(places, fields)}/detect"
            data = [
                f"--flagfile=flags/collages/{DETECTORS[encoder]}.flags",
                f"--encoder={_module(places, fields)}",
            ]
            detect = (["cpc_tf.detect", *data, f"--workdir={workdir}"], f"{workdir}/result.json")
            wanted.append(runner.Run(fields, [detect]))
    return wanted


def keep(result: dict, path: str) -> dict:
    """Returns what is recorded of a result: of a detector only what the table shows."""
    return {"map11": result["map11"]} if "map11" in result else result


class Line(NamedTuple):
    """What is recorded of an objective on one set of images, with one encoder and one time.

    Attributes:
      setting: the images, the encoder and the minutes.
      objective: its name.
      trials: records, the better one by held-out images first.
      boxes: mAP of the detector on the better one; None: not recorded.
    """

    setting: str
    objective: str
    trials: list[dict]
    boxes: float | None


def lines(found: Sequence[dict]) -> list[Line]:
    """Returns each objective's line, in the order of the paper's tables."""
    settings: dict[tuple, list[dict]] = {}
    for record in found:
        settings.setdefault((record["pictures"], record["encoder"], record["minutes"]), []).append(
            record
        )
    wanted = []
    for (pictures, encoder, minutes), recorded in settings.items():
        for objective in [*OBJECTIVES, UNTRAINED, SUPERVISED]:
            trials = [r for r in recorded if r["objective"] == objective and r["of"] == CLASSES]
            trials.sort(key=lambda record: -record["held_out_knn"])
            boxes = [
                r["map11"] for r in recorded if r["objective"] == objective and r["of"] == BOXES
            ]
            if trials:
                setting = f"{pictures}, {encoder}, {minutes:g} min"
                wanted.append(Line(setting, objective, trials, boxes[0] if boxes else None))
    return wanted


def table(found: Sequence[dict]) -> str:
    """Returns the table of the better trials: neighbours, logistic regression with parts of the
    labels, detection.
    """
    rows = []
    for line in lines(found):
        cells = [f"{100 * line.trials[0][name]:.1f}" for name in MEASURES]
        detected = "-" if line.boxes is None else f"{100 * line.boxes:.1f}"
        rows.append([line.setting, line.objective, len(line.trials), *cells, detected])
    titles = ["images, encoder, time", "objective", "trials", *MEASURES.values(), "collages, mAP"]
    return markdown_table(titles, rows)


def draw(found: Sequence[dict]) -> bytes:
    """The better trial of each objective: a panel for each measure, a bar for each objective, the
    best first.
    """
    ordered = sorted(lines(found), key=lambda line: line.trials[0]["knn"])
    measures = {**MEASURES, "map11": "collages, mAP"}

    def fill(canvas: Canvas, theme: plots.Theme) -> None:
        panels = canvas.subplots(1, len(measures), sharey=True)
        for axis, (name, title) in zip(panels, measures.items()):
            for y, line in enumerate(ordered):
                value = line.boxes if name == "map11" else line.trials[0][name]
                if value is not None:
                    aside = line.objective in (UNTRAINED, SUPERVISED)
                    color = theme.named[
                        (
                            "labels"
                            if line.objective == SUPERVISED
                            else "untrained"
                            if aside
                            else "cpc"
                        )
                    ]
                    axis.barh(y, 100 * value, color=color)
                    axis.text(100 * value, y, f" {100 * value:.0f}", va="center")
            axis.set(title=title, xlabel="%", xlim=(0, 100))
            axis.set_yticks(
                range(len(ordered)), [f"{line.objective}\n{line.setting}" for line in ordered]
            )

    return plots.png(fill, 13, 1.2 + 0.5 * len(ordered), dpi=90)
