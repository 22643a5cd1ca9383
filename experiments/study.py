"""Runs many training runs, one per core at a time, and keeps what they found in experiments/results/.

A study may be interrupted: the same command goes on, since each run resumes, and a run is not repeated if it is
recorded with the settings that the study has today (`experiments.records`; `python -m experiments.check` lists them). A
record of other settings is named, the run is done anew, and then the record moves to experiments/earlier_results/. What
other settings left in the folder of a run is refused. Several studies, or one study several times, may run at once.
"""

from __future__ import annotations

import dataclasses
import datetime
import fcntl
import json
import os
import pathlib
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from queue import Queue

from cpc_tf.results.blocks import spread, text
from cpc_tf.results.runs import run_id
from experiments import records
from experiments.records import Command

RESULTS = pathlib.Path(__file__).parent / "results"


@dataclasses.dataclass(frozen=True)
class Run:
    """One point of a study: commands one after another, each with the file that shows it done.

    Attributes:
      fields: what the record says beside the last command's result.
      steps: (module and flags, file written last) in order; the last file is a result.json.
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


def linear(folder: str, more: Command) -> tuple[Command, str]:
    """The step that classifies on FOLDER/hub, without baselines."""
    command = ["cpc_tf.linear", *more, "--nobaselines", f"--encoder={folder}/hub", f"--workdir={folder}/linear"]
    return command, f"{folder}/linear/result.json"


def carry_out(name: str, runs: Sequence[Run], cores: int = 0, keep: Callable[[dict], dict] = dict) -> list[dict]:
    """Runs what is not done yet and adds a record of each run to results/NAME.json as it ends; returns `recorded`.

    Args:
      name: of the study.
      runs: in order of importance.
      cores: runs at a time, each bound to a core of its own; 0: as many as there are.
      keep: makes a record of a result.
    """
    path = RESULTS / f"{name}.json"
    todo = []
    for run in runs:
        known, other = records.standing(run.fields, run.steps, records.read(path))
        todo += [] if known else [run]
        if other:
            print(f"{name}: {run.fields}: the record was {other}: run anew", flush=True)
    free: Queue[int] = Queue()
    for core in sorted(os.sched_getaffinity(0))[: cores or None]:
        free.put(core)

    def carry_out_one(run: Run) -> str:
        if failed := _carry_out(run, free):
            return failed
        return records.add(path, _record(run, keep), run.fields, run.steps)

    start = time.monotonic()
    with ThreadPoolExecutor(free.qsize()) as pool:
        for done, outcome in enumerate(as_completed([pool.submit(carry_out_one, run) for run in todo]), 1):
            minutes = (time.monotonic() - start) / 60
            left = minutes / done * (len(todo) - done)
            said = f"{name}: {done}/{len(todo)}  {minutes:.0f} min, {left:.0f} left  {outcome.result()}"
            print(said.rstrip(), flush=True)
    return recorded(name, runs)


def recorded(name: str, runs: Sequence[Run]) -> list[dict]:
    """The records of a study, but for those of the fields of one of the runs and of other settings."""
    found = records.read(RESULTS / f"{name}.json")
    right = [records.standing(run.fields, run.steps, found).record for run in runs]
    return [r for r in found if r in right or not any(run.fields.items() <= r.items() for run in runs)]


def _carry_out(run: Run, free: Queue[int]) -> str:
    """The steps of a run on the next free core; what went wrong."""
    core = free.get()
    try:
        for number, (command, made) in enumerate(run.steps, 1):
            wanted = [command for command, _ in run.steps[:number]]  # it depends on the steps before, too
            if failed := _step(wanted, made, core):
                return failed
        return ""
    finally:
        free.put(core)


def _step(commands: Sequence[Command], made: str, core: int) -> str:
    """The last of some commands, unless what it makes is there, made by all of them; what went wrong.

    The settings are written beside what is made, before it is. That file is locked until the command has ended, even
    if this process is killed: whoever shares the step, here or in another process, waits and then finds it done.
    """
    beside = f"{os.path.dirname(made)}-{os.path.basename(made)}.commands"  # not in its folder, which may be a module
    os.makedirs(os.path.dirname(beside) or ".", exist_ok=True)
    with open(beside, "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        found, compared = file.read().splitlines(), commands
        flags = os.path.join(os.path.dirname(made), "run.flags")
        if not found and commands[-1][0] in records.CONFIGS and os.path.exists(flags):  # which tell no steps before
            found, compared = [shlex.join([commands[-1][0], f"--flagfile={flags}"])], commands[-1:]
        there = os.path.exists(made)
        if found and (there or os.path.exists(flags)) and (other := records.difference(found, compared)):
            return f"{made}: there already{'' if there else ' in part'}, {other}; move its folder away"
        if there and not found:
            print(f"{made}: there already, nothing says what made it; taken for this study's", flush=True)
        if there:
            return ""
        file.truncate(0)
        file.write("\n".join(map(records.as_line, commands)))
        file.flush()
        line = ["taskset", "-c", str(core), sys.executable, "-m", *commands[-1]]
        done = subprocess.run(line, capture_output=True, text=True, check=False, pass_fds=[file.fileno()])
    return f"{shlex.join(commands[-1])}: {done.stderr.strip().splitlines()[-1:]}" if done.returncode else ""


def _record(run: Run, keep: Callable[[dict], dict]) -> dict:
    with open(run.result) as file:
        result = json.load(file)
    commands = [f"python -m {shlex.join(command)}" for command, _ in run.steps]
    date = datetime.date.fromtimestamp(os.path.getmtime(run.result)).isoformat()
    origin = {"run": run_id(os.path.dirname(run.result)), "commands": commands, "date": date, "machine": machine()}
    origin["settings"] = [records.as_line(command) for command, _ in run.steps]
    origin["weights"] = records.given_weights(run.steps)
    return {**keep(result), **run.fields, **origin}


def machine() -> str:
    """What the figures were measured on: the processor and how many cores this process may use."""
    name = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as file:
            name = next((line.split(": ")[1].strip() for line in file if line.startswith("model name")), name)
    return f"one core a run, {len(os.sched_getaffinity(0))} cores, {name}"


def table(records: Sequence[dict], row: str, column: str, value: str = "top1") -> str:
    """A Markdown table of one value: a line per `row`, a column per `column`, seeds as spread."""
    rows = list(dict.fromkeys(record[row] for record in records))
    columns = list(dict.fromkeys(record[column] for record in records))
    lines = [f"| {row} | " + " | ".join(map(str, columns)) + " |", "|---" * (len(columns) + 1) + "|"]
    for r in rows:
        found = [[x[value] for x in records if x[row] == r and x[column] == c] for c in columns]
        lines.append(f"| {r} | " + " | ".join(text(spread(v)) for v in found) + " |")
    return "\n".join(lines)
