"""Attacks what reads files and flags with damaged ones, in this process.

    python -m tests.faults.fuzz --minutes=10 --seed=0
    python -m tests.faults.fuzz --seed=0 --target=images --case=17

A case is a function of seed, target and number; one that breaks a promise is written to `--output`,
with its traceback. A target is a class with `case(random)`, which makes an input, and
`check(data)`: whether it was accepted, or refused by a ConfigError of one line. Whatever else
happens breaks the promise.
"""

from __future__ import annotations

import collections
import pathlib
import tempfile
import time
import traceback
from typing import NamedTuple

import numpy as np
from absl import app, flags, logging

from tests.faults.directory_targets import CheckpointFiles, Modules, Results, RunFiles
from tests.faults.targets import Annotations, Cards, Flags, Folders, Images, Tables

FLAGS = flags.FLAGS
TARGETS = {
    **{
        "images": Images,
        "annotations": Annotations,
        "flags": Flags,
        "checkpoints": CheckpointFiles,
        "cards": Cards,
    },
    **{
        "runs": RunFiles,
        "results": Results,
        "modules": Modules,
        "folders": Folders,
        "tables": Tables,
    },
}


class Broken(NamedTuple):
    """A case that was neither accepted nor refused as promised."""

    target: str
    number: int
    data: bytes
    trace: str


class Attack:
    """Cases of some targets in their order; counts what became of them: {target: cases}."""

    def __init__(self, room: pathlib.Path, seed: int, names=tuple(TARGETS)):
        self._seed, self._targets = seed, {}
        self.seconds = dict.fromkeys(names, 0.0)
        self.accepted, self.refused, self.broken = collections.Counter(), collections.Counter(), []
        for name in names:
            (room / name).mkdir()
            self._targets[name] = TARGETS[name](room / name)

    def data(self, name: str, number: int) -> bytes:
        """The input of a case."""
        return self._targets[name].case(
            np.random.default_rng([self._seed, [*TARGETS].index(name), number])
        )

    def one(self, name: str, number: int) -> None:
        """Tries a case."""
        start, data = time.monotonic(), self.data(name, number)
        try:
            (self.accepted if self._targets[name].check(data) else self.refused)[name] += 1
        except Exception:  # whatever it is: that is what we look for
            self.broken.append(Broken(name, number, data, traceback.format_exc()))
        self.seconds[name] += time.monotonic() - start

    def next(self) -> None:
        """Tries the next case of the target that had the least time."""
        name = min(self.seconds, key=self.seconds.get)
        self.one(name, self.tried(name))

    def tried(self, name: str) -> int:
        """Cases so far."""
        return (
            self.accepted[name]
            + self.refused[name]
            + sum(each.target == name for each in self.broken)
        )

    def table(self) -> str:
        """What became of them, a line a target."""
        lines = [f"{'target':14}{'cases':>9}{'accepted':>10}{'refused':>10}{'broken':>8}"]
        for name in self.seconds:
            broken = sum(each.target == name for each in self.broken)
            figures = (
                f"{self.tried(name):9,}{self.accepted[name]:10,}{self.refused[name]:10,}{broken:8,}"
            )
            lines.append(f"{name:14}{figures}")
        return "\n".join(lines)


def main(argv) -> None:
    """Attacks for `--minutes`, or tries one case."""
    logging.set_verbosity(logging.ERROR)
    names = [FLAGS.target] if FLAGS.target else [*TARGETS]
    with tempfile.TemporaryDirectory() as room:
        attack = Attack(pathlib.Path(room), FLAGS.seed, names)
        if FLAGS.case is not None:
            attack.one(names[0], FLAGS.case)
        shown = time.monotonic()
        end = shown + 60 * FLAGS.minutes
        while FLAGS.case is None and (now := time.monotonic()) < end:
            attack.next()
            if now - shown > 30:
                shown, cases = now, sum(map(attack.tried, names))
                print(
                    f"{cases:,} cases, {len(attack.broken)} broken, {(end - now) / 60:.0f} min"
                    " left",
                    flush=True,
                )
    for each in attack.broken:
        path = pathlib.Path(FLAGS.output, f"{each.target}-{FLAGS.seed}-{each.number}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(each.data)
        path.with_suffix(".txt").write_text(each.trace)
        print(f"{path}: {each.trace.strip().splitlines()[-1][:200]}")
    print(attack.table())
    raise SystemExit(bool(attack.broken))


if __name__ == "__main__":
    flags.DEFINE_float("minutes", 10, "how long")
    flags.DEFINE_integer("seed", 0, "of all cases")
    flags.DEFINE_enum("target", None, [*TARGETS], "only this one")
    flags.DEFINE_integer("case", None, "only this case of --target")
    flags.DEFINE_string("output", "runs/faults", "where cases that break a promise are written")
    app.run(main)
