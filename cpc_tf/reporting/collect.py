"""Finds the results below a directory and reads them; what cannot be read is named, never fatal."""

from __future__ import annotations

import csv
import dataclasses
import itertools
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from cpc_tf.reporting.records import fault, is_number
from cpc_tf.settings import ConfigError

LARGEST = 32 * 2**20  # bytes of a list of results


@dataclasses.dataclass(frozen=True)
class Run:
    """A result, and the directory that the run left.

    Attributes:
      record: what result.json says.
      place: where it was found, from the searched directory on: the run's directory, or the list with a number.
      directory: the run's own; empty for a record of a list.
    """

    record: dict[str, Any]
    place: str
    directory: str = ""

    def __getitem__(self, name: str) -> Any:
        return self.record[name]

    def get(self, name: str, default: Any = None) -> Any:
        """A field of the record."""
        return self.record.get(name, default)

    def file(self, name: str) -> str:
        """The path of a file that the run left, or '' if it is not there, or is a link to elsewhere."""
        path = os.path.join(self.directory, name)
        there = self.directory and not os.path.islink(path) and tf.io.gfile.exists(path)
        return path if there else ""

    def picture(self, name: str) -> bytes:
        """The content of a PNG that the run left, or nothing."""
        path = self.file(name)
        if not path:
            return b""
        with tf.io.gfile.GFile(path, "rb") as file:
            content = file.read()
        return content if content.startswith(b"\x89PNG") else b""

    def metrics(self) -> list[dict[str, float]]:
        """The records of metrics.jsonl that have a step; only what is a finite number in them."""
        path = self.file("metrics.jsonl")
        records = []
        for line in _read(path).splitlines() if path else []:
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                continue  # a last line that a kill cut short
            if isinstance(record, dict) and is_number(record.get("step")):
                records.append({name: value for name, value in record.items() if is_number(value)})
        return records

    def predictions(self) -> list[tuple[int, int]]:
        """(label, prediction) of each test image, as predictions.csv has them; empty if it does not."""
        path = self.file("predictions.csv")
        try:
            rows = list(csv.DictReader(_read(path).splitlines())) if path else []
            pairs = [(int(row["label"]), int(row["prediction"])) for row in rows]
        except (KeyError, ValueError, TypeError, csv.Error):
            return []
        return pairs if all(min(pair) >= 0 for pair in pairs) else []


@dataclasses.dataclass(frozen=True)
class Found:
    """What stands below a directory.

    Attributes:
      runs: all results that could be read, in the order of their paths.
      problems: what could not, a sentence each.
      modules: directory -> encoder.json of the exported modules.
    """

    runs: Sequence[Run]
    problems: Sequence[str] = ()
    modules: dict[str, dict] = dataclasses.field(default_factory=dict)

    def of(self, kind: str) -> list[Run]:
        """The runs of one kind."""
        return [run for run in self.runs if run["kind"] == kind]

    def module(self, encoder: str) -> dict:
        """The encoder.json of the module that a result names; the runs may have been moved since. {} if unknown."""
        wanted = _parts(encoder.removeprefix("random:"))
        shared = {directory: _shared_end(wanted, _parts(directory)) for directory in self.modules}
        most = max(shared.values(), default=0)
        best = [directory for directory, length in shared.items() if length == most]
        return self.modules[best[0]] if most > 1 and len(best) == 1 else {}


def collect(runs_dir: str) -> Found:
    """Reads all results below `runs_dir`; links are not followed.

    Raises:
      ConfigError: if there is no such directory, or no result in it.
    """
    if not runs_dir or not tf.io.gfile.isdir(runs_dir):
        raise ConfigError(f"--runs={runs_dir}: no such directory; name one that holds runs, e.g. --runs=runs")
    runs, problems, modules = [], [], {}
    for path in _json_files(runs_dir):
        own = os.path.basename(path) == "result.json"
        if not own and tf.io.gfile.stat(path).length > LARGEST:
            continue  # somebody's data
        try:
            content = json.loads(_read(path))
        except (json.JSONDecodeError, RecursionError, tf.errors.OpError) as error:
            if own:
                place = os.path.relpath(path, runs_dir)
                problems.append(f"{place}: cannot be read ({str(error).splitlines()[0]})")
            continue
        if os.path.basename(path) == "encoder.json" and isinstance(content, dict):
            modules[os.path.dirname(path)] = content
        listed = not own and isinstance(content, list) and any(isinstance(x, dict) and "kind" in x for x in content)
        for number, record in enumerate(content if listed else [content] if own else []):
            wrong = fault(record)
            place = os.path.relpath(path, runs_dir) + (f", record {number}" if listed else "")
            if wrong:
                problems.append(f"{place}: {wrong}")
            elif listed:
                runs.append(Run(record, place))
            else:
                runs.append(Run(record, os.path.dirname(place) or ".", os.path.dirname(path)))
    if not runs:
        unread = f" ({len(problems)} could not be read, the first: {problems[0]})" if problems else ""
        raise ConfigError(
            f"--runs={runs_dir}: no result.json below it{unread}; `make demo` makes the first in runs/photos, "
            "or see python -m cpc_tf.linear --help"
        )
    return _with_origins(Found(_without_copies(runs), problems, modules))


def _json_files(folder: str) -> Iterator[str]:
    """Every *.json below a directory, sorted; nothing behind links, nothing hidden."""
    local = "://" not in folder
    for here, folders, files in os.walk(folder) if local else tf.io.gfile.walk(folder):
        if local:
            folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            path = os.path.join(here, name)
            if name.endswith(".json") and not os.path.islink(path):
                yield path


def _without_copies(runs: list[Run]) -> list[Run]:
    """Each run once: a study's list repeats the result.json of its runs, and says more about them."""
    names = ("kind", "encoder", "seed", "label_fraction", "step", "steps", "loss", "top1", "wall_seconds")
    same: dict[Any, list[Run]] = {}
    for number, run in enumerate(runs):
        timed = "wall_seconds" in run.record  # to the microsecond: no two runs agree in it
        same.setdefault(tuple(str(run.get(name)) for name in names) if timed else number, []).append(run)
    merged = []
    for copies in same.values():
        copies = sorted(copies, key=lambda run: not run.directory)
        record = {name: value for run in copies for name, value in run.record.items()}
        merged.append(Run(record, copies[0].place, copies[0].directory))
    return merged


def _with_origins(found: Found) -> Found:
    """Runs on a module that was trained on labels from the start say so."""
    for run in found.runs:
        card = found.module(run["encoder"]) if run["kind"] != "pretrain" else {}
        if card.get("num_train_labels") and not card.get("began_as"):
            run.record.setdefault("features", "supervised")
    return found


def _read(path: str) -> str:
    with tf.io.gfile.GFile(path, "rb") as file:
        return file.read().decode("utf-8", "replace")


def _shared_end(one: list[str], other: list[str]) -> int:
    pairs = zip(reversed(one), reversed(other))
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]
