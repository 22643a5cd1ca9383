"""Runs the training runs of a study, each on a core or a GPU of its own, and records what they
found.

A study may be interrupted: the same command goes on. A run is not repeated if it is recorded with
the settings that the study has today; `python -m studies` lists which are. Several studies, or one
study several times, may run at once.
"""

from __future__ import annotations

import dataclasses
import datetime
import fcntl
import functools
import importlib
import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from queue import Queue
from types import ModuleType
from typing import NamedTuple

from cpc_tf.core import devices
from cpc_tf.report.runs import run_id
from studies import records
from studies.records import Command

# Each is a folder with a study.py, which has `runs(places)`, `table(records)` and perhaps `keep`
# (see `carry_out`) and `prepare(places, only)`, which is called before a study is run.
STUDIES = (
    "label_curve",
    "propagation",
    "choices",
    "detection",
    "ladder",
    "augmentation",
    "causes",
    "health",
    "release",
    "recipe",
    "supervised",
    "clipart",
    "objectives",
    "label",
    "coverage",
    "encoders",
)
MODULE = "modules/imagenette_128px"


class Places(NamedTuple):
    """Folders that a study reads and writes."""

    work: str = "runs"
    pictures: str = "../shared/data/imagenette-224"
    boxes: str = "../shared/data/bccd-voc"
    drawings: str = "/usr/share/openclipart/png"
    lite0: str = "../shared/data/efficientnet_lite0"  # SavedModel
    minutes: float = 12.0  # that an objective of `objectives` has on one core


def load(study: str) -> ModuleType:
    """The module of a study."""
    return importlib.import_module(f"studies.{study}.study")


@dataclasses.dataclass(frozen=True)
class Run:
    """One point of a study.

    Attributes:
      fields: what the record says beside the last command's result.
      steps: (module and flags, file that it writes last), one after another; the last file is a
        result.json.
    """

    fields: dict
    steps: Sequence[tuple[Command, str]]

    @property
    def result(self) -> str:
        """The result.json of the last step."""
        return self.steps[-1][1]


def pretrained(folder: str, preset: str, more: Command) -> list[tuple[Command, str]]:
    """The steps that leave an encoder in FOLDER/hub."""
    pretrain = ["cpc_tf.pretrain", f"--flagfile={preset}", *more, f"--workdir={folder}/pretrain"]
    export = ["export", f"--workdir={folder}/pretrain", f"--output={folder}/hub"]
    return [(pretrain, f"{folder}/pretrain/result.json"), (export, f"{folder}/hub/encoder.json")]


def linear(
    folder: str, more: Command, name: str = "linear", kind: str = "graph:"
) -> tuple[Command, str]:
    """The step that classifies on the SavedModel in FOLDER/hub, without baselines, in
    FOLDER/NAME; with the kind 'random:' on an untrained copy of it.
    """
    command = [
        "cpc_tf.linear",
        *more,
        "--nobaselines",
        f"--encoder={kind}{folder}/hub",
        f"--workdir={folder}/{name}",
    ]
    return command, f"{folder}/{name}/result.json"


class Slot(NamedTuple):
    """What one run at a time computes on."""

    cores: Sequence[int]
    gpu: str = ""  # as CUDA_VISIBLE_DEVICES names it


def slots(most: int = 0) -> list[Slot]:
    """Returns a slot for each GPU, with its share of the cores; without a GPU one for each core.

    Args:
      most: the largest number of slots; 0: no limit.
    """
    cores = devices.cores()
    count = len(devices.gpu_names())
    if not count:
        return [Slot([core]) for core in cores][: most or None]
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    gpus = (chosen.split(",") if chosen else list(map(str, range(count))))[: most or None]
    return [Slot(cores[index :: len(gpus)] or cores, gpu) for index, gpu in enumerate(gpus)]


def text(run: Run) -> str:
    """Returns the fields of a run, e.g. 'dataset=photos, seed=0'."""
    return ", ".join(f"{name}={value}" for name, value in run.fields.items())


def missing(study: str, runs: Sequence[Run]) -> list[tuple[Run, str]]:
    """Returns the runs that are not recorded with today's settings, each with how the last record
    of it differs, '' if there is none.
    """
    found = records.read(study)
    compared = [(run, *records.find(run.fields, run.steps, found)) for run in runs]
    return [(run, other) for run, record, other in compared if record is None]


def absent(places: Places, runs: Sequence[Run]) -> str:
    """Returns what is wrong where the runs name a folder of `places` that is not there; else ''."""
    arguments = [part for run in runs for command, _ in run.steps for part in command]
    for name in ("pictures", "boxes", "drawings", "lite0"):
        folder = getattr(places, name)
        used = any(folder in argument for argument in arguments)
        if used and "://" not in folder and not os.path.isdir(folder):
            return f"--{name}={folder}: there is no such folder; studies/README.md says what it is"
    return ""


