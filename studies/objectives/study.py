"""Which objective gives the best encoder in equal time? The same network, images and CPU seconds of
one core.

    python -m studies objectives --minutes=12
    python -m studies objectives --minutes=12 --only=pictures=imagenette-224 --only=objective=moco

Each objective has two trials on imagenette, its paper's setting and one for short runs
(cpc_tf/compare/methods.py). The one with better neighbours among held-out training images counts,
and has two more seeds if it is CPC or one of the five best others. The same setting is then trained
on drawings, where nothing is chosen.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from scipy import stats

from cpc_tf.compare.methods import METHODS, PAPER, SHORT, TRIALS, training_flags
from cpc_tf.compare.picture import CPC, OTHER, REFERENCE, Ranked, ranking
from cpc_tf.core.files import write_file
from cpc_tf.core.settings import ConfigError
from cpc_tf.core.texts import listed, markdown_table
from cpc_tf.objectives.config import title
from cpc_tf.training import pace
from studies import read_off, records, runner
from studies.claims import FEWEST
from studies.judging import ERROR, Effect, difference

STUDY = "objectives"
# key of a record -> title
MEASURES = {"knn": "neighbours", "0.01": "1 %", "0.1": "10 %", "1": "100 %"}
LABELS = "labels"  # the arm that learns from all labels
UNTRAINED = "untrained"
SEEDS = 3
BEST = 5  # objectives beside CPC that get all seeds
# Rates of SGD for the arm that learns from labels, whose preset has the first.
LABELLED_RATES = {PAPER: 0.05, SHORT: 0.02}
# Images -> how many there are to train on.
IMAGENETTE = "imagenette-224"
DRAWINGS = "openclipart"
IMAGES = {IMAGENETTE: 9469, DRAWINGS: 3237}


def training(objective: str, trial: str, images: int, steps: int) -> list[str]:
    """Returns the module and the flags of a training, without data, seed and directory."""
    if objective != LABELS:
        return ["cpc_tf.pretrain", *training_flags(objective, trial, images, steps)]
    return [
        "cpc_tf.efficient",
        "--flagfile=flags/imagenette/efficient_pixels.flags",
        "--encoder=pixels",
        "--label_fraction=1",
        f"--learning_rate={LABELLED_RATES[trial]}",
        f"--train_steps={steps}",
        "--precision=float32",
    ]


def _seconds_file(places: runner.Places) -> pathlib.Path:
    return pathlib.Path(places.work, STUDY, "seconds.json")


def seconds(places: runner.Places) -> dict[str, float]:
    """Returns {'OBJECTIVE TRIAL': CPU seconds of a step}, as far as they were measured on this
    machine.
    """
    path = _seconds_file(places)
    return json.loads(path.read_text()) if path.exists() else {}


def prepare(places: runner.Places, only: dict[str, str]) -> None:
    """Times a step of each trial in CPU seconds of one core, with its share of the work between
    epochs, unless that was done before, and prints what the study costs.
    """
    measured = seconds(places)
    path = _seconds_file(places)
    objectives = [each for each in [*METHODS, LABELS] if only.get("objective", each) == each]
    trials = [each for each in TRIALS if only.get("trial", each) == each]
    for objective in objectives:
        for trial in trials:
            name = f"{objective} {trial}"
            if name in measured:
                continue
            module, *words = training(objective, trial, IMAGES[IMAGENETTE], 1000)
            data = f"--dataset={read_off.dataset(places.pictures)}"
            try:
                with _one_core():
                    measured[name] = pace.seconds_of_step(module, [*words, data], pace.CPU)
            except ConfigError as error:
                sys.exit(f"{STUDY}: {name}: {error}")
            write_file(str(path), json.dumps(measured, indent=1) + "\n")
            print(f"{STUDY}: {name}: {measured[name]:.3f} s a step", flush=True)
    hours = len(objectives) * len(trials) * (places.minutes + 2) / 60
    print(f"{STUDY}: trials of about {hours:.1f} core-hours, less what is recorded", flush=True)


@contextlib.contextmanager
def _one_core() -> Iterator[None]:
    """Programs that are started inside have one core."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, runner.slots(1)[0].cores[:1])
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def runs(places: runner.Places) -> list[runner.Run]:
    """Returns the trials and the untrained encoder on imagenette; where both trials of all are
    recorded, more seeds of the best, and the better trials on drawings.

    What is recorded with other minutes is part of the study, but nothing more of it is run.
    """
    recorded = records.read(STUDY)
    wanted = _of(places, recorded)
    for minutes in sorted({record["minutes"] for record in recorded} - {places.minutes}):
        for run in _of(places._replace(minutes=minutes), recorded):
            if any(run.fields.items() <= record.items() for record in recorded):
                wanted.append(run)
    return wanted


