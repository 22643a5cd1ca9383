"""Checkpoints that survive a kill at any point: a run resumes from the newest whole one."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable

import tensorflow as tf
from absl import logging

from cpc_tf.core.files import reason, writing
from cpc_tf.core.settings import ConfigError

# Errors of reading a half-written or damaged checkpoint. A bucket that is out of reach for a moment
# is none of them.
_DAMAGE = (
    tf.errors.DATA_LOSS,
    tf.errors.NOT_FOUND,
    tf.errors.OUT_OF_RANGE,
    tf.errors.INVALID_ARGUMENT,
    tf.errors.UNKNOWN,
)


class Checkpoints:
    """The checkpoints of a run, `WORKDIR/checkpoints/step_00001000.*`.

    TensorFlow writes a checkpoint's data under temporary names, renames them and writes the index
    last: a step without an index was never finished. All tensors carry checksums.

    Args:
      workdir: the run's directory; may be a gs:// path.
      state: what is saved and restored; None if neither is done.
      keep: how many of the latest are kept.
    """

    def __init__(self, workdir: str, state: tf.train.Checkpoint | None = None, keep: int = 3):
        self.directory = os.path.join(workdir, "checkpoints")
        self.state = state
        self.keep = keep
        self._where = f"--workdir={workdir}"

    def steps(self) -> list[int]:
        """Returns the steps of all finished checkpoints, ascending."""
        names = tf.io.gfile.listdir(self.directory) if tf.io.gfile.isdir(self.directory) else []
        matches = [re.fullmatch(r"step_(\d+)\.index", name) for name in names]
        return sorted(int(match[1]) for match in matches if match)

    def path(self, step: int) -> str:
        """Returns the prefix of a step's files."""
        return os.path.join(self.directory, f"step_{step:08d}")

    def save(self, step: int, worker: int = 0) -> None:
        """Writes a checkpoint and removes the oldest ones.

        Args:
          step: its step.
          worker: the index of this process. A collective: every process must call it; only 0, the
            chief, leaves files.
        """
        if worker:  # containers often give all processes the same id
            scratch = os.path.join(self.directory, f"worker_{worker}", "step")
            self.state.write(scratch)
            tf.io.gfile.rmtree(os.path.dirname(scratch))
            return
        with writing(self.path(step)):
            try:
                tf.io.gfile.makedirs(self.directory)
                self.state.write(self.path(step))
            except Exception:
                self.drop_unfinished()  # makes room
                raise
        for old in self.steps()[: -self.keep]:
            self._remove(old)

    def read_first(self, steps: Iterable[int], read: Callable[[int], None]) -> int | None:
        """Reads the first of these steps that is whole and returns it, else None. Warns of each
        damaged one.
        """
        for step in steps:
            try:
                read(step)
                return step
            # IndexError: a data file that was cut. MemoryError: an index whose lengths are damaged.
            except (tf.errors.OpError, IndexError, MemoryError) as error:
                if isinstance(error, tf.errors.OpError) and error.error_code not in _DAMAGE:
                    raise
                logging.warning(
                    "checkpoint %s is damaged (%s) and is skipped", self.path(step), reason(error)
                )
        return None

    def restore(self, preferred: Collection[int] = ()) -> int | None:
        """Restores the newest whole checkpoint and returns its step; None if there are no
        checkpoints.

        Args:
          preferred: steps to try before all others.

        Raises:
          ConfigError: no checkpoint is whole, or the newest is for another network or version.
        """
        steps = sorted(self.steps(), key=lambda step: (step in preferred, step), reverse=True)
        restored = self.read_first(steps, self._read)
        if steps and restored is None:
            raise ConfigError(f"{self._where}: none of its checkpoints can be read; move it away")
        return restored

    def restore_step(self, step: int) -> None:
        """Restores the checkpoint of one step. Raises ConfigError if it cannot be read."""
        if self.read_first([step], self._read) is None:
            raise ConfigError(
                f"{self._where}: the first process resumes from step {step}, whose checkpoint"
                " cannot be read here; all processes must see the same directory"
            )

    def _read(self, step: int) -> None:
        try:
            self.state.read(self.path(step)).assert_existing_objects_matched()
        except (AssertionError, ValueError) as error:
            raise ConfigError(
                f"{self._where}: its checkpoint of step {step} is for another network, or was"
                " written by another version of cpc_tf; finish that run with the version that"
                " began it, or use another --workdir"
            ) from error

    def drop_unfinished(self) -> None:
        """Removes the files of unfinished steps, which a kill or a full disk leaves."""
        finished = {f"step_{step:08d}" for step in self.steps()}
        for name in (
            tf.io.gfile.listdir(self.directory) if tf.io.gfile.isdir(self.directory) else ()
        ):
            path = os.path.join(self.directory, name.rstrip("/"))
            if name.split(".")[0] not in finished and re.match(r"step_\d+|worker_\d+", name):
                tf.io.gfile.rmtree(path) if tf.io.gfile.isdir(path) else tf.io.gfile.remove(path)

    def drop_after(self, step: int) -> None:
        """Removes the checkpoints after `step`: the damaged ones, once a run resumes from
        `step`.
        """
        for later in self.steps():
            if later > step:
                self._remove(later)

    def _remove(self, step: int) -> None:
        # The index goes first: without it the rest does not count.
        names = [
            name
            for name in tf.io.gfile.listdir(self.directory)
            if name.startswith(f"step_{step:08d}.")
        ]
        for name in sorted(names, key=lambda name: not name.endswith(".index")):
            tf.io.gfile.remove(os.path.join(self.directory, name))
