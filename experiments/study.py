"""Runs many training runs, one per core at a time, and keeps what they found in experiments/results/.

A study may be interrupted: the same command goes on, since each run resumes, and what stands in the results is not
repeated. To measure anew, delete the file and the folders of the runs: what other commands left there is refused, as
far as it is known who left it, and a record of other settings is named.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import pathlib
import platform
import shlex
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import Queue

from cpc_tf.files import write_file
from cpc_tf.results.blocks import spread, text
from cpc_tf.results.runs import run_id

RESULTS = pathlib.Path(__file__).parent / "results"
# Flags that say where something lies: no settings, they differ between machines.
PLACES = ("--dataset", "--pictures", "--encoder", "--initial_encoder", "--module", "--workdir", "--output")
Command = Sequence[str]


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
    """Runs what is not done yet and writes all records to results/NAME.json; returns them.

    Args:
      name: of the study.
      runs: in order of importance.
      cores: runs at a time, each bound to a core of its own; 0: as many as there are.
      keep: makes a record of a result.
    """
    path = RESULTS / f"{name}.json"
    before = json.loads(path.read_text()) if path.exists() else []
    todo = [run for run in runs if not _recorded(run, before)]
    locks: dict[str, threading.Lock] = defaultdict(threading.Lock)
    free: Queue[int] = Queue()
    for core in sorted(os.sched_getaffinity(0))[: cores or None]:
        free.put(core)
    start, found = time.monotonic(), []
    with ThreadPoolExecutor(free.qsize()) as pool:
        outcomes = pool.map(lambda run: _carry_out(run, free, locks), todo)
        for done, (run, failed) in enumerate(zip(todo, outcomes), 1):
            minutes = (time.monotonic() - start) / 60
            left = minutes / done * (len(todo) - done)
            print(f"{name}: {done}/{len(todo)}  {minutes:.0f} min, {left:.0f} left  {failed}".rstrip(), flush=True)
            found += [] if failed else [_record(run, keep)]
            write_file(str(path), json.dumps([*before, *found], indent=1) + "\n")
    return json.loads(path.read_text())


def _carry_out(run: Run, free: Queue[int], locks: dict[str, threading.Lock]) -> str:
    """The steps of a run on the next free core; what went wrong."""
    core = free.get()
    try:
        for number, (command, made) in enumerate(run.steps, 1):
            wanted = [shlex.join(command) for command, _ in run.steps[:number]]  # it depends on the steps before, too
            with locks[made]:  # a step that several runs share is done by the first of them
                if os.path.exists(made):
                    if (found := _commands_of(made)) not in ([], wanted):
                        return f"{made}: there already, {_difference(found, wanted)}; move its folder away"
                    continue
                line = ["taskset", "-c", str(core), sys.executable, "-m", *command]
                done = subprocess.run(line, capture_output=True, text=True, check=False)
                if done.returncode:
                    return f"{shlex.join(command)}: {done.stderr.strip().splitlines()[-1:]}"
                write_file(_beside(made), "\n".join(wanted))
        return ""
    finally:
        free.put(core)


def _beside(made: str) -> str:
    """Where it is written which commands made the file: beside its folder, which may be a module."""
    return f"{os.path.dirname(made)}-{os.path.basename(made)}.commands"


def _commands_of(made: str) -> list[str]:
    """The commands that made the file, the last one its own; none where they are not known."""
    path = pathlib.Path(_beside(made))
    return path.read_text().splitlines() if path.exists() else []


def _difference(found: Sequence[str], wanted: Sequence[str]) -> str:
    """What two runs' commands do not share."""
    before, now = (list(dict.fromkeys(shlex.split(" ".join(commands)))) for commands in (found, wanted))
    gone, new = (shlex.join(x for x in some if x not in others) for some, others in ((before, now), (now, before)))
    return f"made with {gone or 'nothing'} where this study has {new or 'nothing'}"


def _recorded(run: Run, records: Sequence[dict]) -> bool:
    """Whether there is a record of the run; says so if it was made with other settings."""
    fitting = [record for record in records if run.fields.items() <= record.items()]
    wanted = _settings(" ".join(shlex.join(command) for command, _ in run.steps))
    found = [_settings(" ".join(record.get("commands", ()))) for record in fitting]
    if found and wanted not in found:
        print(f"{run.fields}: kept the record, {_difference([shlex.join(found[0])], [shlex.join(wanted)])}", flush=True)
    return bool(fitting)


def _settings(commands: str) -> list[str]:
    """The flags that are settings, sorted."""
    given = (word for word in shlex.split(commands) if word.startswith("--"))
    return sorted({word for word in given if word.partition("=")[0] not in PLACES})


def _record(run: Run, keep: Callable[[dict], dict]) -> dict:
    with open(run.result) as file:
        result = json.load(file)
    commands = [f"python -m {shlex.join(command)}" for command, _ in run.steps]
    date = datetime.date.fromtimestamp(os.path.getmtime(run.result)).isoformat()
    origin = {"run": run_id(os.path.dirname(run.result)), "commands": commands, "date": date, "machine": machine()}
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
