"""A run's directory: run.flags (replays it), run.json, metrics.jsonl, events, checkpoints,
result.json.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from absl import logging

import cpc_tf
from cpc_tf.core import cli
from cpc_tf.core.commands import TASKS, Command
from cpc_tf.core.files import read_json, read_text, to_json, write_file, writing
from cpc_tf.core.settings import (
    ConfigError,
    Settings,
    changed_flags,
    derived,
    restored_settings,
    to_flagfile,
)
from cpc_tf.core.texts import shown
from cpc_tf.training import provenance
from cpc_tf.training.checkpoint import Checkpoints

if TYPE_CHECKING:
    from cpc_tf.training.config import UsualTraining

# folder of the phases that train on all labels after the test, and their entry in a result.json
REFIT = "refit"
FOLDERS = ("checkpoints", "events")
FILES = ("run.flags", "run.json", "metrics.jsonl", "result.json")


def read_task(workdir: str) -> Command:
    """Returns the task of the run in a directory. Raises ConfigError if there is no run of a known
    task.
    """
    path = os.path.join(workdir, "run.json")
    if not tf.io.gfile.exists(path):
        raise ConfigError("workdir", workdir, f"holds no run of {', '.join(TASKS)}")
    name = read_json(path).get("task")
    if name not in [*TASKS]:  # a list, since the name may be of any type
        raise ConfigError("workdir", workdir, f"its run.json names none of {', '.join(TASKS)}")
    return TASKS[name]


def read_config(workdir: str, config_class: type) -> Any:
    """Returns the settings of the run in `workdir`. Raises ConfigError if there are none that can
    be read.
    """
    path = os.path.join(workdir, "run.flags")
    if not tf.io.gfile.exists(path):
        raise ConfigError("workdir", workdir, "holds no run (no run.flags)")
    text = read_text(path)
    try:
        return cli.parse_run(config_class, text)
    except ConfigError as error:
        raise ConfigError(
            "workdir", workdir, f"its run.flags are of another kind of run ({error})"
        ) from error


class Workdir:
    """The directory of a run. Nothing is written before `begin`.

    Args:
      config: all settings of the run. If the directory holds a run, those that may not change must
        be the same there.
      task: the name of what is run, one of `cpc_tf.core.commands.TASKS`.
      chief: whether this process writes. Of several workers only one does; the others call the same
        methods.
      replaces: whether the run takes the place of one of the same task in the directory, whose
        settings may differ.

    Attributes:
      path: the path of the directory.
      config: as above. Settings that a run derives are those that the run in the directory began
        with; the task derives them in a new one.
      chief: as above.

    Raises:
      ConfigError: `config.workdir` is empty, holds another run, or cannot be the directory of a
        run.
    """

    def __init__(self, config: Settings, task: str, chief: bool = True, replaces: bool = False):
        config.check_complete()
        self.path = config.workdir
        self.config = config
        self.chief = chief
        self._task = task
        self._replaces = replaces
        self._events = None
        self._at_begin: dict[str, str | bytes] = {}  # files to write then
        for name in (*FOLDERS, *FILES):
            path = self.file(name)
            if tf.io.gfile.exists(path) and tf.io.gfile.isdir(path) is not (name in FOLDERS):
                raise ConfigError(
                    f"{path}: should be a {'folder' if name in FOLDERS else 'file'}; move it away"
                )
        if replaces:
            self._refuse_another_task()
        elif self.has_begun:
            saved = read_config(self.path, type(config))
            self.config = restored_settings(config, saved)
            if differ := changed_flags(self.config, saved):
                name, (now, before) = next(iter(differ.items()))
                more = f" (and {len(differ) - 1} more)" if len(differ) > 1 else ""
                raise ConfigError(
                    name,
                    now,
                    f"--workdir={self.path} holds a run with --{name}={before}{more}; use"
                    " another --workdir, or the same settings to resume it",
                )
        elif Checkpoints(self.path).steps():
            raise ConfigError(
                "workdir",
                self.path,
                "has checkpoints but no run.flags, which identify the run; use another"
                " --workdir, or put its run.flags back",
            )

    def _refuse_another_task(self) -> None:
        path = self.file("run.json")
        task = read_json(path).get("task") if tf.io.gfile.exists(path) else self._task
        if task != self._task:
            raise ConfigError(
                "workdir", self.path, f"holds a run of cpc-tf {task}; use another --workdir"
            )

    def file(self, name: str) -> str:
        """Returns the path of a file in the directory."""
        return os.path.join(self.path, name)

    def write(self, name: str, content: str | bytes) -> None:
        """Writes a file completely or not at all. Raises NotWritten."""
        if self.chief:
            write_file(self.file(name), content)

    def write_with_run(self, name: str, content: str | bytes) -> None:
        """Writes a file at once in a run that has begun, else in `begin`: a rejected run leaves no
        files.
        """
        if self.has_begun:
            self.write(name, content)
        else:
            self._at_begin[name] = content

    @property
    def has_begun(self) -> bool:
        """Whether a session of the run has begun."""
        return tf.io.gfile.exists(self.file("run.flags"))

    @property
    def is_finished(self) -> bool:
        """Whether the run has a result, which may be that of a shorter one."""
        return tf.io.gfile.exists(self.file("result.json"))

    def usual(
        self,
        usual: UsualTraining,
        images: int,
        strategy: tf.distribute.Strategy,
        views: int = 0,
        tell: bool = True,
    ) -> Settings:
        """Derives batch size and length for so many images, if they are not given; prints and
        returns the settings.

        Without `tell` nothing is printed.

        Raises ConfigError if a batch is larger than the number of images, or of `views` of each
        that are encoded once.
        """
        values = usual.settings(
            images, strategy.num_replicas_in_sync, self.config.training.batch_size
        )
        self.config, line = derived(self.config, values, f"{images} images")
        if line and self.chief and tell:
            print(line, flush=True)
        self.config.training.refuse_large_batch(images * max(1, views))
        return self.config

    def begin(self, step: int, **session: Any) -> dict[str, Any]:
        """Prepares the directory for a session that starts at `step`.

        Writes run.flags and run.json, removes the records after `step`, which a resumed run writes
        again, and removes files that a killed process left half written.

        Args:
          step: the step of the checkpoint that the run resumes from, 0 if there is none.
          **session: what run.json records of this session besides task and versions.

        Returns:
          run.json as it was before; empty for a new run.
        """
        for name in (
            tf.io.gfile.listdir(self.path) if self.chief and tf.io.gfile.isdir(self.path) else ()
        ):
            if re.fullmatch(r".+\.\d+\.tmp", name):  # as write_file names them
                tf.io.gfile.remove(self.file(name))
        if self.chief and self.is_finished and not self._is_as_long():
            # It would be taken for that of the new length.
            tf.io.gfile.remove(self.file("result.json"))
        for name, content in self._at_begin.items():
            self.write(name, content)
        self._at_begin.clear()
        # After these: a run that has begun has them.
        self.write("run.flags", to_flagfile(self.config))
        before = {}
        if not self._replaces and tf.io.gfile.exists(self.file("run.json")):
            with contextlib.suppress(ConfigError):  # a damaged file is written anew
                before = read_json(self.file("run.json"))
        if before.get("tensorflow", tf.__version__) != tf.__version__:
            warn_once(
                f"this run was started with TensorFlow {shown(before['tensorflow'])} and"
                f" resumes with {tf.__version__}: its figures may differ slightly"
            )
        about = {
            "task": self._task,
            "version": cpc_tf.__version__,
            "tensorflow": tf.__version__,
            **session,
        }
        self.write(
            "run.json",
            to_json(
                {"begun": provenance.timestamp(), **before, **provenance.environment(), **about}
            ),
        )
        if tf.io.gfile.exists(self.file("metrics.jsonl")):
            records = [record for record in self.records() if record["step"] <= step]
            self.write("metrics.jsonl", "".join(json.dumps(record) + "\n" for record in records))
        return before

    def records(self) -> list[dict[str, float]]:
        """Returns all records so far, ascending by step, up to the first damaged one."""
        path = self.file("metrics.jsonl")
        records = []
        if not tf.io.gfile.exists(path):
            return records
        with tf.io.gfile.GFile(path, "rb") as file:
            lines = file.read().decode("utf-8", "replace").splitlines()
        for line in lines:
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                break
            has_step = isinstance(record, dict) and isinstance(record.get("step"), int)
            if not has_step:
                break
            if not all(isinstance(value, (int, float)) for value in record.values()):
                break
            records.append(record)
        return records

    @staticmethod
    def rounded(step: int, values: dict[str, float]) -> dict[str, float]:
        """Returns a record as metrics.jsonl has it: values to six digits, without those that are
        not finite.
        """
        return {
            "step": step,
            **{name: round(float(x), 6) for name, x in values.items() if math.isfinite(x)},
        }

    def record(self, step: int, values: dict[str, float]) -> None:
        """Appends a record to metrics.jsonl and to the TensorBoard events. Raises NotWritten."""
        if not self.chief:
            return
        with (
            writing(self.file("metrics.jsonl")),
            tf.io.gfile.GFile(self.file("metrics.jsonl"), "a") as file,
        ):
            file.write(json.dumps(self.rounded(step, values)) + "\n")
        with writing(self.file("events")):
            self._events = self._events or tf.summary.create_file_writer(self.file("events"))
            with self._events.as_default():
                for name, value in values.items():
                    tf.summary.scalar(name, value, step=step)
            self._events.flush()

    def finish(self, result: dict[str, Any]) -> dict[str, Any]:
        """Writes result.json with the task as 'kind' and how it was 'made', and returns it.

        Raises ValueError if a value is not finite.
        """
        result = {"kind": self._task, **result, "made": provenance.of_result()}
        self.write("result.json", to_json(result))
        return result

    def _is_as_long(self) -> bool:
        """Whether the run was as long when it last began. What else may change on resume changes no
        figure.
        """
        if self._replaces:
            return False
        recorded = read_config(self.path, type(self.config)) if self.has_begun else None
        return recorded is not None and recorded.training.length == self.config.training.length

    def result(self, is_whole: Callable[[dict], bool] = bool) -> dict[str, Any] | None:
        """Returns the result if the run is finished, else None, also if it is to be trained longer.

        A result that is damaged or not `is_whole` counts as none: the end of the run writes it
        again.
        """
        path = self.file("result.json")
        if not self.is_finished or not self._is_as_long():
            return None
        try:
            result = read_json(path)
        except ConfigError as error:
            logging.warning("%s; it will be recomputed", error)
            return None
        if result.get("kind") == self._task and is_whole(result):
            return result
        logging.warning("%s: is not a result of %s; it will be recomputed", path, self._task)
        return None


@functools.cache  # a run of several phases has a directory for each
def warn_once(message: str) -> None:
    """Logs a warning, but not again."""
    logging.warning(message)
