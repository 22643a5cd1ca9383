"""Runs the tests as `make test` does: each folder in a process of its own, as many at a time as
there are cores.

    python -m tests.run                     # everything
    python -m tests.run --fast              # without the tests that are marked slow
    python -m tests.run training cli_test export/run_test   # some folders and files

This process imports TensorFlow and the package once and forks, so that no folder pays for that. At
the end stand the CPU seconds of each folder beside those of the last record (tests/budget.txt),
with the dearest tests of the folders that take more. That is information, not a failure. A
yardstick that runs before and after the tests says how much slower this machine is than the one of
the record.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import pathlib
import pkgutil
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

TESTS = pathlib.Path(__file__).parent
BUDGET = TESTS / "budget.txt"
KEPT = TESTS.parent / ".pytest_cache"  # for what depends on its content alone, between runs
REST = "other_files"  # the row of the budget for files at the top that have none of their own
THIRD_PARTY = (
    "tensorflow_datasets",
    "tensorflow_hub",
    "matplotlib.pyplot",
    "sklearn.linear_model",
    "skimage",
    "pytest",
)
# Ends of the names of modules that are run, each in a process of its own, and never imported.
PROGRAMS = ("__main__", "keras_hub_export")
NO_TESTS = 5  # the exit status of pytest where all tests are left out
CORES = min(8, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count())


class Ended(NamedTuple):
    """A process that ended."""

    name: str
    status: int
    cpu: float  # seconds, with those of its children
    gigabytes: float  # the largest of it and its children
    output: str


def main() -> int:
    """Runs what the command line names; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="folders and files below tests/; default: all"
    )
    parser.add_argument(
        "--fast", action="store_true", help="leave out the tests that are marked slow"
    )
    parser.add_argument(
        "--no-budget", action="store_true", help="the budget is that of the classic environment"
    )
    asked = parser.parse_args()
    budget, began = read_budget(), time.monotonic()
    measured = not (asked.fast or asked.no_budget)
    # the last one runs alone
    parts = sorted(asked.names or all_parts(), key=lambda name: -budget.get(name, 0))
    options = ["-m", "not slow"] if asked.fast else []
    import_everything()
    # No TemporaryDirectory: a process that is forked would remove it when it ends.
    room = tempfile.mkdtemp(prefix="cpc_tf_tests_")
    home = os.path.join(room, "home")
    os.mkdir(home)
    os.environ.update(
        CPC_TF_TEST_HOME=home, CPC_TF_TEST_PRICES=room, CPC_TF_CACHE=str(KEPT / "cpc_tf")
    )
    try:
        build_operations(room)
        rates = yardstick(room) if measured else []
        ended = []
        for part in run_forked(
            {name: lambda name=name: run_pytest(name, options) for name in parts}, room
        ):
            ended.append(part)
            print_part(part, ended, parts, time.monotonic() - began, budget)
        rates += yardstick(room) if measured else []
        prices = [
            json.loads(line) for path in pathlib.Path(room).glob("*.jsonl") for line in path.open()
        ]
    finally:
        shutil.rmtree(room, ignore_errors=True)
    if measured:
        report_budget(ended, budget, rates, prices)
    minutes, seconds = divmod(round(time.monotonic() - began), 60)
    print(f"{sum(part.cpu for part in ended):.0f} CPU seconds in {minutes} min {seconds} s")
    passed, failed, errors, skipped = (
        count(ended, word) for word in ("passed", "failed", "errors?", "skipped")
    )
    failed += errors or int(not failed and any(part.status not in (0, NO_TESTS) for part in ended))
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return int(failed > 0)


def print_part(
    part: Ended, ended: Sequence[Ended], parts: Sequence[str], seconds: float, budget
) -> None:
    """Prints how a part ended, with all its output if it failed, and how long the others will take
    by their budgets.
    """
    last_line = part.output.strip().rpartition("\n")[2]
    failed = part.status not in (0, NO_TESTS)
    share = sum(budget.get(each.name, 3) for each in ended) / sum(
        budget.get(name, 3) for name in parts
    )
    left = f", about {seconds / share - seconds:.0f} s left" if len(ended) < len(parts) else ""
    print(part.output if failed else "", end="")
    status = f"ended with status {part.status}; " if failed else ""
    print(f"[{len(ended)}/{len(parts)}] {part.name}: {status}{last_line}{left}", flush=True)


def all_parts() -> list[str]:
    """Returns the names of the folders that hold tests, and of the files at the top."""
    paths = (path.relative_to(TESTS) for path in TESTS.rglob("*_test.py"))
    return sorted({path.parts[0].removesuffix(".py") for path in paths})


def import_everything() -> None:
    """Imports what tests import. No operation of TensorFlow may run: it would not run in a fork."""
    import cpc_tf

    for name in THIRD_PARTY:
        importlib.import_module(name)
    for module in pkgutil.walk_packages(cpc_tf.__path__, "cpc_tf."):
        if not module.name.endswith(PROGRAMS):
            importlib.import_module(module.name)
    gc.freeze()  # so that the garbage collector writes into no page that processes share