def listing(study: str, runs: Sequence[Run]) -> str:
    """Returns what `carry_out` would run: the fields and the commands of each run."""
    todo = missing(study, runs)
    lines = []
    for run, other in todo:
        lines.append(f"{text(run)}{f' (the record was {other})' if other else ''}")
        lines += [f"    {_as_typed(command)}" for command, _ in run.steps]
    count = f"{len(todo)} of {len(runs)} runs would be run"
    return "\n".join([*lines, f"{study}: {count}, the others are recorded; nothing was run"])


def _as_typed(command: Command) -> str:
    return f"python -m {shlex.join(command)}"


def carry_out(
    study: str, runs: Sequence[Run], cores: int = 0, keep: Callable[[dict, str], dict] | None = None
) -> list[dict]:
    """Does the runs that are not recorded yet, and returns the records of all.

    Args:
      study: name of the folder in studies/.
      runs: in order of importance.
      cores: runs at a time; 0: as many as there are `slots`.
      keep: makes a record of a result and its path; None: the result is the record.
    """
    commit()  # of the code as the study begins
    todo = []
    for run, other in missing(study, runs):
        todo.append(run)
        if other:
            print(
                f"{study}: {text(run)}: the record was {other}; a new run replaces it", flush=True
            )
    free: Queue[Slot] = Queue()
    for slot in slots(cores):
        free.put(slot)

    def carry_out_one(run: Run) -> str:
        slot = free.get()
        try:
            for last in range(1, len(run.steps) + 1):
                if failed := _step(run.steps[:last], slot):
                    return failed
        finally:
            free.put(slot)
        records.add(study, _record(run, keep), run.fields)
        return ""

    with ThreadPoolExecutor(free.qsize()) as pool:
        for done, outcome in enumerate(
            as_completed([pool.submit(carry_out_one, run) for run in todo]), 1
        ):
            print(f"{study}: {done}/{len(todo)}  {outcome.result()}".rstrip(), flush=True)
    found = [records.find(run.fields, run.steps, records.read(study))[0] for run in runs]
    return [record for record in found if record]


def _step(steps: Sequence[tuple[Command, str]], slot: Slot) -> str:
    """Does the last of some steps, unless its file is there and was made by all of them; returns
    what went wrong.

    The settings are written before the step begins, to a file that is locked until the step has
    ended, even if this process is killed. Whoever shares the step, here or in another process,
    waits and then finds it done.
    """
    command, made = steps[-1]
    wanted = [command for command, _ in steps]
    beside = (  # not in the folder, which may be a module
        f"{os.path.dirname(made)}-{os.path.basename(made)}.commands"
    )
    os.makedirs(os.path.dirname(beside) or ".", exist_ok=True)
    with open(beside, "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        found = file.read().splitlines()
        there = os.path.exists(made)
        if there and not found:
            return f"{made}: there already, and nothing says what made it; move its folder away"
        if (
            found
            and (other := records.difference(found, wanted))
            and os.path.exists(os.path.dirname(made))
        ):
            return (
                f"{made}: there already{'' if there else ' in part'}, {other}; move its folder away"
            )
        if there:
            return ""
        file.truncate(0)
        file.write("\n".join(map(records.as_line, wanted)))
        file.flush()
        line = ["taskset", "-c", ",".join(map(str, slot.cores)), sys.executable, "-m", *command]
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": slot.gpu} if slot.gpu else None
        done = subprocess.run(
            line,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            pass_fds=[file.fileno()],
        )
    return (
        f"{shlex.join(command)}: {done.stderr.strip().splitlines()[-1:]}" if done.returncode else ""
    )


def _record(run: Run, keep: Callable[[dict, str], dict] | None) -> dict:
    with open(run.result) as file:
        result = json.load(file)
    commands = [command for command, _ in run.steps]
    return {
        **(keep(result, run.result) if keep else result),
        **run.fields,
        "run": run_id(os.path.dirname(run.result)),
        "commands": list(map(_as_typed, commands)),
        "settings": list(map(records.as_line, commands)),
        "weights": records.weights(run.steps),
        "commit": commit(),
        "date": f"{datetime.date.today()}",
        "machine": _machine(),
    }


@functools.cache
def commit() -> str | None:
    """The commit of the code, with '-dirty' if files other than records differ from it; None
    outside of git.
    """

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", *words], cwd=records.FOLDER, capture_output=True, text=True, check=True
        ).stdout

    try:
        changed = git(
            "status",
            "--porcelain",
            "--untracked-files=no",
            ":/",
            ":(top,exclude)studies/*/records.json",
        )
        return git("rev-parse", "HEAD").strip() + ("-dirty" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _machine() -> str:
    """The GPUs; without one the processor, and how many cores this process may use."""
    if gpus := devices.gpu_names():
        return f"one GPU a run, {len(gpus)} in the machine, {gpus[0]}"
    name = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as file:
            name = next(
                (line.split(": ")[1].strip() for line in file if line.startswith("model name")),
                name,
            )
    return f"one core a run, {len(devices.cores())} cores, {name}"
