"""Kills a binary at random moments until it was killed often enough, and compares what it ends with.

    python -m tests.faults.kill --task=linear --kills=20 --seed=0

The runs are those of tests/conformance_test.py, a little longer. A run that ended begins anew in another directory.
"""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np
from absl import app, flags

from cpc_tf import cli
from cpc_tf.registry import Task
from cpc_tf.tasks import TASKS
from tests import conformance_test as conformance

FLAGS = flags.FLAGS
LENGTH = ["--batch_size=2", "--train_steps=12", "--steps_per_loop=1", "--checkpoint_every=2", "--strategy=single"]


def command(task: str, root: pathlib.Path, workdir: pathlib.Path) -> list[str]:
    """A command line of a short run: this module again, since tiny.flags have settings that are no flags."""
    return [sys.executable, "-m", "tests.faults.kill", f"--task={task}", f"--root={root}", f"--workdir={workdir}"]


def once(task: Task, root: pathlib.Path, workdir: str) -> None:
    """Runs a task, from its flags to its result."""
    lines = [*conformance.tiny_flags(root, task), *LENGTH, f"--data_dir={root}/cache", f"--workdir={workdir}"]
    task.run(cli.parse(task.config, lines, recorded=True))


def outcome(workdir: pathlib.Path) -> tuple[dict, dict]:
    """What must be equal: the result without times, and all tensors of the last checkpoints."""
    result = json.loads((workdir / "result.json").read_text())
    return conformance.without_time(result), conformance.weights(workdir)


def differences(one: tuple[dict, dict], other: tuple[dict, dict]) -> list[str]:
    """Names of what differs between two outcomes."""
    (result, weights), (result2, weights2) = one, other
    found = [name for name in {*result, *result2} if result.get(name) != result2.get(name)]
    found += [str(name) for name in weights.keys() ^ weights2.keys()]
    return found + [str(name) for name in weights.keys() & weights2.keys() if np.any(weights[name] != weights2[name])]


def run(arguments: list[str], seconds: float | None = None) -> tuple[bool, float]:
    """Runs a command, killed after some seconds; whether it ended by itself, and how long it took."""
    start = time.monotonic()
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        _, error = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.communicate()
        return False, time.monotonic() - start
    if process.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed:\n{error}")
    return True, time.monotonic() - start


def main(argv) -> None:
    """Runs undisturbed, then kills; exits with 1 if an outcome differs."""
    if FLAGS.workdir:
        return once(TASKS[FLAGS.task], pathlib.Path(FLAGS.root), FLAGS.workdir)
    random, kills, runs = np.random.default_rng(FLAGS.seed), 0, 0
    with tempfile.TemporaryDirectory() as name:
        root = conformance.write_root(pathlib.Path(name, "data"))
        whole = pathlib.Path(name, "whole")
        run(command(FLAGS.task, root, whole))
        _, duration = run(command(FLAGS.task, root, pathlib.Path(name, "again")))  # with all caches filled
        expected = outcome(whole)
        while kills < FLAGS.kills:
            workdir = pathlib.Path(name, f"killed{runs}")
            while kills < FLAGS.kills:
                ended, _ = run(command(FLAGS.task, root, workdir), float(random.uniform(0.3, 1.1) * duration))
                if ended:
                    break
                kills += 1
                print(f"{kills} of {FLAGS.kills} kills", flush=True)
            else:
                run(command(FLAGS.task, root, workdir))
            runs += 1
            if found := differences(expected, outcome(workdir)):
                raise SystemExit(f"after {kills} kills these differ: {', '.join(found)}")
    print(f"{FLAGS.task}: {kills} kills in {runs} runs of {duration:.0f} s, all equal to the undisturbed one")


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    flags.DEFINE_enum("task", "pretrain", [*TASKS], "what is run")
    flags.DEFINE_integer("kills", 20, "how often")
    flags.DEFINE_integer("seed", 0, "of the moments")
    flags.DEFINE_string("root", "", "of a single run: the folder with its data")
    flags.DEFINE_string("workdir", "", "of a single run: its directory")
    app.run(main)
