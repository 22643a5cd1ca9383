"""A run's directory: run.flags (replays it), run.json, metrics.jsonl, events, checkpoints, result.json."""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
from absl import logging

import cpc_tf
from cpc_tf import cli, devices
from cpc_tf.files import read_json, read_text, reason, to_json, write_file, writing
from cpc_tf.settings import ConfigError, RunEnded, Settings, changed_flags, flatten, to_flagfile
from cpc_tf.texts import shown
from cpc_tf.training import changes, lock
from cpc_tf.training.checkpoint import Checkpoints
from cpc_tf.training.strategy import is_chief, strategy_of, wants_xla

FOLDERS, FILES = ("checkpoints", "events"), ("run.flags", "run.json", "metrics.jsonl", "result.json")


def read_config(workdir: str, config_class: type) -> Any:
    """The settings of the run in `workdir`. Raises ConfigError if there is none, or none that can be read."""
    path = os.path.join(workdir, "run.flags")
    if not tf.io.gfile.exists(path):
        raise ConfigError(f"--workdir={workdir}: holds no run (no run.flags)")
    lines = read_text(path).splitlines()
    try:
        return cli.parse(config_class, lines, recorded=True)
    except ConfigError as error:
        raise ConfigError(f"--workdir={workdir}: its run.flags are of another kind of run ({error})") from error


@functools.cache  # a run of several phases has a directory for each
def _warn_once(message: str) -> None:
    logging.warning(message)


