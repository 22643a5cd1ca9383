"""How long a training step takes on this machine, by a short trial in a process of its own."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

from cpc_tf.core.settings import ConfigError

WALL = "wall_seconds"
CPU = "cpu_seconds"  # of all cores together
_LOOP = 10  # steps between two records
_MOST = 500  # steps of the trial
_SECONDS = 10.0  # that the trial is measured for
_POLL = 0.2  # seconds


def seconds_of_step(module: str, flags: Sequence[str], clock: str = WALL) -> float:
    """Returns the seconds of a step, with its share of the work between epochs.

    The first records of the trial, in which the step is compiled, are not counted.

    Args:
      module: the program, such as 'cpc_tf.pretrain'.
      flags: of the training. Its length and its directory do not count.
      clock: `WALL`, or `CPU`: nearly the same beside other work.

    Raises:
      ConfigError: the trial fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        trial = [
            f"--train_steps={_MOST}",
            f"--steps_per_loop={_LOOP}",
            f"--checkpoint_every={_MOST}",
            f"--workdir={folder}/run",
        ]
        command = [sys.executable, "-m", module, *flags, *trial]
        with open(f"{folder}/errors", "w+") as errors:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
            try:
                records = _measured(process, pathlib.Path(folder))
            finally:
                process.kill()
                process.wait()
            if len(records) < 2:
                errors.seek(0)
                why = "".join(errors.read().strip().splitlines()[-1:])
                raise ConfigError(f"the trial of a few steps failed: {why}")
    first, last = records[0], records[-1]
    step = (last[clock] - first[clock]) / (last["step"] - first["step"])
    return step + last.get(f"between_{clock}", 0.0)


def _measured(process: subprocess.Popen, folder: pathlib.Path) -> list[dict]:
    """Returns the records of a training, but for the first one, once they span enough time or the
    training has ended.
    """
    while True:
        is_over = process.poll() is not None
        records = _records(folder)[1:]
        spans_enough = len(records) > 1 and records[-1][WALL] - records[0][WALL] >= _SECONDS
        if is_over or spans_enough:
            return records
        time.sleep(_POLL)


def _records(folder: pathlib.Path) -> list[dict]:
    """Returns the records so far; the last line may be half written."""
    for path in folder.rglob("metrics.jsonl"):
        whole, _, _ = path.read_text().rpartition("\n")
        return [json.loads(line) for line in whole.splitlines()]
    return []
