"""Short runs that are killed at random moments, in processes of their own, and compared bit for bit
with a whole one.

    python -m tests.training.killed_run --task=linear --kills=20 --seed=0

The runs are those of tests/conformance_test.py, a little longer. With --power_loss some files are
cut after each kill,
as if they had not reached the disk: then the run ends equal, or is refused in one line.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import pytest
from absl import app, flags

from cpc_tf.core import cli
from cpc_tf.core.commands import TASKS
from cpc_tf.core.settings import ConfigError, RunEnded
from tests import conformance_test as conformance
from tests import processes
from tests.conformance_test import weights

LENGTH = [
    "--batch_size=2",
    "--train_steps=12",
    "--steps_per_loop=1",
    "--checkpoint_every=2",
    "--strategy=single",
]
CUT = 0.2  # the share of a run's files that a loss of power cuts


def once(task: str, room: str, workdir: str) -> None:
    """Runs a task as a binary does, with the networks of tests/conformance_test.py; exits with its
    status.
    """
    conformance.make_smallest(pytest.MonkeyPatch())
    lines = [*conformance.tiny_flags(pathlib.Path(room), TASKS[task]), *LENGTH]
    lines += [f"--data_dir={room}/cache", f"--workdir={workdir}"]
    try:
        TASKS[task](cli.parse(TASKS[task].config, lines))
    except RunEnded as error:
        print(error)
        sys.exit(error.status)


def outcome(workdir: pathlib.Path) -> dict:
    """Returns what must be equal: the result without times, and all tensors of the last
    checkpoints.
    """
    result = json.loads((workdir / "result.json").read_text())
    return {**conformance.without_time(result), **weights(workdir)}


def differences(one: dict, other: dict) -> list[str]:
    """Returns the names of what differs between two outcomes."""
    shared = one.keys() & other.keys()
    return [str(name) for name in one.keys() ^ other.keys()] + [
        str(name) for name in shared if not np.array_equal(one[name], other[name])
    ]


def cut(random: np.random.Generator, workdir: pathlib.Path) -> None:
    """Truncates some files below a directory to random lengths, most often to nothing."""
    for path in sorted(path for path in workdir.rglob("*") if path.is_file()):
        if random.random() < CUT:
            os.truncate(path, int(max(0, random.uniform(-1, 1)) * path.stat().st_size))


def kill(task: str, room: pathlib.Path, kills: int, seed: int, power_loss: bool = False) -> str:
    """Kills runs of a task so often and lets the last one end; returns how they ended.

    Raises:
      AssertionError: a run failed, or ended with something else than an undisturbed one.
    """
    random, log = np.random.default_rng(seed), room / "log"
    with pytest.MonkeyPatch.context() as patch:
        conformance.make_smallest(patch)
        conformance.write_root(room)

    def start(workdir: pathlib.Path, moment: float | None = None) -> int | None:
        """Returns the exit status, or None if it was killed after a share `moment` of its
        records.
        """
        words = [f"--task={task}", f"--room={room}", f"--workdir={workdir}"]
        with log.open("w") as file:
            child = processes.start(
                "tests.training.killed_run", *words, stdout=file, stderr=subprocess.STDOUT
            )
        while moment is not None and child.poll() is None and recorded(workdir) < moment * whole:
            time.sleep(0.02)
        if moment is None:
            return child.wait()
        try:
            # The start of a run is long and has no records.
            return child.wait(random.uniform(0, 8 if moment == 0 else 0.3))
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            return None

    assert start(room / "whole") == 0, log.read_text()[-3000:]
    expected, whole = outcome(room / "whole"), recorded(room / "whole")
    counts = {"kills": 0, "equal": 0, "refused": 0}
    while counts["kills"] < kills:
        workdir, status = room / f"killed{counts['equal'] + counts['refused']}", None
        while status is None:
            last = counts["kills"] >= kills
            # One kill in four is in the start, the others at a random step or at the end.
            moment = None if last else float(max(0, random.uniform(-0.3, 1)))
            status = start(workdir, moment)
            counts["kills"] += status is None
            if power_loss and status is None:
                cut(random, workdir)
        if power_loss and status == ConfigError.status:
            counts["refused"] += 1
            continue
        assert status == 0, f"after {counts['kills']} kills:\n{log.read_text()[-3000:]}"
        found = differences(expected, outcome(workdir))
        assert not found, f"after {counts['kills']} kills these differ: {', '.join(found)}"
        counts["equal"] += 1
    return (
        f"{task}: {counts['kills']} kills; {counts['equal']} runs ended equal, {counts['refused']}"
        " were refused"
    )


def recorded(workdir: pathlib.Path) -> int:
    """Returns the number of all records."""
    return sum(path.read_bytes().count(b"\n") for path in workdir.rglob("metrics.jsonl"))


def main(argv) -> None:
    """The tool."""
    chosen = flags.FLAGS
    if chosen.workdir:
        once(chosen.task, chosen.room, chosen.workdir)
        return
    processes.prepare()
    with tempfile.TemporaryDirectory() as room:
        print(kill(chosen.task, pathlib.Path(room), chosen.kills, chosen.seed, chosen.power_loss))


if __name__ == "__main__":
    flags.DEFINE_enum("task", "pretrain", [*TASKS], "what is run")
    flags.DEFINE_integer("kills", 20, "how often")
    flags.DEFINE_integer("seed", 0, "of the moments")
    flags.DEFINE_boolean("power_loss", False, "cut files after each kill")
    flags.DEFINE_string("room", "", "where the data of one run are")
    flags.DEFINE_string("workdir", "", "where one run is")
    app.run(main)