def _of(places: runner.Places, recorded: Sequence[dict]) -> list[runner.Run]:
    trials = []
    for trial in (SHORT, PAPER):
        trials += [_fields(places, objective, trial) for objective in [*METHODS, LABELS]]
    trials.append(_fields(places, UNTRAINED, SHORT))
    wanted = [_run(places, fields, recorded) for fields in trials]
    found = [record for record in recorded if record["minutes"] == places.minutes]
    chosen = better_trials(found)
    if len(chosen) < len(METHODS) + 1:
        return wanted

    # More seeds of the best, then the other images.
    best = sorted(METHODS, key=lambda objective: -chosen[objective]["held_out_knn"])
    seeded = ["cpc", *[objective for objective in best if objective != "cpc"][:BEST]]
    more = []
    for seed in range(1, SEEDS):
        for objective in seeded:
            more.append(_fields(places, objective, chosen[objective]["trial"], seed))
    more.append(_fields(places, UNTRAINED, SHORT, images=DRAWINGS))
    for objective in METHODS:
        more.append(_fields(places, objective, chosen[objective]["trial"], images=DRAWINGS))
    return [*wanted, *(_run(places, fields, recorded) for fields in more)]


def better_trials(found: Sequence[dict]) -> dict[str, dict]:
    """Returns, of each arm whose trials on imagenette are all recorded, the record of the one with
    better neighbours among held-out training images.
    """
    chosen = {}
    for objective in [*METHODS, LABELS]:
        trials = [
            record
            for record in found
            if (record["pictures"], record["objective"], record["seed"])
            == (IMAGENETTE, objective, 0)
        ]
        if len(trials) == len(TRIALS):
            chosen[objective] = max(trials, key=lambda record: record["held_out_knn"])
    return chosen


def _fields(
    places: runner.Places, objective: str, trial: str, seed: int = 0, images: str = IMAGENETTE
) -> dict:
    return {
        "pictures": images,
        "objective": objective,
        "trial": trial,
        "minutes": places.minutes,
        "seed": seed,
    }


def _length(places: runner.Places, fields: dict, recorded: Sequence[dict]) -> int:
    """Returns the steps of a training; of a recorded one as the machine that made it had them."""
    for record in recorded:
        if fields.items() <= record.items():
            return record["steps"]
    step = seconds(places).get(f"{fields['objective']} {fields['trial']}", 1.0)
    return max(1, round(60 * places.minutes / step))


def _folder(places: runner.Places, fields: dict) -> str:
    of_images = f"{places.work}/{STUDY}/{fields['pictures']}/{fields['minutes']:g}"
    return f"{of_images}/{fields['objective']}_{fields['trial']}_{fields['seed']}"


def _run(places: runner.Places, fields: dict, recorded: Sequence[dict]) -> runner.Run:
    """Trains an encoder, exports it and evaluates its frozen features."""
    folder = _folder(places, fields)
    module = f"{folder}/hub"
    steps = []

    # The images.
    pictures = places.pictures
    tested = "--test=val"
    if fields["pictures"] == DRAWINGS:
        drawings = f"{places.work}/clipart/drawings"
        copy = ["studies.clipart.drawings", f"--drawings={places.drawings}", f"--output={drawings}"]
        steps.append((copy, f"{drawings}/counts.json"))
        pictures = f"{drawings}/openclipart"
        tested = "--test=held_out"

    # The encoder.
    length = 0
    if fields["objective"] == UNTRAINED:
        trained = {**fields, "pictures": IMAGENETTE, "objective": "cpc"}
        module = f"random:{_folder(places, trained)}/hub"
    else:
        length = _length(places, fields, recorded)
        train = [
            *training(fields["objective"], fields["trial"], IMAGES[fields["pictures"]], length),
            f"--dataset={read_off.dataset(pictures)}",
            f"--seed={fields['seed']}",
            f"--workdir={folder}/training",
        ]
        part = ["--part=encoder"] if fields["objective"] == LABELS else []
        export = ["export", f"--workdir={folder}/training", *part, f"--output={module}"]
        steps.append((train, f"{folder}/training/result.json"))
        steps.append((export, f"{module}/encoder.json"))

    # The test.
    result = f"{folder}/read_off/result.json"
    test = [f"--module={module}", f"--pictures={pictures}", tested, f"--output={result}"]
    steps.append((["studies.read_off", *test], result))
    return runner.Run(fields, steps)


