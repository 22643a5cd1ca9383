"""Measures training beside another version of this project, or in another lane.

    python -m benchmarks.versions --before=CHECKOUT > table.md
    python -m benchmarks.versions --before_python=.venv-current/bin/python > table.md

Each task trains for some steps from its preset, in the two checkouts in turns; what is compared are the images a second
that it records itself, its input and all, and the largest memory of the process.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from absl import app, flags

FLAGS = flags.FLAGS
AFTER = pathlib.Path(__file__).parents[1]
QUICK = ["--checkpoint_every=1000000", "--probe_every=0", "--steps_per_loop=20"]
DATA = "--data_dir=DATA"
# Name -> a module and its flags. DATA and HUB are directories of the measurement.
RUNS = {
    "pretrain": ["cpc_tf.pretrain", "--flagfile=flags/photos/pretrain.flags", DATA, *QUICK, "--train_steps=200"],
    "resnet161": [
        *("cpc_tf.pretrain", "--flagfile=flags/imagenet/pretrain_resnet161.flags", "--dataset=photos/120"),
        *("--split=unlabelled", DATA, "--batch_size=2", "--steps_per_loop=1", "--train_epochs=0", "--train_steps=4"),
    ],
    "pixels": [
        *("cpc_tf.efficient", "--flagfile=flags/photos/efficient_pixels.flags", "--encoder=pixels", DATA),
        *("--held_out=0", "--train_steps=200", "--steps_per_loop=20"),
    ],
    "fine-tuning": [
        *("cpc_tf.efficient", "--flagfile=flags/photos/efficient.flags", "--encoder=HUB", DATA, "--held_out=0"),
        *("--train_steps=20", "--steps_per_loop=20", "--finetune_steps=100"),
    ],
    "detection": [
        *("cpc_tf.detect", "--flagfile=flags/collages/detect.flags", "--encoder=HUB", DATA),
        *("--train_epochs=0", "--train_steps=50", "--steps_per_loop=10"),
    ],
}
# The same weights as a network of ours, with our operations.
RUNS["detection-rebuilt"] = [flag.replace("=HUB", "=network:HUB") for flag in RUNS["detection"]]


def compare(before: str, rounds: int, tasks: Sequence[str], python: str = sys.executable) -> None:
    """Prints a row for each task. `python` runs the version before."""
    if not pathlib.Path(before, "cpc_tf").is_dir():
        raise SystemExit(
            f"--before={before}: is no checkout of this project; make one: git worktree add DIRECTORY COMMIT"
        )
    if unknown := [task for task in tasks if task not in RUNS]:
        raise SystemExit(f"--tasks={','.join(tasks)}: {unknown[0]!r} is none of {', '.join(RUNS)}")
    found = shutil.which(python)
    if not found:
        raise SystemExit(f"--before_python={python}: cannot be run; name the Python of an environment of this project")
    python = os.path.abspath(found)
    print("| task | images/s before | now | now / before | memory before, MB | now |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as room:
        versions = [Version(pathlib.Path(before), room, "before", python), Version(AFTER, room, "now")]
        for task in tasks:
            found = [[version.measure(task) for version in versions] for _ in range(rounds)]
            (rate0, memory0), (rate1, memory1) = (
                [statistics.median(one[figure] for one in version) for figure in ("rate", "memory")]
                for version in zip(*found)
            )
            ratio = statistics.median(new["rate"] / old["rate"] for old, new in found)
            print(f"| {task} | {rate0:.3g} | {rate1:.3g} | {ratio:.2f} | {memory0:.0f} | {memory1:.0f} |", flush=True)


class Version:
    """A checkout that trains in a directory of its own, with a Python."""

    def __init__(self, checkout: pathlib.Path, room: str, name: str, python: str = sys.executable):
        self.name, self._checkout, self._room, self._python = name, checkout, pathlib.Path(room, name), python
        self._count = 0

    def measure(self, task: str) -> dict[str, float]:
        """Images a second, as the run recorded them last, and the largest memory of the process, MB."""
        if any(flag.endswith("HUB") for flag in RUNS[task]):
            self._export()
        self._count += 1
        workdir = self._room / f"{task}{self._count}"
        memory = self._run([*RUNS[task], f"--workdir={workdir}"])
        newest = max(workdir.rglob("metrics.jsonl"), key=lambda path: path.stat().st_mtime)
        return {"rate": json.loads(newest.read_text().splitlines()[-1])["images_per_second"], "memory": memory}

    def _export(self) -> None:
        if (self._room / "hub").exists():
            return
        workdir = self._room / "exported"
        self._run([*RUNS["pretrain"], "--train_steps=1", f"--workdir={workdir}"])
        self._run(["export", f"--workdir={workdir}", f"--output={self._room / 'hub'}"])

    def _run(self, command: list[str]) -> float:
        """Runs a module to its end; its largest memory, MB."""
        names = {"DATA": str(self._room.parent / "data"), "HUB": str(self._room / "hub")}
        command = [re.sub("([=:])(DATA|HUB)$", lambda found: found[1] + names[found[2]], flag) for flag in command]
        log = self._room / "log"
        self._room.mkdir(exist_ok=True)
        with open(log, "w") as file:
            child = subprocess.Popen([self._python, "-m", *command], cwd=self._checkout, stdout=file, stderr=file)
            _, status, usage = os.wait4(child.pid, 0)
        if status:
            raise SystemExit(f"{' '.join(command)}\n{log.read_text()[-3000:]}")
        return usage.ru_maxrss / 1024


if __name__ == "__main__":
    flags.DEFINE_string("before", str(AFTER), "the other version: a directory, as of `git worktree add`; or this one")
    flags.DEFINE_string("before_python", sys.executable, "the other version's Python, as of another lane")
    flags.DEFINE_integer("rounds", 3, "measurements of each version")
    flags.DEFINE_list("tasks", [*RUNS], "which ones")
    app.run(lambda argv: compare(FLAGS.before, FLAGS.rounds, FLAGS.tasks, FLAGS.before_python))
