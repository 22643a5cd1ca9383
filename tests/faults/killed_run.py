"""A short run of a binary in a process that may be killed, and what it ends with.

The runs are those of tests/conformance_test.py, a little longer.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
from collections.abc import Sequence

import numpy as np

from cpc_tf import cli
from cpc_tf.settings import RunEnded
from cpc_tf.tasks import TASKS
from tests import conformance_test as conformance

LENGTH = ["--batch_size=2", "--train_steps=12", "--steps_per_loop=1", "--checkpoint_every=2", "--strategy=single"]
CUT = 0.2  # the share of a run's files that a loss of power cuts


def once(task: str, root: str, workdir: str, log: str, more: Sequence[str] = ()) -> None:
    """A child: runs a task, from its flags to its result; exits with the status of a binary."""
    with open(log, "w") as file:
        os.dup2(file.fileno(), sys.stdout.fileno())
        os.dup2(file.fileno(), sys.stderr.fileno())
    config = TASKS[task].config
    lines = [*conformance.tiny_flags(pathlib.Path(root), TASKS[task]), *LENGTH]
    lines += [f"--data_dir={root}/cache", f"--workdir={workdir}", *more]
    try:
        TASKS[task].run(cli.parse(config, lines, recorded=True))
    except RunEnded as error:
        print(error, flush=True)
        sys.exit(error.status)


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


def cut(random: np.random.Generator, workdir: pathlib.Path) -> None:
    """Truncates some files below a directory to random lengths, most often to nothing."""
    for path in sorted(path for path in workdir.rglob("*") if path.is_file()):
        if random.random() < CUT:
            os.truncate(path, int(max(0, random.uniform(-1, 1)) * path.stat().st_size))
