"""Runs a binary with each of its numbers at either end of its range, and tells what becomes of it.

    python -m tests.faults.extremes --task=detect

A run ends, is refused or ends early in one line, or lasts longer than `--seconds`; anything else is a defect.
"""

from __future__ import annotations

import collections
import itertools
import multiprocessing
import os
import pathlib
import tempfile
from collections.abc import Iterator

from absl import app, flags

from cpc_tf.settings import leaves
from cpc_tf.tasks import TASKS
from tests import conformance_test as conformance
from tests.faults.killed_run import once

FLAGS = flags.FLAGS
LEAST = 1e-30  # of what must be above 0

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["tests.faults.killed_run"])


def extremes(task: str) -> Iterator[str]:
    """--flag=value for both ends of each range."""
    for _, field in leaves(TASKS[task].config):
        rules = field.metadata
        if field.type not in (int, float) or rules["choices"] or not rules["flag"]:
            continue
        lowest = rules["minimum"] if rules["above"] is None else max(LEAST, rules["above"])
        yield f"--{field.name}={field.type(lowest)}"
        yield f"--{field.name}={field.type(rules['maximum'])}"


def end(task: str, room: pathlib.Path, number: int, flag: str, seconds: float) -> tuple[str, str]:
    """('ended', 'one line', 'long' or 'broken', what was said last)."""
    log = room / "log"
    arguments = (task, str(room / "data"), str(room / f"run{number}"), str(log), ["--train_steps=2", flag])
    child = SERVER.Process(target=once, args=arguments)
    child.start()
    child.join(seconds)
    if child.exitcode is None:
        child.kill()
        child.join()
        return "long", ""
    said = log.read_text(errors="replace").splitlines()
    kinds = {0: "ended", 1: "broken"}
    return kinds.get(child.exitcode, "one line" if child.exitcode > 0 else "broken"), said[-1] if said else ""


def main(argv) -> None:
    """Tries them all; exits with 1 if something is broken."""
    counts = collections.Counter()
    with tempfile.TemporaryDirectory() as name:
        room = pathlib.Path(name)
        writer = SERVER.Process(target=conformance.write_root, args=(room / "data",))
        writer.start()
        writer.join()
        begun = itertools.dropwhile(lambda flag: not flag.startswith(f"--{FLAGS.first}"), extremes(FLAGS.task))
        for number, flag in enumerate(begun):
            kind, said = end(FLAGS.task, room, number, flag, FLAGS.seconds)
            counts[kind] += 1
            print(f"{flag}: {kind}: {said[:300]}" if kind != "ended" else f"{flag}: {kind}", flush=True)
    print(f"{FLAGS.task}: {dict(counts)}")
    raise SystemExit(bool(counts["broken"]))


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    flags.DEFINE_enum("task", "detect", [*TASKS], "what is run")
    flags.DEFINE_string("first", "", "the flag to begin with")
    flags.DEFINE_float("seconds", 90, "after which a run counts as long")
    app.run(main)