def keep(result: dict, path: str) -> dict:
    """Returns what is recorded of a result: with it the steps and the CPU seconds of the
    training.
    """
    training = pathlib.Path(path).parents[1] / "training"
    records_of = [*training.rglob("metrics.jsonl")]
    if not records_of:
        return {**result, "steps": 0}
    last = json.loads(records_of[0].read_text().splitlines()[-1])
    return {**result, "steps": last["step"], "training_cpu_seconds": round(last["cpu_seconds"])}


class Arm(NamedTuple):
    """What is recorded of an objective on one set of images with one time.

    Attributes:
      setting: the images and the minutes.
      objective: its name, `LABELS` or `UNTRAINED`.
      trial: which one counts.
      trials: how many are recorded.
      seeds: records of that trial, by seed.
    """

    setting: str
    objective: str
    trial: str
    trials: int
    seeds: dict[int, dict]

    def mean(self, measure: str) -> float:
        """Mean over the seeds, a fraction."""
        values = [record[measure] for record in self.seeds.values()]
        return sum(values) / len(values)


def arms(found: Sequence[dict]) -> list[Arm]:
    """Returns the arms by images and minutes, the best neighbours first."""
    arms_of: list[Arm] = []
    settings = dict.fromkeys((record["pictures"], record["minutes"]) for record in found)
    for pictures, minutes in settings:
        within = [r for r in found if (r["pictures"], r["minutes"]) == (pictures, minutes)]
        for objective in dict.fromkeys(record["objective"] for record in within):
            recorded = [record for record in within if record["objective"] == objective]
            trials = [record for record in recorded if record["seed"] == 0]
            best = max(trials, key=lambda record: record.get("held_out_knn", 0))
            seeds = {r["seed"]: r for r in recorded if r["trial"] == best["trial"]}
            setting = f"{pictures}, {minutes:g} min"
            arms_of.append(Arm(setting, objective, best["trial"], len(trials), seeds))
    return sorted(arms_of, key=lambda arm: (arm.setting, -arm.mean("knn")))


def effect_on_cpc(arm: Arm, every: Sequence[Arm], measure: str = "knn") -> Effect | None:
    """Returns by how many points an arm is ahead of CPC, seed by seed; None without CPC's records,
    and of CPC itself.
    """
    cpc = [a for a in every if (a.setting, a.objective) == (arm.setting, "cpc")]
    if not cpc or arm.objective == "cpc":
        return None
    pairs = [
        100 * (record[measure] - cpc[0].seeds[seed][measure])
        for seed, record in sorted(arm.seeds.items())
        if seed in cpc[0].seeds
    ]
    return difference(pairs) if pairs else None


def ahead_of_cpc(arm: Arm, every: Sequence[Arm]) -> str:
    """Returns the points with their 95 % interval, which three pairs or more have."""
    effect = effect_on_cpc(arm, every)
    if effect is None:
        return "-"
    if effect.count < FEWEST:
        return f"{effect.estimate:+.1f}"
    low, high = effect.interval(ERROR)
    return f"{effect.estimate:+.1f} ({low:+.1f} to {high:+.1f}), n={effect.count}"


def answer(found: Sequence[dict], minutes: float) -> str:
    """Returns which objectives are ahead of CPC on imagenette and which are behind, by their
    intervals; '' before all trials and seeds of that time are recorded.
    """
    within = [r for r in found if (r["pictures"], r["minutes"]) == (IMAGENETTE, minutes)]
    every = arms(within)
    seeded = [arm for arm in every if len(arm.seeds) == SEEDS]
    if len(better_trials(within)) <= len(METHODS) or len(seeded) <= BEST:
        return ""
    outcomes: dict[str, list[str]] = {"ahead": [], "behind": [], "not shown": []}
    for arm in seeded:
        effect = effect_on_cpc(arm, every)
        if effect is not None:
            said = f"{name_of(arm.objective)} ({effect.estimate:+.1f} points)"
            outcomes[_outcome(effect)].append(said)
    trained = [arm for arm in every if arm.objective in METHODS]
    best = f"{name_of(trained[0].objective)} has the best neighbours, "
    return (
        f"**After {minutes:g} minutes of one core {best}{100 * trained[0].mean('knn'):.1f} %."
        f" Ahead of CPC in three seeds: {listed(outcomes['ahead']) or 'none'};"
        f" behind it: {listed(outcomes['behind']) or 'none'};"
        f" not shown: {listed(outcomes['not shown']) or 'none'}.**"
        " The other objectives have one seed."
    )


