"""Two processes that train together are killed at random moments, one at a time.

    python -m tests.training.killed_workers --kills=10 --seed=0

What was killed or lost the other starts again, as `cpc_tf.restart` does it. The end is compared bit for bit with that
of two processes that were left alone.
"""

from __future__ import annotations

import pathlib
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable

import numpy as np
from absl import app, flags

from cpc_tf import restart
from tests import processes, samples
from tests.training import killed_run

KILLED_OR_LOST = (-signal.SIGKILL, *restart.LOST)  # exit statuses
Start = Callable[[int], subprocess.Popen]  # of the worker with a number


def kill(start: Start, whole: pathlib.Path, workdir: pathlib.Path, steps: int, kills: int, seed: int) -> str:
    """Kills a run so often, compares its end with that of a whole one, and returns how often each process was killed.

    Args:
      start: starts a process of the run.
      whole: the directory of the same run that was left alone.
      workdir: of the run.
      steps: of the run.
      kills: how often one of its processes is killed.
      seed: of the moments.
    """
    random, killed, lost = np.random.default_rng(seed), [0, 0], 0
    workers = [start(index) for index in (0, 1)]

    def going_on() -> bool:
        """Starts again what was killed or lost the other; returns whether one of them has not ended yet."""
        nonlocal lost
        statuses = [worker.poll() for worker in workers]
        for index, status in enumerate(statuses):
            if status in KILLED_OR_LOST:
                workers[index], lost = start(index), lost + (status > 0)
            else:
                assert status in (None, 0), workers[index].args
        return statuses != [0, 0]

    def wait(seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until and going_on():
            time.sleep(0.01)

    while sum(killed) < kills:
        victim = int(random.integers(2))
        if random.random() < 0.25:
            wait(random.uniform(0, 20))  # the start of a run is long and has no records
        else:
            step = steps * (sum(killed) + random.uniform(0, 0.9)) / kills
            while going_on() and killed_run.recorded(workdir) < step:
                time.sleep(0.01)
            wait(random.uniform(0, 0.3))  # the time of some steps and of saving
        assert going_on(), f"ended after {sum(killed)} kills"
        workers[victim].kill()
        killed[victim] += 1
        workers[victim].wait()
    while going_on():
        time.sleep(0.01)
    found = killed_run.differences(killed_run.outcome(whole), killed_run.outcome(workdir))
    assert not found, f"after {killed} kills these differ: {', '.join(found)}"
    return f"killed {killed[0]} and {killed[1]} times, lost the other {lost} times: ended equal"


def main(argv) -> None:
    """The tool."""
    processes.prepare()
    steps = 200
    with tempfile.TemporaryDirectory() as folder:
        room = pathlib.Path(folder)
        words = [*samples.PRETRAIN_SMALLEST, f"--train_steps={steps}"]
        words += ["--checkpoint_every=5", f"--data_dir={room}/data"]

        def start(name: str) -> Start:
            return processes.cluster("cpc_tf.pretrain", *words, f"--workdir={room}/{name}", stdout=subprocess.DEVNULL)

        first = start("whole")
        assert [worker.wait() for worker in (first(0), first(1))] == [0, 0]
        print(kill(start("killed"), room / "whole", room / "killed", steps, flags.FLAGS.kills, flags.FLAGS.seed))


if __name__ == "__main__":
    flags.DEFINE_integer("kills", 10, "how often")
    flags.DEFINE_integer("seed", 0, "of the moments")
    app.run(main)
