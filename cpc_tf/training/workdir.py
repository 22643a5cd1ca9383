"""A run's directory: run.flags (replays it), run.json, metrics.jsonl, events, checkpoints, result.json."""

from __future__ import annotations

import json
import math
import os
from typing import Any

import tensorflow as tf

import cpc_tf
from cpc_tf import cli
from cpc_tf.settings import ConfigError, Settings, changed_flags, to_flagfile
from cpc_tf.training.strategy import is_chief, strategy_of


def write_file(path: str, content: str | bytes) -> None:
    """Writes a file whole or not at all: under a temporary name, then renamed."""
    tf.io.gfile.makedirs(os.path.dirname(path) or ".")
    temporary = f"{path}.{os.getpid()}.tmp"
    with tf.io.gfile.GFile(temporary, "wb" if isinstance(content, bytes) else "w") as file:
        file.write(content)
    tf.io.gfile.rename(temporary, path, overwrite=True)


def read_json(path: str) -> Any:
    """The content of a JSON file."""
    with tf.io.gfile.GFile(path) as file:
        return json.loads(file.read())


def to_json(value: Any) -> str:
    """Strict JSON, for people to read, too."""
    return json.dumps(value, indent=2, allow_nan=False) + "\n"


def read_config(workdir: str, config_class: type) -> Any:
    """The settings of the run in `workdir`. Raises ConfigError if there is none."""
    path = os.path.join(workdir, "run.flags")
    if not tf.io.gfile.exists(path):
        raise ConfigError(f"--workdir={workdir}: holds no run (no run.flags)")
    with tf.io.gfile.GFile(path) as file:
        lines = file.read().splitlines()
    try:
        return cli.parse(config_class, lines, recorded=True)
    except ConfigError as error:
        raise ConfigError(f"--workdir={workdir}: its run.flags are of another kind of run ({error})") from error


class Workdir:
    """Opens a run's directory for writing.

    Args:
      config: all settings of the run; those that may not change must be those of a run that is there already.
      task: name of what is run, one of `cpc_tf.tasks.TASKS`.
      chief: whether this process writes. Of several workers only one does; the others call the same methods.

    Attributes:
      path: of the directory.
      config, chief: as above.

    Raises:
      ConfigError: `config.workdir` is empty, or holds another run.
    """

    def __init__(self, config: Settings, task: str, chief: bool = True):
        self.path, self.config, self.chief = config.workdir, config, chief
        if not self.path:
            raise ConfigError("--workdir= is empty: name a directory for the run, e.g. --workdir=runs/first")
        self._task, self._events = task, None
        if tf.io.gfile.exists(self.file("run.flags")):
            self._refuse_other_run()

    def file(self, name: str) -> str:
        """The path of a file in it."""
        return os.path.join(self.path, name)

    def begin(self, step: int) -> None:
        """Writes run.flags and run.json, and drops the records after `step`, which a resumed run will write again."""
        self.write("run.flags", to_flagfile(self.config))
        self.write("run.json", to_json({"task": self._task, "version": cpc_tf.__version__}))
        if tf.io.gfile.exists(self.file("metrics.jsonl")):
            kept = [record for record in self.records() if record["step"] <= step]
            self.write("metrics.jsonl", "".join(json.dumps(record) + "\n" for record in kept))

    def write(self, name: str, content: str | bytes) -> None:
        """Writes a file whole or not at all."""
        if self.chief:
            write_file(self.file(name), content)

    def _refuse_other_run(self) -> None:
        differ = changed_flags(self.config, read_config(self.path, type(self.config)))
        if differ:
            name, (now, saved) = next(iter(differ.items()))
            more = f" (and {len(differ) - 1} more)" if len(differ) > 1 else ""
            raise ConfigError(
                f"--{name}={now}: --workdir={self.path} holds a run with --{name}={saved}{more}; "
                "take another --workdir, or the same settings to resume it"
            )

    def records(self) -> list[dict[str, float]]:
        """All records so far, ascending by step. What a kill cut short, and whatever stands behind it, is left out."""
        records = []
        if not tf.io.gfile.exists(self.file("metrics.jsonl")):
            return records
        with tf.io.gfile.GFile(self.file("metrics.jsonl")) as file:
            for line in file.read().splitlines():
                try:
                    records.append(json.loads(line))
                except json.JSONDecodeError:
                    break
        return records

    @staticmethod
    def rounded(step: int, values: dict[str, float]) -> dict[str, float]:
        """What metrics.jsonl holds of a record: figures to six digits, without those that are not finite."""
        return {"step": step, **{name: round(float(x), 6) for name, x in values.items() if math.isfinite(x)}}

    def record(self, step: int, values: dict[str, float]) -> None:
        """Appends a record to metrics.jsonl and to the TensorBoard events."""
        if not self.chief:
            return
        with tf.io.gfile.GFile(self.file("metrics.jsonl"), "a") as file:
            file.write(json.dumps(self.rounded(step, values)) + "\n")
        self._events = self._events or tf.summary.create_file_writer(self.file("events"))
        with self._events.as_default():
            for name, value in values.items():
                tf.summary.scalar(name, value, step=step)
        self._events.flush()

    def finish(self, result: dict[str, Any]) -> dict[str, Any]:
        """Writes result.json with the task as 'kind', and returns that. A figure that is not finite is a ValueError."""
        result = {"kind": self._task, **result}
        self.write("result.json", to_json(result))
        return result

    def result(self) -> dict[str, Any] | None:
        """What `finish` wrote; None if the run is not finished, or now has settings that change what it does."""
        path = self.file("result.json")
        if not tf.io.gfile.exists(path) or read_config(self.path, type(self.config)) != self.config:
            return None
        return read_json(path)


def open_run(config: Settings, task: str) -> tuple[Workdir, tf.distribute.Strategy]:
    """The directory of a run with `config.training`, and where it runs. Raises ConfigError."""
    workdir = Workdir(config, task)  # first, since a wrong name should not cost the wait for a TPU
    strategy = strategy_of(config.training)
    workdir.chief = is_chief(strategy)
    return workdir, strategy