def build_operations(room: str) -> None:
    """Builds our C++ operations in the tests' cache, so that no folder pays for it; a failure is
    printed.
    """
    from cpc_tf import augment
    from cpc_tf.encoders import layers

    libraries = {library.name: library for library in (augment.LIBRARY, layers.LIBRARY)}
    for built in run_forked(
        {name: lambda name=name: int(not libraries[name].build()) for name in libraries}, room
    ):
        print(
            (
                built.output
                if built.status
                else f"C++ operations of {built.name}: {built.cpu:.0f} CPU s"
            ),
            flush=True,
        )


def run_pytest(name: str, options: Sequence[str]) -> int:
    """Runs the tests of a folder or a file in this process; returns the exit status."""
    import pytest

    path = TESTS / name
    return pytest.main(
        [
            "-p",
            "no:cacheprovider",
            *options,
            str(path if path.is_dir() else path.with_suffix(".py")),
        ]
    )


def run_forked(functions: Mapping[str, Callable[[], int]], room: str) -> Iterator[Ended]:
    """Calls each function in a process of its own, one a core at a time; yields them as they
    end.
    """
    waiting, running = list(functions.items()), {}
    try:
        while waiting or running:
            while waiting and len(running) < CORES:
                name, function = waiting.pop(0)
                log = pathlib.Path(room, f"{name.replace('/', '_')}.log")
                sys.stdout.flush()
                if pid := os.fork():
                    running[pid] = name, log
                else:
                    _end_with(function, log)
            pid, status, used = os.wait4(-1, 0)
            name, log = running.pop(pid)
            code = os.waitstatus_to_exitcode(status)
            output = log.read_text(errors="replace")
            yield Ended(name, code, used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20, output)
    finally:
        for pid in running:
            os.killpg(pid, 9)


def _end_with(function: Callable[[], int], log: pathlib.Path) -> None:
    """Calls a function and ends this process with its result, in a group of its own; its output
    goes to a file.
    """
    status = 1
    try:
        os.setpgid(0, 0)
        os.dup2(os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND), 1)
        os.dup2(1, 2)
        status = function()
    finally:
        sys.stdout.flush()
        os._exit(status)


def yardstick(room: str) -> list[float]:
    """Returns the CPU seconds of a work like that of most tests, on each core while the others do
    it too.
    """
    functions = {f"yardstick_{core}": _trace_and_run for core in range(CORES)}
    return [ended.cpu for ended in run_forked(functions, room)]


def _trace_and_run() -> int:
    """Traces the training step of a small network and runs it."""
    import tensorflow as tf

    from cpc_tf.encoders.config import EncoderConfig
    from cpc_tf.encoders.network import make_encoder

    for _ in range(2):
        encoder = make_encoder(EncoderConfig(encoder="small"))

        @tf.function
        def step(images, encoder=encoder):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(encoder(images)))
            return tape.gradient(loss, encoder.trainable_variables)

        encoder(tf.zeros([1, 32, 32, 3]))
        for _ in range(3):
            step(tf.ones([8, 32, 32, 3]))
    return 0


def read_budget() -> dict[str, float]:
    """Returns the rows of tests/budget.txt: name -> CPU seconds; `gigabytes` are those of a
    process.
    """
    lines = [line.split("#")[0].split() for line in BUDGET.read_text().splitlines()]
    return {name: float(seconds) for name, seconds in filter(None, lines)}


def report_budget(
    ended: Sequence[Ended], budget: Mapping[str, float], rates: Sequence[float], prices
) -> None:
    """Prints what each folder took beside the record, and the dearest tests of folders that took
    more.

    Args:
      ended: the processes of all folders and files that were asked for.
      budget: row -> CPU seconds.
      rates: CPU seconds of the yardstick here.
      prices: {"test": its node id, "cpu": seconds} for each test.
    """
    slower = sum(rates) / len(rates) / budget["yardstick"]
    print(f"\nThis machine takes {slower:.2f} times the CPU seconds of the one of {BUDGET.name}.")
    print(f"{'':24}{'CPU s':>7}{'here':>7}{'budget':>8}{'GB':>6}")
    rows = {}
    for part in ended:
        cpu, size = rows.get(row := part.name if part.name in budget else REST, (0, 0))
        rows[row] = cpu + part.cpu, max(size, part.gigabytes)
    over = []
    for row, (cpu, size) in sorted(rows.items(), key=lambda item: -item[1][0]):
        if too_much := cpu / slower > budget[row] or size > budget["gigabytes"]:
            over.append(row)
        note = "  over" if too_much else ""
        print(f"{row:24}{cpu / slower:7.0f}{cpu:7.0f}{budget[row]:8.0f}{size:6.1f}{note}")
    if over:
        print(
            f"Over budget: {', '.join(over)}. The dearest tests there, in CPU seconds of the"
            " budget:"
        )
        own = [
            price
            for price in prices
            if re.match(rf"tests/({'|'.join(over)})\b", price["test"]) or REST in over
        ]
        for price in sorted(own, key=lambda price: -price["cpu"])[:10]:
            print(f"{price['cpu'] / slower:7.1f}  {price['test']}")


def count(ended: Sequence[Ended], word: str) -> int:
    """Returns the sum of the numbers before a word in the last lines that pytest printed."""
    lines = [part.output.strip().rpartition("\n")[2] for part in ended]
    return sum(int(number) for line in lines for number in re.findall(rf"(\d+) {word}\b", line))


if __name__ == "__main__":
    sys.exit(main())