def _outcome(effect: Effect) -> str:
    """Returns 'ahead', 'behind' or 'not shown', by the 95 % interval."""
    low, high = effect.interval(ERROR)
    if low > 0:
        return "ahead"
    if high < 0:
        return "behind"
    return "not shown"


def name_of(objective: str) -> str:
    """Returns an arm's name in tables and pictures."""
    return {LABELS: "all labels", UNTRAINED: "untrained"}.get(objective) or title(objective)


def table(found: Sequence[dict]) -> str:
    """Returns a line for each arm: neighbours, logistic regression with parts of the labels, and
    what it is ahead of CPC.
    """
    every = arms(found)
    rows = []
    for arm in every:
        cells = [f"{100 * arm.mean(measure):.1f}" for measure in MEASURES]
        trained = ["-", "-", "-"]
        if arm.objective != UNTRAINED:
            trained = [arm.trial, arm.trials, arm.seeds[0].get("training_cpu_seconds", "-")]
        rows.append(
            [arm.setting, name_of(arm.objective), *trained, *cells, ahead_of_cpc(arm, every)]
        )
    columns = ["images, time", "objective", "trial", "of", "CPU s", *MEASURES.values()]
    columns.append("ahead of CPC")
    text = markdown_table(columns, rows)
    agreement = rank_correlation(every)
    return f"{text}\n\n{agreement}" if agreement else text


def rank_correlation(every: Sequence[Arm]) -> str:
    """Returns a sentence: do both sets of images order the objectives alike? '' before both are
    recorded.
    """
    by_setting: dict[str, dict[str, float]] = {}
    for arm in every:
        if arm.objective in METHODS:
            by_setting.setdefault(arm.setting, {})[arm.objective] = arm.mean("knn")
    for setting, values in by_setting.items():
        other = by_setting.get(setting.replace(IMAGENETTE, DRAWINGS), {})
        shared = [objective for objective in values if objective in other]
        if IMAGENETTE in setting and len(shared) >= BEST:
            ours = [values[objective] for objective in shared]
            theirs = [other[objective] for objective in shared]
            rank = stats.spearmanr(ours, theirs).statistic
            return (
                f"Spearman's rank correlation of neighbours on {IMAGENETTE} and {DRAWINGS}:"
                f" {rank:.2f} over {len(shared)} objectives."
            )
    return ""


def settings_table() -> str:
    """Returns a line for each objective: its paper's setting, and those of both trials."""
    rows = []
    for objective, method in METHODS.items():
        batch = f"{method.batch:,}" if method.batch else "not stated"
        cells = [title(objective), method.source, f"{method.optimizer}, {batch}"]
        for trial in TRIALS:
            words = training_flags(objective, trial, IMAGES[IMAGENETTE], 1000)
            flags = dict(word[2:].partition("=")[::2] for word in words)
            changes = flags.get("augment_changes", "")
            cells.append(f"{flags['learning_rate']}, {flags['batch_size']}")
            cells.append(f"{flags['augment']}{changes and f' with {changes}'}")
        rows.append(cells)
    columns = [
        "objective",
        "paper",
        "its optimizer, batch",
        "trial *paper*: Adam, batch",
        "augmentation",
        "trial *short*: Adam, batch",
        "augmentation",
    ]
    return markdown_table(columns, rows)


def draw(found: Sequence[dict]) -> bytes:
    """Draws a panel for each set of images and time: a bar for each objective, the best first, and
    a line from its worst to its best seed.
    """
    panels: dict[str, list[Ranked]] = {}
    for arm in arms(found):
        color = REFERENCE if arm.objective in (LABELS, UNTRAINED) else OTHER
        if arm.objective == "cpc":
            color = CPC
        values = [100 * record["knn"] for record in arm.seeds.values()]
        panels.setdefault(arm.setting, []).append(Ranked(name_of(arm.objective), values, color))
    return ranking(panels, "20 nearest neighbours right, %")
