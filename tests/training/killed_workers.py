"""Two processes that train together are killed at random moments, one at a time, and restarted by `cpc_tf.restart`.

    python -m tests.training.killed_workers --kills=10 --seed=0

The end is compared bit for bit with that of two processes that were left alone.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import sys
import tempfile
import time

import numpy as np
from absl import app, flags

from tests import multiworker_test as multiworker
from tests import samples
from tests.training import killed_run

SMALLER = ["--encoder=tiny", "--resize=24", "--image_size=24", "--patch_size=8", "--patch_stride=8", "--directions=1"]
LENGTH = ["--steps_per_loop=1", "--checkpoint_every=5"]
LOOP = "import sys; from cpc_tf import restart; sys.exit(restart.run(sys.argv[1:], restarts=1000, pause=0.1))"
RESTART = [sys.executable, "-c", LOOP]


def kill(room: pathlib.Path, kills: int, seed: int, steps: int = 200) -> str:
    """Kills a run of so many steps so often, compares the end and returns how often each process was killed."""
    random = np.random.default_rng(seed)
    _finish(start(room, "whole", steps))
    loops, killed = start(room, "killed", steps, before=RESTART), [0, 0]
    while sum(killed) < kills:
        victim = int(random.integers(2))
        if random.random() < 0.25:
            time.sleep(random.uniform(0, 20))  # the start of a run is long and has no records
        else:
            step = steps * (sum(killed) + random.uniform(0, 0.9)) / kills
            while _recorded(room / "killed") < step and all(loop.poll() is None for loop in loops):
                time.sleep(0.01)
            time.sleep(random.uniform(0, 0.3))  # the time of some steps and of saving
        assert all(loop.poll() is None for loop in loops), _finish(loops)
        killed[victim] += _kill_child(loops[victim])
    logs = _finish(loops)
    found = killed_run.differences(killed_run.outcome(room / "whole"), killed_run.outcome(room / "killed"))
    assert not found, f"after {killed} kills these differ: {', '.join(found)}"
    lost = sum(log.count("another worker was lost") for log in logs)
    return f"killed {killed[0]} and {killed[1]} times, lost the other {lost} times: ended equal"


def start(room, name, steps, before=()):
    """Starts both processes of a run of some seconds."""
    own = [*LENGTH, f"--train_steps={steps}", f"--data_dir={room}/data", f"--workdir={room}/{name}"]
    return multiworker.start_workers("cpc_tf.pretrain", *samples.PRETRAIN, *SMALLER, *own, before=before)


def _finish(processes) -> list[str]:
    outputs = [process.communicate()[0] for process in processes]
    for process, output in zip(processes, outputs):
        assert process.returncode == 0, output[-5000:]
    return outputs


def _kill_child(loop) -> int:
    """Kills what a restarting loop runs; returns how many processes that were: none between two of them."""
    children = pathlib.Path(f"/proc/{loop.pid}/task/{loop.pid}/children")
    count = 0
    for child in children.read_text().split() if children.exists() else ():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(child), signal.SIGKILL)
            count += 1
    return count


def _recorded(workdir: pathlib.Path) -> int:
    """Returns the number of recorded steps."""
    path = workdir / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def main(argv) -> None:
    """The tool."""
    with tempfile.TemporaryDirectory() as room:
        print(kill(pathlib.Path(room), flags.FLAGS.kills, flags.FLAGS.seed))


if __name__ == "__main__":
    flags.DEFINE_integer("kills", 10, "how often")
    flags.DEFINE_integer("seed", 0, "of the moments")
    app.run(main)
