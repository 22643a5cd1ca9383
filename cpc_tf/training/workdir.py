"""A run's directory: run.flags (replays it), metrics.jsonl, TensorBoard events, result.json, checkpoints."""

from __future__ import annotations

import json
import os
from typing import Any

import tensorflow as tf

from cpc_tf import cli
from cpc_tf.settings import ConfigError, Settings, changed_flags, to_flagfile


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

    Raises:
      ConfigError: if `config.workdir` is empty, or holds a run with settings that may not change on resumption.
    """

    def __init__(self, config: Settings):
        self.path = config.workdir
        if not self.path:
            raise ConfigError("--workdir= is empty: name a directory for the run, e.g. --workdir=runs/first")
        self._config, self._events = config, None
        if tf.io.gfile.exists(self._file("run.flags")):
            self._refuse_other_run(config)

    def begin(self, step: int) -> None:
        """Writes run.flags, and drops the records after `step`, which a resumed run will write again."""
        write_file(self._file("run.flags"), to_flagfile(self._config))
        path = self._file("metrics.jsonl")
        if tf.io.gfile.exists(path):
            write_file(path, "".join(json.dumps(r) + "\n" for r in self.metrics() if r["step"] <= step))

    def _refuse_other_run(self, config: Settings) -> None:
        differ = changed_flags(config, read_config(self.path, type(config)))
        if differ:
            name, (now, saved) = next(iter(differ.items()))
            more = f" (and {len(differ) - 1} more)" if len(differ) > 1 else ""
            raise ConfigError(
                f"--{name}={now}: --workdir={self.path} holds a run with --{name}={saved}{more}; "
                "take another --workdir, or the same settings to resume it"
            )

    def _file(self, name: str) -> str:
        return os.path.join(self.path, name)

    def metrics(self) -> list[dict[str, float]]:
        """All records so far. A last line that a kill cut short is left out."""
        records = []
        if not tf.io.gfile.exists(self._file("metrics.jsonl")):
            return records
        with tf.io.gfile.GFile(self._file("metrics.jsonl")) as file:
            for line in file.read().splitlines():
                try:
                    records.append(json.loads(line))
                except json.JSONDecodeError:
                    break
        return records

    def record(self, step: int, values: dict[str, float]) -> None:
        """Appends a record to metrics.jsonl and to the TensorBoard events."""
        with tf.io.gfile.GFile(self._file("metrics.jsonl"), "a") as file:
            file.write(json.dumps({"step": step, **{k: round(float(v), 6) for k, v in values.items()}}) + "\n")
        self._events = self._events or tf.summary.create_file_writer(self._file("events"))
        with self._events.as_default():
            for name, value in values.items():
                tf.summary.scalar(name, value, step=step)
        self._events.flush()

    def finish(self, result: dict[str, Any]) -> None:
        """Writes result.json."""
        write_file(self._file("result.json"), json.dumps(result, indent=2) + "\n")

    def result(self) -> dict[str, Any] | None:
        """What `finish` wrote; None if the run is not finished, or now has settings that change what it does."""
        path = self._file("result.json")
        if not tf.io.gfile.exists(path) or read_config(self.path, type(self._config)) != self._config:
            return None
        return read_json(path)
