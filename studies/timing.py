"""The CPU seconds of a training step, for studies that compare trainings at equal time."""

from __future__ import annotations

import json
import pathlib
import shlex
import subprocess
import sys

from studies import runner
from studies.records import Command

TRIED = 20  # steps; the first half is not counted


def seconds_of_step(training: Command, folder: pathlib.Path) -> float:
    """Returns the CPU seconds of a step on one core, which are nearly the same beside other work.

    Args:
      training: module and flags, without length and directory.
      folder: a new directory for the run.

    Raises:
      RuntimeError: the training failed.
    """
    flags = [
        *training,
        f"--train_steps={TRIED}",
        f"--steps_per_loop={TRIED // 2}",
        f"--workdir={folder}",
    ]
    command = ["taskset", "-c", str(runner.slots(1)[0].cores[0]), sys.executable, "-m", *flags]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        last = "".join(done.stderr.strip().splitlines()[-1:])
        raise RuntimeError(f"timing {TRIED} steps failed: {last}\n{shlex.join(command)}")
    metrics = next(folder.rglob("metrics.jsonl")).read_text().splitlines()
    before, after = map(json.loads, metrics[-2:])
    spent = after["cpu_seconds"] - before["cpu_seconds"]
    return spent / (after["step"] - before["step"])
