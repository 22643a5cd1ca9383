"""Compiles every step that we ship for TPUs, which need not be there: python -m benchmarks.tpu
--jax=PYTHON > table.md

A program that has a record is not compiled again. The key is the program's hash and the chip, so a
change of code or preset that changes a program compiles it anew. PYTHON has
`benchmarks/requirements-tpu.txt`, in an environment of its own. Without --jax nothing is compiled:
the tables are printed from the records. Nothing is run.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from absl import app, flags

from benchmarks import records
from benchmarks.chips import CHIPS

ROOT = pathlib.Path(__file__).parents[1]
COMPILER = pathlib.Path(__file__).with_name("compile.py")


def main(argv) -> None:
    """Compiles what has no record, then prints the tables."""
    del argv
    given = flags.FLAGS
    if given.program:
        print(json.dumps(_traced(given.only[0], given.program)))
        return
    path = pathlib.Path(given.records)
    if given.jax:
        from benchmarks.steps import STEPS

        chosen = [
            step for step in STEPS if any(step.name.startswith(name) for name in given.only or [""])
        ]
        for step in chosen:
            _compile(step, path, given.chips, given.jax)
    print(records.tables(records.read(path)))
    if failed := [
        f"{each['step']} on {each['chip']}" for each in records.read(path) if "error" in each
    ]:
        raise SystemExit(f"not compiled: {', '.join(failed)}")


def _compile(step, path: pathlib.Path, chips: Sequence[str], python: str) -> None:
    """Traces a step, and compiles it for the chips for which the program has no record."""
    with tempfile.TemporaryDirectory() as room:
        file = f"{room}/program"
        program = _run(
            [sys.executable, "-m", "benchmarks.tpu", f"--only={step.name}", f"--program={file}"]
        )
        for chip in chips or [""]:
            known = {record["program"] for record in records.read(path) if record["chip"] == chip}
            if program["program"] in known:
                continue
            record = {**program, "chip": chip}
            if chip:
                topology = CHIPS[chip].topologies[step.replicas]
                record |= _run([python, str(COMPILER), file, topology, str(step.replicas)])
            records.add(path, record)
            print(
                f"{step.name}, {chip or 'traced'}: {record.get('error', 'done')[:200]}",
                file=sys.stderr,
                flush=True,
            )


def _traced(name: str, file: str) -> dict[str, Any]:
    """Writes the program of a step; returns what a record says of it."""
    from benchmarks.exchanges import written
    from benchmarks.steps import STEPS, write

    step = next(step for step in STEPS if step.name == name)
    program = write(step)
    pathlib.Path(file).write_bytes(program.hlo)
    digest = hashlib.sha256(program.hlo).hexdigest()[:16]
    sizes = {"images": program.images, "replicas": step.replicas, "trained": program.trained}
    return {"step": name, "program": digest, **sizes, "written": written(program.hlo)}


def _run(command: list[str]) -> dict[str, Any]:
    """Returns the JSON that a process prints last."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    flags.DEFINE_string("jax", "", "a Python that has JAX and libtpu; empty: print the records")
    flags.DEFINE_multi_string(
        "only", [], "beginning of the names of the steps to compile; default: all"
    )
    flags.DEFINE_list(
        "chips", list(CHIPS), "kinds of TPUs; empty: only count exchanges, before compiling"
    )
    flags.DEFINE_string("records", str(records.FILE), "where the records are")
    flags.DEFINE_string("program", "", "file for a program, used by the benchmark itself")
    app.run(main)
