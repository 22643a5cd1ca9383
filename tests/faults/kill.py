"""Kills a binary at random moments until it was killed often enough, and compares what it ends with.

    python -m tests.faults.kill --task=linear --kills=20 --seed=0
    python -m tests.faults.kill --task=linear --kills=20 --seed=0 --power_loss

A run that ended begins anew in another directory. With `--power_loss` files are cut after each kill, as if they had
not reached the disk: the run ends equal, or is refused in a line.
"""

from __future__ import annotations

import collections
import multiprocessing
import os
import pathlib
import tempfile
import time

import numpy as np
from absl import app, flags

from cpc_tf.settings import ConfigError
from cpc_tf.tasks import TASKS
from tests import conformance_test as conformance
from tests.faults.killed_run import cut, differences, once, outcome

FLAGS = flags.FLAGS

# Children begin with everything imported, in a process in which TensorFlow has not run.
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["tests.faults.killed_run"])


class Killer:
    """Runs of a task in directories of their own.

    Attributes:
      counts: how many runs ended equal, kills and refusals there were.
    """

    def __init__(self, task: str, room: pathlib.Path, seed: int):
        self._task, self._room, self._random = task, room, np.random.default_rng(seed)
        self._log = room / "log"
        self.counts = collections.Counter()
        writer = SERVER.Process(target=conformance.write_root, args=(room / "data",))
        writer.start()
        writer.join()
        self.run("whole")
        self.duration = self.run("again")  # with all caches filled
        self._expected = outcome(room / "whole")

    def run(self, name: str) -> float:
        """Runs to the end; seconds."""
        start = time.monotonic()
        if self._status(name) != 0:
            raise SystemExit(f"the run failed:\n{self._log.read_text()[-3000:]}")
        return time.monotonic() - start

    def _status(self, name: str, seconds: float | None = None, in_training: bool = False) -> int | None:
        """The exit status of a run; None: it was killed after some seconds, counted from a first step or the start."""
        workdir = self._room / name
        child = SERVER.Process(target=once, args=(self._task, str(self._room / "data"), str(workdir), str(self._log)))
        before = _recorded(workdir)
        child.start()
        while in_training and child.exitcode is None and _recorded(workdir) <= before:
            child.join(0.1)
        child.join(seconds)
        if child.exitcode is not None:
            return child.exitcode
        child.kill()
        child.join()
        return None

    def one(self, kills: int, power_loss: bool) -> None:
        """A run that is killed until it ends, `kills` is reached, or it is refused."""
        name = f"killed{self.counts['equal'] + self.counts['refused']}"
        while self.counts["kills"] < kills:
            in_training = bool(self._random.integers(2))  # otherwise most kills would hit the start
            seconds = self._random.uniform(0, 0.3) if in_training else self._random.uniform(0, 1.1)
            status = self._status(name, float(seconds * self.duration), in_training)
            if status is not None:
                break
            self.counts["kills"] += 1
            print(f"{self.counts['kills']} of {kills} kills", flush=True)
            if power_loss:
                cut(self._random, self._room / name)
        else:
            status = self._status(name)
        if status == ConfigError.status and power_loss:
            print(f"refused: {self._log.read_text().splitlines()[-1]}", flush=True)
            self.counts["refused"] += 1
            return
        if status:
            raise SystemExit(f"after {self.counts['kills']} kills:\n{self._log.read_text()[-3000:]}")
        if found := differences(self._expected, outcome(self._room / name)):
            raise SystemExit(f"after {self.counts['kills']} kills these differ: {', '.join(found)}")
        self.counts["equal"] += 1


def _recorded(workdir: pathlib.Path) -> int:
    """Bytes of all records."""
    return sum(path.stat().st_size for path in workdir.rglob("metrics.jsonl"))


def main(argv) -> None:
    """Runs undisturbed, then kills; exits with 1 if an outcome differs."""
    with tempfile.TemporaryDirectory() as room:
        killer = Killer(FLAGS.task, pathlib.Path(room), FLAGS.seed)
        while killer.counts["kills"] < FLAGS.kills:
            killer.one(FLAGS.kills, FLAGS.power_loss)
    counts = killer.counts
    print(
        f"{FLAGS.task}: {counts['kills']} kills; {counts['equal']} runs of {killer.duration:.0f} s ended equal to the "
        f"undisturbed one, {counts['refused']} were refused"
    )


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    flags.DEFINE_enum("task", "pretrain", [*TASKS], "what is run")
    flags.DEFINE_integer("kills", 20, "how often")
    flags.DEFINE_integer("seed", 0, "of the moments")
    flags.DEFINE_boolean("power_loss", False, "cut files after each kill")
    app.run(main)