class OutOfMemory(RunEnded):
    """The computer or its accelerator has no room for a step."""

    status = 5

    def __init__(self, why: str):
        super().__init__(
            f"out of memory ({why}); a smaller --batch_size or smaller images need less, in another --workdir, since "
            "a run keeps its settings; what was saved before is whole"
        )


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
      ConfigError: `config.workdir` is empty, or holds another run, or what cannot be a run.
    """

    def __init__(self, config: Settings, task: str, chief: bool = True):
        self.path, self.config, self.chief = config.workdir, config, chief
        if not self.path:
            raise ConfigError("--workdir= is empty: name a directory for the run, e.g. --workdir=runs/first")
        self._task, self._events = task, None
        self._refuse_what_is_no_run()
        if tf.io.gfile.exists(self.file("run.flags")):
            self._refuse_other_run()

    def file(self, name: str) -> str:
        """The path of a file in it."""
        return os.path.join(self.path, name)

    def begin(self, step: int, **session: Any) -> None:
        """Makes it ready to be written to from `step` on.

        Writes run.flags and run.json; warns of what changed since the sessions before; drops the records after `step`,
        which a resumed run will write again, and what a killed process has left half written.

        Args:
          step: of the checkpoint that the run goes on from, 0 if there is none.
          **session: what else run.json says of this session; see `changes.describe_changes`.
        """
        for name in tf.io.gfile.listdir(self.path) if self.chief and tf.io.gfile.isdir(self.path) else ():
            # As write_file names them. In a bucket the lock's own may be in use: a thread writes it again and again.
            if re.fullmatch(r".+\.\d+\.tmp", name) and not name.startswith(f"{lock.FILE}."):
                with contextlib.suppress(tf.errors.NotFoundError):
                    tf.io.gfile.remove(self.file(name))
        self.write("run.flags", to_flagfile(self.config))
        before = {}
        with contextlib.suppress(ConfigError):  # what is damaged is written anew
            before = read_json(self.file("run.json")) if tf.io.gfile.exists(self.file("run.json")) else {}
        about = {"task": self._task, "version": cpc_tf.__version__, "tensorflow": tf.__version__, **session}
        if before.get("tensorflow", tf.__version__) != tf.__version__:
            _warn_once(
                f"this run was begun with TensorFlow {shown(before['tensorflow'])}, goes on with {tf.__version__}: it "
                "may end with slightly other figures"
            )
        for message in changes.describe_changes(before, about, step) if self.chief else ():
            logging.warning("%s: %s", self.path, message)
        self.write("run.json", to_json({**before, **about}))
        if tf.io.gfile.exists(self.file("metrics.jsonl")):
            kept = [record for record in self.records() if record["step"] <= step]
            self.write("metrics.jsonl", "".join(json.dumps(record) + "\n" for record in kept))

    def write(self, name: str, content: str | bytes) -> None:
        """Writes a file whole or not at all. Raises NotWritten."""
        if self.chief:
            write_file(self.file(name), content)

    def _refuse_what_is_no_run(self) -> None:
        for name in (*FOLDERS, *FILES):
            path = self.file(name)
            if tf.io.gfile.exists(path) and tf.io.gfile.isdir(path) is not (name in FOLDERS):
                raise ConfigError(f"{path}: should be a {'folder' if name in FOLDERS else 'file'}; move it away")
        if Checkpoints(self.path).steps() and not tf.io.gfile.exists(self.file("run.flags")):
            raise ConfigError(
                f"--workdir={self.path}: has checkpoints but no run.flags, so nobody knows of which run; take another "
                "--workdir, or put its run.flags back"
            )

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
        path, records = self.file("metrics.jsonl"), []
        if not tf.io.gfile.exists(path):
            return records
        with tf.io.gfile.GFile(path, "rb") as file:
            lines = file.read().decode("utf-8", "replace").splitlines()
        for line in lines:
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                break
            if not _is_record(record):
                break
            records.append(record)
        return records

    @staticmethod
    def rounded(step: int, values: dict[str, float]) -> dict[str, float]:
        """What metrics.jsonl holds of a record: figures to six digits, without those that are not finite."""
        return {"step": step, **{name: round(float(x), 6) for name, x in values.items() if math.isfinite(x)}}

    def record(self, step: int, values: dict[str, float]) -> None:
        """Appends a record to metrics.jsonl and to the TensorBoard events. Raises NotWritten."""
        if not self.chief:
            return
        with writing(self.file("metrics.jsonl")), tf.io.gfile.GFile(self.file("metrics.jsonl"), "a") as file:
            file.write(json.dumps(self.rounded(step, values)) + "\n")
        with writing(self.file("events")):
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

    def result(self, is_whole: Callable[[dict], bool] = bool) -> dict[str, Any] | None:
        """What `finish` wrote; None if the run is not finished, or now has settings that change what it does.

        A result that is damaged or not `is_whole` is none, either: the end of the run makes it anew.
        """
        path = self.file("result.json")
        if not tf.io.gfile.exists(path) or read_config(self.path, type(self.config)) != self.config:
            return None
        try:
            found = read_json(path)
        except ConfigError as error:
            logging.warning("%s: made anew", error)
            return None
        if found.get("kind") == self._task and is_whole(found):
            return found
        logging.warning("%s: is no result of %s: made anew", path, self._task)
        return None


def _is_record(value: Any) -> bool:
    known = isinstance(value, dict) and isinstance(value.get("step"), int)
    return known and all(isinstance(x, (int, float)) for x in value.values())


@contextlib.contextmanager
def open_run(config: Settings, task: str) -> Iterator[tuple[Workdir, tf.distribute.Strategy]]:
    """The directory of a run with `config.training`, for this process alone, and where the run is computed.

    Raises:
      ConfigError: see `Workdir`, `lock.locked` and `strategy_of`.
    """
    workdir = Workdir(config, task, is_chief(config.training))
    # The lock before the strategy: who connects to a TPU takes it from the run that is there.
    with lock.locked(workdir.path) if workdir.chief else contextlib.nullcontext():
        try:
            strategy, flags = strategy_of(config.training), flatten(config)
            if workdir.chief:
                xla = wants_xla(flags.get("xla", "off"), strategy)
                print(devices.describe(strategy, flags.get("precision", "float32"), xla), flush=True)
            if warning := devices.unused_gpu():
                _warn_once(warning)
            yield workdir, strategy
        except (MemoryError, tf.errors.ResourceExhaustedError) as error:
            raise OutOfMemory(reason(error)) from error
